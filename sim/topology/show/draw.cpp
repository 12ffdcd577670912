// SPDX-License-Identifier: Apache-2.0
// Graphviz text of a sketch, and SVG through `dot`.
#include "sim/topology/show/draw.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <map>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/files.h"
#include "sim/base/processes.h"
#include "sim/base/temporary_folder.h"
#include "sim/base/units.h"
#include "sim/topology/show/sketch.h"
#include "sim/topology/show/summary.h"

namespace moesim {
namespace {

constexpr std::size_t most_vertices_in_full = 64;

/// Link classes of generated clusters keep their colours in every drawing; others take spare ones.
const std::map<std::string, std::string> class_colors = {
    {"nvlink", "#1b7f5c"}, {"pcie", "#b4552d"},       {"socket", "#8e44a0"},
    {"nic", "#2f6db5"},    {"leaf-spine", "#17527a"}, {"spine-core", "#0b2f4f"},
    {"local", "#4c7d8c"},  {"global", "#7b5ea7"},     {"torus", "#17527a"},
    {"wan", "#a83a63"},    {"gateway", "#c08a2b"}};
constexpr std::array spare_colors = {"#5b5b5b", "#8a8a2b", "#3d8f8f", "#9c5c5c", "#6a6ab5"};

struct Look {
  const char* fill;
  const char* shape;
  int height;  // layer of the drawing, from NVLink switches up
};

Look look_of(VertexKind kind) {
  switch (kind) {
    case VertexKind::gpu:
      return {"#bfe3cf", "box", 1};
    case VertexKind::nvswitch:
      return {"#8fcfae", "box", 0};
    case VertexKind::pcie_switch:
      return {"#f1d3c0", "box", 2};
    case VertexKind::socket:
      return {"#e6c9e8", "box", 3};
    case VertexKind::nic:
      return {"#c9dcf2", "box", 4};
    case VertexKind::leaf:
      return {"#a9c7ea", "box", 5};
    case VertexKind::spine:
      return {"#8fb4e0", "box", 6};
    case VertexKind::core:
      return {"#759fd3", "box", 7};
    case VertexKind::router:
      return {"#f0dc9a", "ellipse", 8};
  }
  return {"white", "box", 0};
}

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string html(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return out;
}

template <class T>
std::string range(const Span<T>& span) {
  if (span.least == span.most) return to_string(span.least);
  return to_string(span.least) + " ... " + to_string(span.most);
}

std::string color_of(const Topology& topology, int link_class) {
  const auto c = static_cast<std::size_t>(link_class);
  const auto known = class_colors.find(topology.classes()[c].name);
  return known != class_colors.end() ? known->second : spare_colors[c % spare_colors.size()];
}

/// Title and legend of the link classes, below the drawing.
std::string legend(const Topology& topology) {
  std::string rows;
  const std::vector<ClassSummary> classes = classes_of(topology);
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const ClassSummary& link_class = classes[c];
    if (link_class.links == 0) continue;
    rows += fmt::format(
        "<TR><TD ALIGN=\"LEFT\"><FONT COLOR=\"{}\"><B>&#9473;&#9473; {}</B></FONT></TD>"
        "<TD ALIGN=\"RIGHT\">{}</TD><TD ALIGN=\"RIGHT\">{}</TD></TR>\n",
        color_of(topology, static_cast<int>(c)), html(link_class.name),
        range_text(link_class.bandwidth), range(link_class.latency));
  }
  return fmt::format(
      "<<TABLE BORDER=\"0\" CELLBORDER=\"0\" CELLSPACING=\"3\">\n<TR><TD COLSPAN=\"3\"><B>{}</B>: "
      "{} on {}</TD></TR>\n<TR><TD ALIGN=\"LEFT\">link</TD><TD ALIGN=\"RIGHT\">per "
      "direction</TD><TD ALIGN=\"RIGHT\">latency</TD></TR>\n{}</TABLE>>",
      html(topology.name()), counted(topology.gpu_count(), "GPU"),
      counted(topology.host_count(), "host"), rows);
}

/// The label names cables between the vertices that this node stands for.
std::string node_line(const Topology& topology, const Sketch& sketch, std::size_t n) {
  const Sketch::Node& node = sketch.nodes[n];
  const Look look = look_of(node.kind);
  std::string label = escape(node.label);
  for (const Sketch::Edge& edge : sketch.edges) {
    if (edge.a != static_cast<int>(n) || edge.b != edge.a) continue;
    const auto c = static_cast<std::size_t>(edge.link_class);
    label += fmt::format("\\n{:.3g} {} each", edge.per_a, escape(topology.classes()[c].name));
  }
  return fmt::format("  v{} [label=\"{}\", shape={}, fillcolor=\"{}\"{}];\n", n, label, look.shape,
                     look.fill, node.count > 1 ? ", penwidth=2.2" : "");
}

/// Cables per vertex of the lower node; empty for one cable, and inside a host.
std::string edge_label(const Sketch& sketch, const Sketch::Edge& edge) {
  const auto node = [&](int n) { return sketch.nodes[n]; };
  if (node(edge.a).host >= 0 && node(edge.b).host >= 0) return "";
  const bool a_is_low = look_of(node(edge.a).kind).height <= look_of(node(edge.b).kind).height;
  const double per = a_is_low ? edge.per_a : edge.per_b;
  if (per == 1) return "";
  return fmt::format("{:.3g} per {}", per, name_of(node(a_is_low ? edge.a : edge.b).kind));
}

std::string edge_line(const Topology& topology, const Sketch& sketch, const Sketch::Edge& edge) {
  const auto height = [&](int n) { return look_of(sketch.nodes[n].kind).height; };
  int upper = edge.a, lower = edge.b;
  const bool turned = height(upper) < height(lower);
  if (turned) std::swap(upper, lower);
  std::string extra;
  if (edge.one_way) extra += turned ? ", dir=back" : ", dir=forward";
  if (height(upper) == height(lower)) extra += ", constraint=false";
  const std::string label = edge_label(sketch, edge);
  if (!label.empty()) extra += fmt::format(", label=\" {} \"", escape(label));
  return fmt::format("  v{} -> v{} [color=\"{}\"{}];\n", upper, lower,
                     color_of(topology, edge.link_class), extra);
}

/// A host as a Graphviz cluster, its GPUs side by side in their order.
std::string cluster(const Topology& topology, const Sketch& sketch, std::size_t h) {
  std::string out = fmt::format(
      "  subgraph cluster_{} {{\n  label=\"{}\"; style=\"rounded,filled\"; color=\"#b8b8b8\"; "
      "fillcolor=\"#f7f7f4\";\n",
      h, escape(sketch.hosts[h].label));
  std::string gpus;
  for (std::size_t n = 0; n < sketch.nodes.size(); ++n) {
    if (sketch.nodes[n].host != static_cast<int>(h)) continue;
    out += node_line(topology, sketch, n);
    if (sketch.nodes[n].kind == VertexKind::gpu)
      gpus += fmt::format("{}v{}", gpus.empty() ? "" : " -> ", n);
  }
  return out + fmt::format("  {{rank=same; edge [style=invis]; {}}}\n  }}\n", gpus);
}

}  // namespace

