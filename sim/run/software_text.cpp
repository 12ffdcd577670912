// SPDX-License-Identifier: Apache-2.0
#include "sim/run/software_text.h"

#include <fmt/format.h>

#include <map>
#include <set>

namespace moesim {
namespace {

std::string during_the_passes(const OverlapSpec& overlap) {
  if (!overlap.gradients) return "gradients are summed after the passes";
  return overlap.parameters ? "gradients are summed and parameters gathered during the passes"
                            : "gradients are summed during the backward passes";
}

std::string rates_text(const Software& software, const GpuModel& gpu) {
  const auto kept = gpu.training.find(DataType::bf16);
  const double part = kept == gpu.training.end() ? 1 : kept->second;
  std::string text =
      part == 1 ? "its kernels' own rates" : fmt::format("{:.2g} of its kernels' own rates", part);
  if (!software.measured_on(gpu.die)) {
    text += fmt::format(" (assumed: nobody measured {} on it)", software.name);
  }
  return text;
}

/// Describes every GPU model, as rates and hosts may differ.
std::string gpus_text(const Inputs& inputs) {
  std::map<std::string, std::string> of_models;
  for (const ClusterInput& cluster : inputs.clusters) {
    for (const auto& gpu : cluster.gpus) {
      std::string& text = of_models[gpu->name];
      if (!text.empty()) continue;
      text = rates_text(inputs.software, *gpu) +
             "; host: " + (gpu->host.takes_time() ? gpu->host.text() : "takes no time");
    }
  }
  std::string text;
  for (const auto& [gpu, words] : of_models) text += fmt::format("#   {}: {}\n", gpu, words);
  return text;
}

/// Parameters of the dispatches that policies have, if these leave them open.
std::string dispatches_text(const Scenario& scenario, const Inputs& inputs) {
  std::set<std::string> kinds;
  for (const SystemSpec& system : inputs.systems) kinds.insert(system.dispatch.name);
  std::string text;
  for (const std::string& kind : kinds) {
    std::string parameters;
    for (const Override& change :
         inputs.software.changes_of_policy(kind, exchanges_next_to_kernels(*scenario.iteration))) {
      std::string value = change.value;
      std::erase(value, '"');
      parameters += fmt::format("{}{} {}", parameters.empty() ? "" : ", ",
                                change.path.substr(change.path.find('.') + 1), value);
    }
    if (parameters.empty()) continue;
    text +=
        fmt::format("#   dispatch {}, unless its policy says otherwise: {}\n", kind, parameters);
  }
  return text;
}

}  // namespace

std::string software_text(const Scenario& scenario, const Inputs& inputs) {
  if (scenario.software.empty()) return "";
  if (scenario.serves()) {
    return fmt::format("# software {}{}\n", inputs.software.name,
                       scenario.software_stated ? "" : " (by default)") +
           gpus_text(inputs) + dispatches_text(scenario, inputs);
  }
  return fmt::format(
             "# software {}{}: per parameter {} bytes of gradients, {} of optimizer state; {}\n",
             inputs.software.name,
             scenario.software_stated ? "" : " (by default; until 0.2: ideal)",
             scenario.gradient_bytes, scenario.optimizer_bytes,
             during_the_passes(scenario.iteration->overlap)) +
         gpus_text(inputs) + dispatches_text(scenario, inputs);
}

}  // namespace moesim
