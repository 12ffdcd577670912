// SPDX-License-Identifier: Apache-2.0
// LAER-MoE's planner on one core: ranks x slots per rank as in its artifact's table (32 experts,
// counts uniform in 0..999, nodes of 8), and its parts at 1,024 ranks.
#include <benchmark/benchmark.h>

#include <random>

#include "sim/mechanism/placement/fsep/lite_routing.h"
#include "sim/mechanism/placement/fsep/planner.h"
#include "tests/mechanism/placement/fsep/tiered_links.h"

namespace moesim::fsep {
namespace {

constexpr int experts = 32;

LoadMatrix uniform(int ranks) {
  std::mt19937 random(1);
  LoadMatrix loads(ranks, experts);
  for (int source = 0; source < ranks; ++source) {
    for (int e = 0; e < experts; ++e) loads.at(GpuId(source), ExpertId(e)) = random() % 1000;
  }
  return loads;
}

SlotGrid grid_of(const benchmark::State& state) {
  return {static_cast<int>(state.range(0)), 8, static_cast<int>(state.range(1))};
}

void planner(benchmark::State& state) {
  const SlotGrid grid = grid_of(state);
  const LoadMatrix loads = uniform(grid.ranks);
  for (auto _ : state) benchmark::DoNotOptimize(plan(loads, grid).chosen);
}

void planner_over_links(benchmark::State& state) {
  const SlotGrid grid = grid_of(state);
  const LoadMatrix loads = uniform(grid.ranks);
  PlannerOptions options;
  options.links = tiered_links({{1, options.cost.same_rank},
                                {grid.ranks_per_node, options.cost.same_node},
                                {grid.ranks, options.cost.other_node}});
  for (auto _ : state) benchmark::DoNotOptimize(plan(loads, grid, options).chosen);
}

void placing(benchmark::State& state) {
  const SlotGrid grid = grid_of(state);
  const auto loads = uniform(grid.ranks).per_expert();
  const Replicas replicas = queue_replicas(loads, grid);
  for (auto _ : state) benchmark::DoNotOptimize(place(loads, replicas.of, grid).fallbacks);
}

void costing(benchmark::State& state) {
  const SlotGrid grid = grid_of(state);
  const LoadMatrix loads = uniform(grid.ranks);
  const Placement placement(experts, plan(loads, grid).choice().placed.slots);
  const Reach reach(placement, grid.ranks_per_node);
  for (auto _ : state) benchmark::DoNotOptimize(cost(loads, reach, {}).computation.value);
}

void assigning(benchmark::State& state) {
  const SlotGrid grid = grid_of(state);
  const LoadMatrix loads = uniform(grid.ranks);
  const Placement placement(experts, plan(loads, grid).choice().placed.slots);
  const Reach reach(placement, grid.ranks_per_node);
  for (auto _ : state) benchmark::DoNotOptimize(lite_shares(loads, reach).data());
}

void table(benchmark::internal::Benchmark* b) {
  b->ArgNames({"N", "C"})
      ->ArgsProduct({{64, 128, 256, 512, 1024}, {1, 2, 4, 8, 16}})
      ->Args({16384, 2});
}

BENCHMARK(planner)->Apply(table)->Unit(benchmark::kMillisecond);
BENCHMARK(planner_over_links)->Args({1024, 2})->Unit(benchmark::kMillisecond);
BENCHMARK(placing)->Args({1024, 2})->Unit(benchmark::kMillisecond);
BENCHMARK(costing)->Args({1024, 2})->Unit(benchmark::kMillisecond);
BENCHMARK(assigning)->Args({1024, 2})->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace moesim::fsep

BENCHMARK_MAIN();
