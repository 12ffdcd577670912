// SPDX-License-Identifier: Apache-2.0
// Scenarios that run an engine, by their keys below `serving`.
#pragma once

#include <string>

#include "sim/scenario/scenario.h"
#include "tests/error_of.h"

namespace moesim {

inline Scenario engine_scenario(const std::string& serving) {
  return parse_scenario(
      "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\n"
      "policy: deepep-low-latency\nserving:\n" +
          serving,
      "engine.yaml", {});
}

inline std::string engine_mistakes(const std::string& serving) {
  return error_of([&] { engine_scenario(serving); });
}

inline const std::string few_requests =
    "  requests: {count: 3, concurrency: 2, input: 10, output: 4}\n";

}  // namespace moesim
