// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/scenario_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

std::string steps_text(const StepRange& range) {
  if (range.last >= 0) return fmt::format("{}:{}", range.first, range.last);
  return "all";
}

}  // namespace

std::string to_text(const Scenario& s) {
  Json fidelities = Json::array(), set = Json::array();
  for (const Fidelity f : s.fidelities) {
    fidelities.push_back(fidelity_names[static_cast<std::size_t>(f)]);
  }
  for (const Override& o : s.set) set.push_back(o.path + "=" + o.value);
  Json json = {{"topology", s.topologies},    {"model", s.model},       {"trace", s.trace},
               {"policy", s.policies},        {"fidelity", fidelities}, {"repeat", s.repeat},
               {"steps", steps_text(s.steps)}};
  if (s.warmup > 0) json["warmup"] = s.warmup;
  if (s.p2p_order == P2pOrder::nccl) json["p2p_order"] = "nccl";
  if (s.ep) json["ep"] = *s.ep;
  if (s.tokens_per_rank) json["tokens_per_rank"] = *s.tokens_per_rank;
  if (s.recorded_layers) json["layers"] = "recorded";
  if (!s.layers.empty()) json["layers"] = s.layers;
  json["pass"] = s.backward ? "forward+backward" : "forward";
  json["attention"] = s.attention;
  json["memory"] = memory_checks[static_cast<std::size_t>(s.memory)];
  if (s.accumulate == 0) json["accumulate"] = "never";
  if (s.accumulate > 1) json["accumulate"] = s.accumulate;
  json["gradient_bytes"] = s.gradient_bytes;
  json["optimizer_bytes"] = s.optimizer_bytes;
  if (!s.set.empty()) json["set"] = set;
  return json.dump(1) + "\n";
}

}  // namespace moesim
