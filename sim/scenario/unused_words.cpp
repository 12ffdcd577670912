// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/unused_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "sim/model/blocks.h"
#include "sim/scenario/changes.h"

namespace moesim {
namespace {

/// Changes of only one GPU model that no cluster has.
void warn_of_gpu_changes(const Scenario& scenario, Inputs& inputs) {
  std::set<std::string> models;
  for (const ClusterInput& cluster : inputs.clusters) {
    for (const InputFile& file : cluster.gpu_files) models.insert(file.name);
  }
  for (Diagnostic& d : unreached(scenario.set, "gpu", {models.begin(), models.end()})) {
    d.severity = Severity::warning;
    inputs.warnings.push_back(std::move(d));
  }
}

/// What runs nothing again in this model.
void warn_of_recompute(const Scenario& scenario, Inputs& inputs) {
  if (!scenario.iteration) return;
  const auto names = without_effect(scenario.iteration->recompute, inputs.model);
  if (names.empty()) return;
  inputs.warnings.push_back(
      {Severity::warning, "", 0, 0,
       fmt::format("'recompute': '{}' has nothing that {} run{} again", inputs.model.name,
                   fmt::join(names, " or "), names.size() == 1 ? "s" : ""),
       "", "leave it out"});
}

/// What leaves nothing to the memory of the host in this model.
void warn_of_offload(const Scenario& scenario, Inputs& inputs) {
  if (!scenario.iteration) return;
  const auto& [offload, recompute] =
      std::tie(scenario.iteration->offload, scenario.iteration->recompute);
  const auto names = without_effect(offload, inputs.model, recompute);
  if (names.empty()) return;
  inputs.warnings.push_back({Severity::warning, "", 0, 0,
                             fmt::format("'offload': '{}' keeps nothing of {} to be moved",
                                         inputs.model.name, fmt::join(names, " or ")),
                             "", "leave it out"});
}

}  // namespace

void warn_of_what_is_unused(const Scenario& scenario, Inputs& inputs) {
  warn_of_gpu_changes(scenario, inputs);
  warn_of_recompute(scenario, inputs);
  warn_of_offload(scenario, inputs);
}

}  // namespace moesim