std::string draw_dot(const Topology& topology) {
  const Sketch sketch = make_sketch(topology, topology.vertices().size() <= most_vertices_in_full);
  std::string out =
      "digraph topology {\n"
      "  graph [fontname=\"Helvetica\", fontsize=13, labelloc=b, nodesep=0.18, ranksep=0.7, "
      "newrank=true, pad=0.3];\n"
      "  node [fontname=\"Helvetica\", fontsize=11, style=\"rounded,filled\", "
      "color=\"#707070\", height=0.3, margin=\"0.10,0.05\"];\n"
      "  edge [fontname=\"Helvetica\", fontsize=10, dir=none, penwidth=1.3];\n";
  out += "  label=" + legend(topology) + ";\n";
  for (std::size_t h = 0; h < sketch.hosts.size(); ++h) out += cluster(topology, sketch, h);
  for (std::size_t n = 0; n < sketch.nodes.size(); ++n) {
    if (sketch.nodes[n].host < 0) out += node_line(topology, sketch, n);
  }
  for (const Sketch::Edge& edge : sketch.edges) {
    if (edge.a != edge.b) out += edge_line(topology, sketch, edge);
  }
  return out + "}\n";
}

void draw(const Topology& topology, const std::string& file) {
  const std::string suffix = std::filesystem::path(file).extension().string();
  if (suffix == ".dot") return write_file(file, draw_dot(topology));
  if (suffix != ".svg") {
    throw Error(fmt::format("cannot draw to '{}'", file), "name a file that ends in .dot or .svg");
  }
  const std::string dot = find_program("dot");
  if (dot.empty()) {
    throw Error("drawing SVG needs the program 'dot'",
                "install the Debian package graphviz, or draw to a .dot file");
  }
  // 'dot' follows links: it writes into a folder that nobody else could have prepared.
  const TemporaryFolder folder(file);
  const std::string source = folder.path() + "/source.dot",
                    drawing = folder.path() + "/drawing.svg";
  write_file(source, draw_dot(topology));
  if (run_program({dot, "-Tsvg", "-o", drawing, source}) != 0) {
    throw Error(fmt::format("'dot' could not draw {}", file));
  }
  std::filesystem::rename(drawing, file);
}

}  // namespace moesim
