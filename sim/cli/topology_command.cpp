// SPDX-License-Identifier: Apache-2.0
// `moesim topology show|check|draw`: looks at a cluster before anything runs on it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "sim/base/data_files.h"
#include "sim/cli/commands.h"
#include "sim/topology/reader.h"

namespace moesim {
namespace {

struct Flags {
  std::string name;
  std::vector<std::string> set;
};

TopologyFile read(const Flags& flags) {
  std::vector<Override> overrides;
  for (const std::string& text : flags.set) overrides.push_back(parse_override(text));
  TopologyFile file = read_topology(data_file("topologies", flags.name), overrides);
  for (const Diagnostic& warning : file.warnings) fmt::print(stderr, "{}", warning.str());
  return file;
}

}  // namespace

void add_topology_command(CLI::App& app) {
  CLI::App* topology = app.add_subcommand("topology", "Look at a cluster");
  topology->require_subcommand(1);
  const auto flags = std::make_shared<Flags>();
  CLI::App* check = topology->add_subcommand("check", "Read a topology and find all routes");
  check->add_option("name", flags->name, "A topology or a file")->required();
  check->add_option("--set", flags->set, "path=value: change a field");
  check->callback([flags] {
    const TopologyFile file = read(*flags);
    fmt::print("{}: {} GPUs on {} hosts, every GPU reaches every other\n", file.topology.name(),
               file.topology.gpu_count(), file.topology.host_count());
  });
}

}  // namespace moesim
