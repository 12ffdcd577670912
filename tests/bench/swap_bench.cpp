// SPDX-License-Identifier: Apache-2.0
// One level of an expert swap decision: 1,048,576 tokens x 8 of 256 experts over U groups,
// skewed choices; only counting, and with the search over all pairs.
#include <benchmark/benchmark.h>

#include <array>

#include "sim/mechanism/placement/training/expert_swap.h"
#include "sim/mechanism/placement/training/swap_counts.h"

namespace moesim {
namespace {

constexpr int experts = 256;
constexpr int top_k = 8;
constexpr std::int64_t tokens = 1 << 20;

std::uint64_t next_random(std::uint64_t& state) {  // splitmix64
  std::uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

/// The smaller of two draws, all different.
const std::vector<std::uint8_t>& choices() {
  static const std::vector<std::uint8_t> ids = [] {
    std::vector<std::uint8_t> drawn;
    std::uint64_t state = 1;
    for (std::int64_t t = 0; t < tokens; ++t) {
      std::array<bool, experts> taken{};
      for (int k = 0; k < top_k;) {
        const std::uint64_t draw = next_random(state);
        const auto e = static_cast<std::uint8_t>(std::min(draw & 255, draw >> 8 & 255));
        if (taken[e]) continue;
        taken[e] = true;
        drawn.push_back(e);
        ++k;
      }
    }
    return drawn;
  }();
  return ids;
}

void count_one_level(benchmark::State& state) {
  const IdRows ids(choices().data(), 1, top_k, tokens);
  const auto groups = static_cast<int>(state.range(0));
  std::vector<int> group_of;
  for (int e = 0; e < experts; ++e) group_of.push_back(e * groups / experts);
  const std::vector<TokenRun> runs = {{0, tokens}};
  for (auto _ : state) {
    benchmark::DoNotOptimize(SwapCounts(group_of, groups, ids, runs).touching().data());
  }
}

/// A flat all-to-all over U groups has one level. The maximum reading keeps U tables of counts.
void find_in_one_level(benchmark::State& state, CountReading reading) {
  const IdRows ids(choices().data(), 1, top_k, tokens);
  const auto groups = static_cast<int>(state.range(0));
  CollectiveCosts costs;
  costs.nesting = {groups, {1}};
  costs.flat = {Seconds(0), 1e-9};
  const std::vector<std::vector<TokenRun>> ranks = [&] {
    std::vector<std::vector<TokenRun>> runs;
    for (int s = 0; s < groups; ++s) runs.push_back({{tokens / groups * s, tokens / groups}});
    return runs;
  }();
  const SlotTable table = contiguous_placement(experts, groups, groups).table();
  for (auto _ : state) {
    benchmark::DoNotOptimize(find_swap({costs, 1, Bytes(1), reading}, table, {ids, ranks}));
  }
}

void group_counts(benchmark::internal::Benchmark* b) {
  b->ArgName("U")->Arg(4)->Arg(8)->Arg(32)->Unit(benchmark::kMillisecond);
}

BENCHMARK(count_one_level)->Apply(group_counts);
BENCHMARK_CAPTURE(find_in_one_level, mean, CountReading::mean)->Apply(group_counts);
BENCHMARK_CAPTURE(find_in_one_level, max, CountReading::max)->Apply(group_counts);

}  // namespace
}  // namespace moesim

BENCHMARK_MAIN();
