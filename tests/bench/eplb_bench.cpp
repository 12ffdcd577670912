// SPDX-License-Identifier: Apache-2.0
// One rebalance of all layers of a 256-expert model by EPLB: 58 layers, 288 slots, on one core.
#include <benchmark/benchmark.h>

#include <vector>

#include "sim/mechanism/placement/serving/eplb.h"
#include "sim/trace/synth/random.h"

namespace moesim {
namespace {

constexpr int layers = 58;
constexpr int experts = 256;

std::vector<std::vector<double>> skewed_loads() {
  Random random(1);
  std::vector<std::vector<double>> all(layers, std::vector<double>(experts));
  for (auto& loads : all) {
    for (double& load : loads) load = 20000 * portable_exp(random.normal());
  }
  return all;
}

void rebalance(benchmark::State& state, const eplb::Shape& shape) {
  const auto all = skewed_loads();
  for (auto _ : state) {
    for (const auto& loads : all) {
      benchmark::DoNotOptimize(eplb::rebalance(loads, shape).expert_in.data());
    }
  }
}

BENCHMARK_CAPTURE(rebalance, hierarchical, eplb::Shape{288, 8, 4, 32})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(rebalance, global, eplb::Shape{288, 1, 4, 32})->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace moesim

BENCHMARK_MAIN();
