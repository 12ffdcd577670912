// SPDX-License-Identifier: Apache-2.0
// Exact placements of small cases: the time to solve each, and how far LAER-MoE's planner, with
// lite routing, is from the optimum on average and at worst over ten seeds.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "sim/mechanism/placement/fsep/planner.h"
#include "tests/mechanism/placement/fsep/exact.h"

namespace moesim::fsep {
namespace {

struct Case {
  const char* name;
  SlotGrid grid;
  int experts;
};

const std::vector<Case> cases = {{"4 ranks, 2 nodes, C = 1, E = 4", {4, 2, 1}, 4},
                                 {"4 ranks, 2 nodes, C = 2, E = 4", {4, 2, 2}, 4},
                                 {"4 ranks, 1 node, C = 2, E = 4", {4, 4, 2}, 4},
                                 {"6 ranks, 3 nodes, C = 2, E = 4", {6, 2, 2}, 4},
                                 {"4 ranks, 2 nodes, C = 2, E = 6", {4, 2, 2}, 6}};

/// Counts up to 99, less for later experts; later seeds are the more skewed ones.
LoadMatrix skewed(const Case& c, unsigned seed) {
  std::mt19937 random(seed);
  LoadMatrix loads(c.grid.ranks, c.experts);
  for (int source = 0; source < c.grid.ranks; ++source) {
    for (int e = 0; e < c.experts; ++e) {
      const auto count = static_cast<double>(random() % 100);
      loads.at(GpuId(source), ExpertId(e)) =
          static_cast<std::int64_t>(count / std::pow(e + 1, 0.15 * seed));
    }
  }
  return loads;
}

void exact(benchmark::State& state) {
  const Case& c = cases[static_cast<std::size_t>(state.range(0))];
  constexpr unsigned seeds = 10;
  PlannerOptions options;
  options.cost.activation_checkpointing = false;
  double sum = 0, worst = 0;
  for (auto _ : state) {
    sum = worst = 0;
    for (unsigned seed = 0; seed < seeds; ++seed) {
      const LoadMatrix loads = skewed(c, seed);
      const double optimum = exact_plan(loads, c.grid, options.cost).cost.total().value;
      const Placement placement(c.experts, plan(loads, c.grid, options).choice().placed.slots);
      const Reach reach(placement, c.grid.ranks_per_node);
      const double planner = cost(loads, reach, options.cost, Counting::integer).total().value;
      sum += planner / optimum;
      worst = std::max(worst, planner / optimum);
    }
  }
  state.SetLabel(c.name);
  state.counters["planner/optimum"] = sum / seeds;
  state.counters["at worst"] = worst;
}

BENCHMARK(exact)->DenseRange(0, 4)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace moesim::fsep

BENCHMARK_MAIN();
