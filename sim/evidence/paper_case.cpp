// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/paper_case.h"

#include <fmt/format.h>

#include "sim/run/simulate.h"
#include "sim/scenario/scenario_text.h"

namespace moesim {

Scenario scenario_of(const PaperSetting& setting, std::vector<Override> flags,
                     const PaperVariant& variant) {
  flags.insert(flags.end(), variant.flags.begin(), variant.flags.end());
  flags.push_back({"policy", variant.policy, "policy: " + variant.policy});
  flags.push_back({"memory", "ignore", "memory: ignore"});
  return read_scenario(setting.scenario, flags);
}

std::string hash_of_inputs(const Scenario& scenario, const Inputs& inputs) {
  std::string all = inputs.trace_file().hash + inputs.model_file.hash;
  for (const InputFile& file : inputs.system_files) all += file.hash;
  for (const InputFile& file : inputs.transport_files) all += file.hash;
  all += inputs.software_file.hash;
  for (const ClusterInput& cluster : inputs.clusters) {
    all += cluster.file.hash;
    for (const InputFile& file : cluster.gpu_files) all += file.hash;
    all += fmt::format(" {} {} {}", cluster.ep, cluster.batches.tokens_per_rank,
                       cluster.batches.batches.size());
  }
  Scenario without_files = scenario;  // their paths differ between machines
  without_files.topologies.clear();
  without_files.model.clear();
  without_files.trace.clear();
  without_files.policies.clear();
  return hash_of(all + scenario_line(without_files));
}

IterationFigures iteration_figures(const Scenario& scenario, const Inputs& inputs) {
  ComparisonOptions here;
  here.workers = 0;
  return *simulate(scenario, inputs, here).cases[0].metrics.iteration;
}

}  // namespace moesim
