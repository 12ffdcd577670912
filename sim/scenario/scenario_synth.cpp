// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/scenario_synth.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/counted.h"
#include "sim/trace/synth/synth_reader.h"

namespace moesim {
namespace {

std::vector<int> layers_for(const Scenario& scenario, const MoeModel& model) {
  const std::vector<int>& all = model.moe_layers;
  std::size_t count = scenario.synth->layers.size();
  if (count == 0 && !scenario.layers.empty()) return scenario.layers;
  if (count == 0) count = scenario.recorded_layers ? 1 : all.size();
  if (count > all.size()) {
    throw Error(fmt::format("'synth': {}, and the model '{}' has {} with experts",
                            counted(count, "layer"), model.name, all.size()),
                "leave synth.layers out, and they are the model's");
  }
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace

bool is_synth_key(const std::string& change) {
  return change.substr(0, change.find_first_of(".=")) == "synth";
}

std::optional<SynthOptions> synth_in(const YamlMap& scenario, const std::vector<Override>& flags) {
  const bool trace_flagged = std::ranges::find(flags, "trace", &Override::path) != flags.end();
  const bool synth_flagged =
      std::ranges::any_of(flags, [](const Override& flag) { return is_synth_key(flag.path); });
  const auto synth = scenario.find("synth");
  const bool has_trace = scenario.find("trace").has_value();
  if (!synth) return std::nullopt;
  if (has_trace && trace_flagged == synth_flagged) {
    synth->error("'synth' draws a trace, and 'trace' names one", "leave one of them out");
  }
  if (has_trace && trace_flagged) return std::nullopt;
  return read_synth(synth->map());
}

SynthOptions drawn_for(const Scenario& scenario, const MoeModel& model) {
  SynthOptions options = *scenario.synth;
  if (options.experts == 0) options.experts = model.experts;
  if (options.top_k == 0) options.top_k = model.top_k;
  options.layers = layers_for(scenario, model);
  return options;
}

}  // namespace moesim
