// SPDX-License-Identifier: Apache-2.0
// moesim topology import: a topology of what a cluster says of itself.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <sstream>
#include <string_view>

#include "sim/base/data_files.h"
#include "sim/base/figures.h"
#include "sim/base/files.h"
#include "sim/cli/commands.h"
#include "sim/flags/output_file.h"
#include "sim/topology/import/gpu_families.h"
#include "sim/topology/import/import.h"
#include "sim/topology/reader.h"

namespace moesim {
namespace {

/// Files of others to make a topology of.
struct TopologyImport {
  std::vector<std::string> files;
  std::string gpu;
  OutputFile out{"-"};
};

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

/// What is imported may be a GPU that only its topology is known of.
void warn_of_unknown_gpus(const Topology& topology, const std::string& file) {
  std::set<std::string> models;
  for (const GpuId gpu : topology.all_gpus()) models.insert(topology.gpu_model(gpu));
  for (const std::string& model : models) {
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

/// What the files say and the topology does not.
void warn_of_left_out(const std::string& text, const std::string& file) {
  constexpr std::string_view begin = "# left out: ";
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(begin)) continue;
    fmt::print(stderr, "{}: warning: leaves out: {}\n", file, line.substr(begin.size()));
  }
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
  warn_of_left_out(text, options.out.printed() ? file.topology.name() : options.out.path());
  options.out.write(text);  // NICs of one node are for whoever sets more: no warning
  fmt::print(options.out.beside(), "{} on {}, {} assumed\n",
             counted(file.topology.gpu_count(), "GPU"), counted(file.topology.host_count(), "host"),
             counted(assumed_in(text).size(), "value"));
}

}  // namespace

void add_topology_import(CommandLine& topology) {
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

}  // namespace moesim
