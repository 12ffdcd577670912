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
#include "sim/topology/import/gpu_families.h"
#include "sim/topology/import/import.h"
#include "sim/topology/reader.h"
#include "sim/topology/show/draw.h"
#include "sim/topology/show/summary.h"

namespace moesim {
namespace {

/// Files of others to make a topology of.
struct TopologyImport {
  std::vector<std::string> files;
  std::string gpu;
  OutputFile out{"-"};
};

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

/// Throws Error unless a model of this GPU is there: "H100" is the name of a device.
void check_stated_gpu(const std::string& model) {
  try {
    if (!model.empty()) data_file("models/gpu", model);
  } catch (const Error& e) {
    const Diagnostic& d = e.diagnostics().front();
    const GpuFamily* family = family_named(model);
    const auto names = data_names("models/gpu");
    const bool meant = family && std::ranges::find(names, family->model) != names.end();
    throw Error("--gpu: " + d.message,
                meant ? fmt::format("did you mean '{}'?", family->model) : d.hint);
  }
}

std::set<std::string> gpu_models(const Topology& topology) {
  std::set<std::string> models;
  for (const GpuId gpu : topology.all_gpus()) models.insert(topology.gpu_model(gpu));
  return models;
}

/// What is imported may be a GPU that only its topology is known of.
void warn_of_unknown_gpus(const Topology& topology, const std::string& file) {
  for (const std::string& model : gpu_models(topology)) {
    try {
      data_file("models/gpu", model);
    } catch (const Error&) {
      const Diagnostic warning{
          Severity::warning,
          file == "-" ? topology.name() : file,
          0,
          0,
          fmt::format("no '{}' in models/gpu: nothing runs on this cluster yet", model),
          "",
          "--gpu takes a name of moesim list gpus; or write a file of models/gpu"};
      fmt::print(stderr, "{}", warning.str());
    }
  }
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

/// Writes the topology, which must read back; says on the side what it is.
void import_topology(const TopologyImport& options) {
  check_stated_gpu(options.gpu);
  std::vector<ClusterFacts> facts;
  for (const std::string& file : options.files) {
    const bool input = file == "-";
    facts.push_back(input ? parse_facts(read_file_or_input(file), "standard input")
                          : read_facts(file));
    if (input) continue;
    facts.back().file = std::filesystem::path(file).filename().string();  // others read the result
  }
  const std::string text = topology_text(facts, options.gpu);
  const TopologyFile file =
      parse_topology(text, options.out.printed() ? "imported" : options.out.path());
  warn_of_unknown_gpus(file.topology, options.out.path());
  options.out.write(text);  // NICs of one node are for whoever sets more: no warning
  fmt::print(options.out.beside(), "{} on {}, {} assumed\n",
             counted(file.topology.gpu_count(), "GPU"), counted(file.topology.host_count(), "host"),
             counted(assumed_in(text).size(), "value"));
}

void add_import(CommandLine& topology) {
  const auto options = std::make_shared<TopologyImport>();
  CommandLine command = topology.add_subcommand(
      "import", "Makes a topology of what a cluster says of itself: docs/topology-import.md");
  command
      .add_option("FILE", options->files,
                  "dumps of NCCL, nvidia-smi topo -m, rocm-smi --showtopo, ibnetdiscover, Slurm, "
                  "topograph, lstopo, "
                  "kubectl; several describe one cluster; - is standard input")
      .required();
  command.add_option("--gpu", options->gpu, "GPU model: a name of `moesim list gpus`");
  options->out.add_to(command, "-o,--out", "the file to write (default: prints it)");
  command.callback([options] { import_topology(*options); });
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
  add_import(topology);
  drawn.callback([options] { draw(open_topology(*options).topology, options->out); });
}

}  // namespace moesim
