// SPDX-License-Identifier: Apache-2.0
// Building a cluster, and the link loads of one dense uneven exchange on it.
#include <benchmark/benchmark.h>

#include <random>
#include <string>

#include "sim/topology/reader.h"

namespace moesim {
namespace {

struct Case {
  const char* topology;
  std::vector<const char*> changes;
};

const std::vector<Case> cases = {
    {"h100-rail", {"nodes=128"}},
    {"h100-rail", {"nodes=512"}},
    {"leaf-spine-oversubscribed", {"nodes=512"}},
    {"torus", {"nodes=512", "fabric.dimensions=[8, 8, 8]"}},
    {"hiermoe-a6000", {"nodes=512"}},
    {"wan-1000dc", {}},
};

Topology open(const Case& c) {
  std::vector<Override> overrides;
  for (const char* change : c.changes) overrides.push_back(parse_override(change));
  const std::string file = std::string(MOESIM_ROOT) + "/topologies/" + c.topology + ".yaml";
  return std::move(read_topology(file, overrides).topology);
}

ByteMatrix uneven(int ranks) {
  std::mt19937 random(1);
  ByteMatrix traffic{Bytes(4096)};
  std::vector<std::uint32_t> row(static_cast<std::size_t>(ranks));
  for (int s = 0; s < ranks; ++s) {
    for (std::uint32_t& units : row) units = 1 + static_cast<std::uint32_t>(random() % 1000);
    traffic.add_dense_row(row);
  }
  return traffic;
}

void label(benchmark::State& state, const Case& c, const Topology& topology) {
  state.SetLabel(std::string(c.topology) + ", " + std::to_string(topology.gpu_count()) + " GPUs");
}

void build(benchmark::State& state) {
  const Case& c = cases[static_cast<std::size_t>(state.range(0))];
  for (auto _ : state) benchmark::DoNotOptimize(open(c).gpu_count());
  label(state, c, open(c));
}

void loads(benchmark::State& state) {
  const Case& c = cases[static_cast<std::size_t>(state.range(0))];
  const Topology topology = open(c);
  const ByteMatrix traffic = uneven(topology.gpu_count());
  for (auto _ : state) benchmark::DoNotOptimize(topology.loads(traffic).uses.data());
  label(state, c, topology);
}

/// Of the first 64 GPUs, as an EP group.
void group_loads(benchmark::State& state) {
  const Case& c = cases[static_cast<std::size_t>(state.range(0))];
  const Topology topology = open(c);
  const ByteMatrix traffic = uneven(64);
  const auto group = topology.all_gpus().first(64);
  for (auto _ : state) benchmark::DoNotOptimize(topology.loads({traffic, group}).uses.data());
  label(state, c, topology);
}

BENCHMARK(build)->DenseRange(0, 5)->Unit(benchmark::kMillisecond);
BENCHMARK(loads)->DenseRange(0, 5)->Unit(benchmark::kMillisecond);
BENCHMARK(group_loads)->DenseRange(0, 5)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace moesim

BENCHMARK_MAIN();
