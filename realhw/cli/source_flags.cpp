// SPDX-License-Identifier: Apache-2.0
#include "realhw/cli/source_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "realhw/measure/saved_source.h"
#ifdef MOESIM_SCENARIOS
#include "realhw/measure/planned_source.h"
#endif

namespace moesim {
namespace {

#ifdef MOESIM_SCENARIOS
std::unique_ptr<StepSource> planned(const Scenario& scenario) {
  if (scenario.topologies.size() != 1) throw Error("moesim-hw takes one topology");
  if (scenario.fidelities != std::vector{Fidelity::port}) {
    throw Error("'fidelity' has no effect on hardware", "leave it out");
  }
  if (scenario.p2p_order != P2pOrder::all_at_once) {
    throw Error("'p2p_order' has no effect on hardware", "leave it out");
  }
  return planned_source(scenario, open_inputs(scenario));
}
#else
/// The flags of a scenario say why they are not there.
void add_refusals(CLI::App& command) {
  const auto refuse = [](const std::string&) {
    throw Error("this moesim-hw was built without YAML and plans no scenario",
                "--saved FILE runs what moesim plan SCENARIO --save FILE wrote");
  };
  for (const char* name : {"SCENARIO", "--topology", "--model", "--trace", "--policy", "--set"}) {
    command.add_option_function<std::string>(name, refuse)->group("");
  }
}
#endif

}  // namespace

void SourceFlags::add_to(CLI::App& command) {
#ifdef MOESIM_SCENARIOS
  scenario_.add_to(command);
  const std::vector<CLI::Option*> of_scenario = command.get_options();
#else
  add_refusals(command);
#endif
  CLI::Option* saved = command.add_option(
      "--saved", saved_, "runs the steps that moesim plan --save wrote to this file");
#ifdef MOESIM_SCENARIOS
  for (CLI::Option* flag : of_scenario) {
    if (flag != command.get_help_ptr()) saved->excludes(flag);
  }
#else
  saved->required();
#endif
}

std::unique_ptr<StepSource> SourceFlags::open() const {
  if (!saved_.empty()) return saved_source(saved_);
#ifdef MOESIM_SCENARIOS
  return planned(scenario_.read());
#else
  throw Error("no steps to run", "--saved FILE");
#endif
}

void check_ranks(const StepSource& source, int ranks) {
  const Topology& cluster = source.cluster();
  if (cluster.gpu_count() == ranks) return;
  throw Error(fmt::format("{} has {} GPUs, but {} process{}", cluster.name(), cluster.gpu_count(),
                          ranks, ranks == 1 ? " runs" : "es run"),
              fmt::format("start {} ranks (docs/realhw.md), or take another cluster by --set "
                          "topology.nodes=...",
                          cluster.gpu_count()));
}

}  // namespace moesim
