// SPDX-License-Identifier: Apache-2.0
#include "realhw/cli/source_flags.h"

#include <fmt/format.h>

#include "realhw/measure/saved_source.h"
#ifdef MOESIM_SCENARIOS
#include "realhw/measure/planned_source.h"
#include "sim/scenario/can_execute.h"
#endif

namespace moesim {
namespace {

#ifdef MOESIM_SCENARIOS
std::unique_ptr<StepSource> planned(const Scenario& scenario) {
  if (scenario.topologies.size() != 1) throw Error("moesim-hw takes one topology");
  if (scenario.fidelities != std::vector{Fidelity::port}) {
    throw Error("'fidelity' has no effect on hardware", "leave it out");
  }
  Inputs inputs = open_inputs(scenario);
  if (scenario.iteration) check_can_execute(scenario, inputs.model);
  return planned_source(scenario, std::move(inputs));
}
#endif

}  // namespace

void SourceFlags::add_to(CommandLine& command) {
#ifdef MOESIM_SCENARIOS
  scenario_.add_to(command);
  const std::vector<Flag> of_scenario = command.flags();
#else
  refuse_without_yaml(
      command, {"SCENARIO", "--topology", "--model", "--trace", "--policy", "--set"},
      "plans no scenario", "--saved FILE runs what moesim plan SCENARIO --save FILE wrote");
#endif
  Flag saved = command.add_option("--saved", saved_,
                                  "runs the steps that moesim plan --save wrote to this file");
#ifdef MOESIM_SCENARIOS
  for (const Flag& flag : of_scenario) saved.excludes(flag);
#else
  saved.required();
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

void check_ranks(const std::string& cluster, int gpus, int ranks) {
  if (gpus == ranks) return;
  throw Error(fmt::format("{} has {} GPUs, but {} process{}", cluster, gpus, ranks,
                          ranks == 1 ? " runs" : "es run"),
              fmt::format("start {} ranks (docs/realhw.md), or resize the cluster with --set "
                          "topology.nodes=...",
                          gpus));
}

/// The flags stay known, so that the message says why they do not work here.
void refuse_without_yaml(CommandLine& command, const std::vector<std::string>& flags,
                         const std::string& cannot, const std::string& hint) {
  const auto refuse = [=](const std::string&) {
    throw Error("this moesim-hw was built without YAML and " + cannot, hint);
  };
  for (const std::string& name : flags) {
    command.add_option(name, refuse, "").hidden();
  }
}

}  // namespace moesim
