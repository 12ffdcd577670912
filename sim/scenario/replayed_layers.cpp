// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/replayed_layers.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/model/layer_numbers.h"

namespace moesim {
namespace {

/// A dense layer has no experts: its routing is another model's, or its number is wrong.
void check_not_dense(const Scenario& scenario, const std::vector<int>& numbers,
                     const MoeModel& model, std::vector<Diagnostic>& warnings) {
  const std::vector<int> dense = dense_layers(numbers, model);
  if (dense.empty()) return;
  const std::string message = "'layers': " + dense_layers_text(dense, model);
  if (scenario.recorded_layers) {
    warnings.push_back({Severity::warning, scenario.trace, 0, 0, message, "",
                        "they are replayed because of 'layers: recorded'"});
    return;
  }
  throw error_in(scenario.trace, message,
                 "replay others, or say 'layers: recorded' to replay them all the same; `moesim "
                 "trace synth --model` numbers as the model does");
}

}  // namespace

std::vector<int> choose_layers(const Scenario& scenario, const TraceInfo& trace,
                               const MoeModel& model, std::vector<Diagnostic>& warnings) {
  std::vector<int> chosen;
  for (int number : scenario.layers) {
    const auto it = std::find(trace.layers.begin(), trace.layers.end(), number);
    if (it == trace.layers.end()) {
      throw Error(fmt::format("'layers': layer {} is not in the trace", number),
                  "recorded: " + numbers_text(trace.layers));
    }
    chosen.push_back(static_cast<int>(it - trace.layers.begin()));
  }
  if (!chosen.empty()) {
    check_not_dense(scenario, scenario.layers, model, warnings);
    return chosen;
  }
  check_not_dense(scenario, trace.layers, model, warnings);
  if (trace.layers != model.moe_layers && !scenario.recorded_layers && !scenario.synth) {
    warnings.push_back(
        {Severity::warning, scenario.trace, 0, 0,
         fmt::format("'layers': the trace has {} MoE layers ({}), the model '{}' has {} ({}); only "
                     "the recorded ones are replayed",
                     trace.layers.size(), numbers_text(trace.layers), model.name,
                     model.moe_layers.size(), numbers_text(model.moe_layers)),
         "", "say 'layers: recorded' when that is meant"});
  }
  for (std::size_t i = 0; i < trace.layers.size(); ++i) chosen.push_back(static_cast<int>(i));
  return chosen;
}

}  // namespace moesim
