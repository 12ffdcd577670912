// SPDX-License-Identifier: Apache-2.0
// moesim topology: shows, checks and draws a cluster before you simulate anything on it.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/data_files.h"
#include "sim/base/figures.h"
#include "sim/base/file_claims.h"
#include "sim/base/file_in_parts.h"
#include "sim/base/files.h"
#include "sim/base/json.h"
#include "sim/base/units.h"
#include "sim/cli/commands.h"
#include "sim/flags/output_file.h"
#include "sim/flags/print_flags.h"
#include "sim/scenario/changes.h"
#include "sim/topology/import/import.h"
#include "sim/topology/reader.h"
#include "sim/topology/show/draw.h"
#include "sim/topology/show/summary.h"

namespace moesim {
namespace {

struct TopologyOptions {
  std::string name;
  std::vector<std::string> set;
  std::string out;
  ResultOutput output;
};

TopologyFile open_topology(const TopologyOptions& options) {
  TopologyFile file = read_topology(data_file("topologies", options.name),
                                    changes_of_topology(options.set, options.name));
  for (const Diagnostic& w : file.warnings) fmt::print(stderr, "{}", w.str());
  return file;
}

std::string range(const Span<int>& span) {
  return span.least == span.most ? std::to_string(span.least)
                                 : fmt::format("{} ... {}", span.least, span.most);
}

template <class T>
std::string range(const Span<T>& span) {
  return span.least == span.most
             ? to_string(span.least)
             : fmt::format("{} ... {}", to_string(span.least), to_string(span.most));
}

std::string halves(const Bisection& b) {
  return fmt::format("bisection, {} | {} {}s", b.first, b.second, b.level);
}

/// A range as text. If its least and most values are equal, the cell also has the value as a
/// number.
template <class T>
Cell range_cell(const Span<T>& span) {
  return span.least == span.most ? Cell(span.least) : Cell(range(span));
}
Cell range_cell(const Span<BytesPerSecond>& span) {
  Cell cell(range_text(span));
  if (span.least == span.most) cell = {cell.text, span.least.value, "B/s"};
  return cell;
}

Printout summary_text(const Topology& topology, const Summary& summary) {
  Printout printout;
  printout.add(fmt::format("{}: {} on {}, exchange overhead {}\n\n", topology.name(),
                           counted(topology.gpu_count(), "GPU"),
                           counted(topology.host_count(), "host"),
                           to_string(topology.exchange_overhead())));
  Table levels("levels", 1, {"level", "groups", "GPUs each"});
  for (const LevelSummary& l : summary.levels) {
    levels.rows.push_back({l.name, l.groups, range_cell(l.gpus)});
  }
  Table links("links", 2, {"links", "tier", "count", "bandwidth", "latency"});
  for (const ClassSummary& c : summary.classes) {
    links.rows.push_back(
        {c.name, name_of(c.tier), c.links, range_cell(c.bandwidth), range_cell(c.latency)});
  }
  Table out("bandwidths", 1, {"one direction", "bandwidth"});
  for (const GpuBandwidth& g : summary.gpus) {
    out.rows.push_back({"out of a GPU, " + g.link_class, range_cell(g.out)});
  }
  if (summary.node_out.most.value > 0) {
    out.rows.push_back({"out of a node", range_cell(summary.node_out)});
  }
  if (topology.gpu_count() > 1) {
    const BytesPerSecond half = summary.bisection.bandwidth;
    out.rows.push_back({halves(summary.bisection), Cell(to_string(half), half.value, "B/s")});
  }
  return printout.add(std::move(levels))
      .add("\n")
      .add(std::move(links))
      .add("\n")
      .add(std::move(out));
}

using Json = nlohmann::ordered_json;

template <class T>
Json json_of(const Span<T>& span) {
  return {{"least", span.least.value}, {"most", span.most.value}};
}

/// Everything that `show` prints, in bytes per second and seconds. A link counts once for each of
/// its directions.
Json summary_json(const TopologyFile& file, const Summary& summary) {
  const Topology& topology = file.topology;
  Json json = {{"name", topology.name()},
               {"gpus", topology.gpu_count()},
               {"hosts", topology.host_count()},
               {"exchange_overhead", topology.exchange_overhead().value}};
  for (const LevelSummary& l : summary.levels) {
    json["levels"].push_back({{"name", l.name},
                              {"groups", l.groups},
                              {"gpus", {{"least", l.gpus.least}, {"most", l.gpus.most}}}});
  }
  for (const ClassSummary& c : summary.classes) {
    json["links"].push_back({{"class", c.name},
                             {"tier", name_of(c.tier)},
                             {"count", c.links},
                             {"bandwidth", json_of(c.bandwidth)},
                             {"latency", json_of(c.latency)}});
  }
  for (const GpuBandwidth& g : summary.gpus) json["gpu_out"][g.link_class] = json_of(g.out);
  json["node_out"] = json_of(summary.node_out);
  const Bisection& b = summary.bisection;
  if (topology.gpu_count() > 1) {
    json["bisection"] = {{"level", b.level},
                         {"first", b.first},
                         {"second", b.second},
                         {"bandwidth", b.bandwidth.value}};
  }
  json["file"] = own_json(file.resolved);
  return json;
}

void show(const TopologyOptions& options) {
  const TopologyFile file = open_topology(options);
  const Summary summary = summarize(file.topology);
  options.output.write([&] { return summary_json(file, summary).dump(2) + "\n"; },
                       summary_text(file.topology, summary));
}

void find_gpu_model(const std::string& model, const std::string& topology) {
  try {
    data_file("models/gpu", model);
  } catch (const Error& e) {
    const Diagnostic& d = e.diagnostics().front();
    throw error_in(topology, "'gpu': " + d.message, d.hint);
  }
}

std::set<std::string> gpu_models(const Topology& topology) {
  std::set<std::string> models;
  for (const GpuId gpu : topology.all_gpus()) models.insert(topology.gpu_model(gpu));
  return models;
}

/// Reads the topology, which reports mistakes of the file and pairs of GPUs without a route. Then
/// looks for unknown GPU models and prints warnings.
void check(const TopologyOptions& options) {
  const TopologyFile file = open_topology(options);
  const Topology& topology = file.topology;
  for (const std::string& model : gpu_models(topology)) find_gpu_model(model, options.name);
  constexpr std::size_t most_lines = 20;
  const std::vector<std::string> odd = oddities(topology);
  for (std::size_t i = 0; i < odd.size() && i < most_lines; ++i) {
    fmt::print(stderr, "{}: warning: {}\n", topology.name(), odd[i]);
  }
  if (odd.size() > most_lines) {
    fmt::print(stderr, "{}: ... and {} more\n", topology.name(), odd.size() - most_lines);
  }
  fmt::print("{}: {} on {}, {}; every GPU reaches every other; {}\n", topology.name(),
             counted(topology.gpu_count(), "GPU"), counted(topology.host_count(), "host"),
             counted(topology.links().size(), "link"),
             counted(file.warnings.size() + odd.size(), "warning"));
  const std::string path = data_file("topologies", options.name);
  const std::vector<std::string> assumed = assumed_in(read_file(path));
  if (assumed.empty()) return;
  fmt::print("{} values are assumed: measure them (moesim-hw calibrate), or ask the vendor\n",
             assumed.size());
  for (const std::string& value : assumed) fmt::print("  {}\n", value);
}

}  // namespace

void add_topology_command(CommandLine& app) {
  const auto options = std::make_shared<TopologyOptions>();
  CommandLine topology = app.add_subcommand("topology", "Shows, checks and draws clusters");
  topology.require_subcommand();
  const auto add = [&](const std::string& name, const std::string& description) {
    CommandLine command = topology.add_subcommand(name, description);
    command.add_option("name", options->name, "a topology or a YAML file").required();
    command.add_option("--set", options->set, "changes a field: topology.PATH=VALUE")
        .one_value_each();
    return command;
  };
  CommandLine shown = add("show", "Prints levels, capacities and bisection bandwidth");
  options->output.add_to(shown, "writes all of it to a file");
  shown.callback([options] { show(*options); });
  add("check", "Finds mistakes, missing routes and fields without effect").callback([options] {
    check(*options);
  });
  CommandLine drawn = add("draw", "Draws the cluster with Graphviz");
  const auto keep_out = [options](const std::string& path) {
    claim_output(path);
    options->out = output_target(path);
  };
  drawn.add_option("-o,--out", keep_out, "FILE.svg or FILE.dot").required();
  add_topology_import(topology);
  drawn.callback([options] { draw(open_topology(*options).topology, options->out); });
}

}  // namespace moesim
