// SPDX-License-Identifier: Apache-2.0
// Engines on a node, and what they give.
#pragma once

#include <string>
#include <vector>

#include "sim/run/engine_cases.h"
#include "sim/run/engine_pool.h"
#include "sim/scenario/scenario.h"

namespace moesim {

/// GPT-OSS 20B on 8 GPUs; `changes`: more of `set`, each after a comma.
inline Scenario pools_scenario(const std::string& serving,
                               const std::string& topology = "h100-rail",
                               const std::string& policy = "deepep-low-latency",
                               const std::string& changes = "") {
  return parse_scenario("topology: " + topology +
                            "\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\npolicy: " + policy +
                            "\nparallel: {tp: 1, ep: 8}\nset: [topology.nodes=1" + changes +
                            "]\nsteps: 3:4\nserving:\n" + serving,
                        "pools.yaml", {});
}

inline std::vector<EngineCase> pools_cases(const Scenario& scenario) {
  const Inputs inputs = open_inputs(scenario);
  return run_engines(scenario, inputs, {.workers = 0}).cases;
}

inline std::string requests_of_tokens(int count, int input, int output) {
  return "  requests: {count: " + std::to_string(count) +
         ", concurrency: " + std::to_string(count) + ", input: " + std::to_string(input) +
         ", output: " + std::to_string(output) + "}\n";
}

}  // namespace moesim
