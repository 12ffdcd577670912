// SPDX-License-Identifier: Apache-2.0
// What has almost nothing to compute or move, or links of absurd bandwidths, has finite figures: no
// NaN, infinity or negative zero reaches a result, for any policy at any fidelity.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/data_files.h"
#include "sim/base/temporary_folder.h"
#include "sim/run/simulate.h"
#include "sim/trace/synth/synth.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

struct Extreme {
  const char* name;
  int experts, top_k;
  std::vector<std::string> cluster;  // changes of h100-rail
};

const std::vector<std::string> one_gpu = {"nodes=1", "node.gpus=1", "node.nics.count=1"};
const std::vector<std::string> two_gpus = {"nodes=2", "node.gpus=1", "node.nics.count=1"};

std::vector<std::string> with(std::vector<std::string> changes, std::vector<std::string> more) {
  changes.insert(changes.end(), more.begin(), more.end());
  return changes;
}

void expect_finite(const Json& value, const std::string& path) {
  for (const auto& [key, item] : value.items()) {
    if (item.is_structured()) expect_finite(item, path + "." + key);
    if (!item.is_number_float()) continue;
    const double number = item.get<double>();
    EXPECT_TRUE(std::isfinite(number)) << path << "." << key << " is " << number;
    EXPECT_FALSE(number == 0 && std::signbit(number)) << path << "." << key << " is -0";
  }
}

class NumbersTest : public testing::TestWithParam<Extreme> {};

TEST_P(NumbersTest, AreFinite) {
  const Extreme& extreme = GetParam();
  const TemporaryFolder folder;
  SynthOptions drawn;
  drawn.experts = extreme.experts;
  drawn.top_k = extreme.top_k;
  drawn.tokens = 16;
  drawn.sequences = 2;
  write_synthetic_trace(folder.path() + "/trace", drawn);
  std::vector<Override> flags = {
      {"topology", "h100-rail", "t"},
      {"model", "tiny-moe", "m"},
      {"trace", folder.path() + "/trace", "r"},
      {"policy", fmt::format("[{}]", fmt::join(data_names("models/system"), ", ")), "p"},
      {"fidelity", "[analytic, port, flow]", "f"},
      {"layers", "recorded", "l"},
      {"tokens_per_rank", "1", "k"},
      {"set", fmt::format("model.experts={}", extreme.experts), "s"},
      {"set", fmt::format("model.top_k={}", extreme.top_k), "s"}};
  for (const std::string& change : extreme.cluster) {
    flags.push_back({"set", "topology." + change, "s"});
  }
  const Scenario scenario = read_scenario("", flags);
  const Inputs inputs = open_inputs(scenario);
  int ran = 0;
  for (const CaseResult& result :
       simulate(scenario, inputs, {.workers = 0, .bounds = true}).cases) {
    expect_finite(case_json(result), result.name.policy + " " + result.name.fidelity);
    ran += result.ran() ? 1 : 0;
  }
  EXPECT_GT(ran, 30);
}

INSTANTIATE_TEST_SUITE_P(
    All, NumbersTest,
    testing::Values(Extreme{"OneGpu", 4, 2, one_gpu}, Extreme{"OneExpert", 1, 1, one_gpu},
                    Extreme{"AllExperts", 4, 4, two_gpus},
                    Extreme{"SlowestLinks", 4, 2,
                            with(two_gpus, {"node.nics.bandwidth=1 B/s", "node.nics.latency=0 us",
                                            "exchange_overhead=0 us"})},
                    Extreme{"FastestLinks", 4, 2,
                            with(two_gpus, {"node.nics.bandwidth=1e15 B/s",
                                            "node.nics.latency=0 us", "exchange_overhead=0 us"})}),
    [](const auto& extreme) { return extreme.param.name; });

}  // namespace
}  // namespace moesim
