// SPDX-License-Identifier: Apache-2.0
// A scenario that is written down and read again is the same.
#include "sim/scenario/scenario_text.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <tuple>

#include "sim/base/files.h"

namespace moesim {
namespace {

auto facts(const Scenario& s) {
  std::vector<std::string> set;
  for (const Override& o : s.set) set.push_back(o.path + "=" + o.value);
  return std::make_tuple(s.topologies, s.model, s.trace, s.policies, s.fidelities, s.p2p_order,
                         s.ep, s.tokens_per_rank, s.repeat, s.warmup, s.steps.first, s.steps.last,
                         s.recorded_layers, s.layers, s.backward, s.attention, s.memory,
                         s.accumulate, s.gradient_bytes, s.optimizer_bytes, s.transport, set);
}

Scenario read_again(const Scenario& scenario) {
  const auto path = std::filesystem::path(testing::TempDir()) / "scenario_text_test.yaml";
  write_file(path.string(), to_text(scenario));
  const Scenario again = read_scenario(path.string(), {});
  std::filesystem::remove(path);
  return again;
}

Scenario of_flags(std::vector<Override> more) {
  more.insert(more.end(), {{"topology", "h100-rail", "t"},
                           {"model", "'010'", "m"},
                           {"trace", "'/no/such: \"trace\"'", "r"},
                           {"policy", "[dedup, megatron]", "p"}});
  return read_scenario("", more);
}

TEST(ScenarioText, ReadsBackAsItWas) {
  const std::vector<std::vector<Override>> cases = {
      {},
      {{"fidelity", "flow", "f"}, {"p2p_order", "nccl", "o"}},
      {{"accumulate", "8", "a"}},
      {{"transport", "ideal", "t"}},
      {{"transport", "deepep-ll", "t"}},
      {{"accumulate", "never", "a"}},
      {{"ep", "4", "e"}, {"tokens_per_rank", "16", "k"}, {"repeat", "3", "r"}},
      {{"warmup", "2", "w"}, {"steps", "3:10", "s"}, {"layers", "[2, 1]", "l"}},
      {{"steps", "'7'", "s"}, {"layers", "recorded", "l"}},
      {{"pass", "forward", "p"}, {"attention", "false", "a"}, {"memory", "ignore", "m"}},
      {{"gradient_bytes", "4", "g"}, {"optimizer_bytes", "8", "o"}},
      {{"set", "topology.nodes=2", "s"}, {"set", "model.name=a=b: 'c'", "s"}},
  };
  for (const auto& flags : cases) {
    const Scenario scenario = of_flags(flags);
    EXPECT_EQ(facts(read_again(scenario)), facts(scenario)) << to_text(scenario);
  }
}

}  // namespace
}  // namespace moesim
