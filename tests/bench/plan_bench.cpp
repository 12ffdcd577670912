// SPDX-License-Identifier: Apache-2.0
// What plans of many ops of groups cost: an iteration's worth on 2,048 GPUs.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include "sim/engine/port_backend.h"
#include "sim/planner/layer/op_chain.h"
#include "tests/engine/fixtures.h"

namespace moesim::bench {
namespace {

constexpr int group_size = 64, groups = 32, layers = 4, microbatches = 32;

Group group_of(int index) {
  std::vector<GpuId> gpus;
  for (int g = 0; g < group_size; ++g) gpus.emplace_back(index * group_size + g);
  return gpus;
}

/// The uneven rows of one layer in one EP group.
ByteMatrix rows_of_group(std::mt19937& random) {
  ByteMatrix rows(Bytes(14336));
  std::vector<std::uint32_t> row(group_size);
  for (int from = 0; from < group_size; ++from) {
    for (auto& units : row) units = std::uniform_int_distribution<std::uint32_t>(1, 64)(random);
    rows.add_dense_row(row);
  }
  return rows;
}

Kernels uneven_gemm(std::mt19937& random) {
  std::vector<Kernel> each;
  for (int g = 0; g < group_size; ++g) {
    GroupedGemm gemm{{0, 0, 0, 0}, 4096, 7168, DataType::bf16};
    for (auto& m : gemm.m) m = std::uniform_int_distribution(1, 512)(random);
    each.emplace_back(std::move(gemm));
  }
  return Kernels(std::move(each));
}

/// Each EP group computes its layers, microbatch by microbatch, forward and backward: 26 ops a
/// layer and microbatch, 4 of them exchanges.
Plan iteration() {
  Plan plan;
  plan.gpus = groups * group_size;
  OpChain chain(plan);
  std::mt19937 random(1);
  const Kernels even(MemoryBound{Bytes(50'000'000), Bytes(50'000'000)});
  for (int g = 0; g < groups; ++g) {
    const Group group = group_of(g);
    for (int layer = 0; layer < layers; ++layer) {
      const ByteMatrix rows = rows_of_group(random);
      const Kernels uneven = uneven_gemm(random);
      for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
        for (const Pass pass : {Pass::forward, Pass::backward}) {
          for (int i = 0; i < 13; ++i) {
            const bool dispatch = i == 4, combine = i == 9;
            OpKey key{.pass = pass, .layer = layer, .microbatch = microbatch, .part = i};
            if (dispatch || combine) {
              key.kind = OpKind::token_exchange;
              chain.exchange(
                  {"exchange", key, Stream::ep, group, {}, Exchange{rows, {}, false, combine}});
            } else {
              key.kind = OpKind::fc1;
              chain.compute({"kernel", key, Stream::compute, group, {}, i == 6 ? uneven : even});
            }
          }
        }
      }
    }
  }
  return plan;
}

GpuModels gpus() {
  auto gpu = std::make_shared<GpuModel>(*test::test_gpus(1).front());
  gpu->peak[DataType::bf16] = FlopsPerSecond(1e15);
  return GpuModels(groups * group_size, gpu);
}

void group_ops(benchmark::State& state) {
  const Topology topology = test::nodes_of_8(groups * group_size / 8);
  const auto backend = make_port_backend(topology, gpus());
  for (auto _ : state) {
    const Plan plan = iteration();
    benchmark::DoNotOptimize(backend->run(plan).makespan);
    state.counters["ops"] = static_cast<double>(plan.ops.size());
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_MB"] = static_cast<double>(usage.ru_maxrss) / 1e3;
}
BENCHMARK(group_ops)->Unit(benchmark::kMillisecond);

void group_ops_planned(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(iteration().ops.size());
}
BENCHMARK(group_ops_planned)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace moesim::bench

BENCHMARK_MAIN();
