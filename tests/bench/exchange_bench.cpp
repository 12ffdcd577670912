// SPDX-License-Identifier: Apache-2.0
// Wall time of the simulating backends; the figures in docs/results/speed.md come from here.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "sim/analytic/analytic_backend.h"
#include "sim/engine/child_process.h"
#include "sim/engine/flow_backend.h"
#include "sim/engine/port_backend.h"
#include "sim/topology/reader.h"
#include "tests/bench/plain_simgrid.h"
#include "tests/engine/fixtures.h"
#include "tests/engine/served_backend.h"

namespace moesim::bench {
namespace {

using test::all_of;

ByteMatrix uneven_all_to_all(int gpus) {
  std::mt19937 random(1);
  return test::uneven(all_of(gpus), gpus, 64e6 / gpus, 8, random);
}

Plan one_exchange(int gpus) {
  test::PlanWriter w(gpus);
  w.traffic(all_of(gpus), uneven_all_to_all(gpus));
  return w.plan();
}

template <class Make>
void run_on(const Topology& topology, benchmark::State& state, const Plan& plan, Make make) {
  const auto backend = make(topology, test::test_gpus(plan.gpus));
  Timeline timeline;
  for (auto _ : state) timeline = backend->run(plan);
  state.counters["makespan_us"] = timeline.makespan.value * 1e6;
  state.counters["ops"] = static_cast<double>(plan.ops.size());
}

template <class Make>
void run(benchmark::State& state, const Plan& plan, Make make) {
  run_on(test::nodes_of_8(plan.gpus / 8), state, plan, make);
}

/// Only Topology::loads: part of every run below.
void loads(benchmark::State& state) {
  const auto gpus = static_cast<int>(state.range(0));
  const Topology topology = test::nodes_of_8(gpus / 8);
  const ByteMatrix traffic = uneven_all_to_all(gpus);
  for (auto _ : state) benchmark::DoNotOptimize(topology.loads(traffic));
}
BENCHMARK(loads)->Arg(256)->Arg(1024)->Arg(4096)->Unit(benchmark::kMillisecond);

/// One uneven all-to-all over every GPU by SimGrid's own sharing: an execution for every loaded
/// link. What takes an engine in a child process stands before what runs on the engine of this one.
void served(benchmark::State& state) {
  run(state, one_exchange(static_cast<int>(state.range(0))), test::make_served_backend);
}
BENCHMARK(served)->Arg(256)->Arg(1024)->Unit(benchmark::kMillisecond)->UseRealTime();

/// A flow per pair at SimGrid's rates; compare with plain_simgrid.
void simgrid(benchmark::State& state) {
  run(state, one_exchange(static_cast<int>(state.range(0))),
      [](const Topology& topology, const GpuModels& gpus) {
        return make_simgrid_backend(topology, gpus);
      });
}
BENCHMARK(simgrid)->Arg(32)->Arg(64)->Arg(128)->Unit(benchmark::kMillisecond)->UseRealTime();

void plain_simgrid(benchmark::State& state) {
  const auto gpus = static_cast<int>(state.range(0));
  const Topology topology = test::nodes_of_8(gpus / 8);
  const ByteMatrix traffic = uneven_all_to_all(gpus);
  std::string makespan;
  for (auto _ : state) {
    makespan = run_in_child([&] {
      return fmt::format("{:.9g}", plain_simgrid_exchange(topology, traffic).value * 1e6);
    });
  }
  state.counters["makespan_us"] = std::stod(makespan);
}
BENCHMARK(plain_simgrid)->Arg(32)->Arg(64)->Arg(128)->Unit(benchmark::kMillisecond)->UseRealTime();

/// A flow per pair.
void flow(benchmark::State& state) {
  run(state, one_exchange(static_cast<int>(state.range(0))),
      [](const Topology& topology, const GpuModels& gpus) {
        return make_flow_backend(topology, gpus);
      });
}
BENCHMARK(flow)->Arg(32)->Arg(64)->Arg(128)->Arg(256)->Unit(benchmark::kMillisecond);
BENCHMARK(flow)->Arg(1024)->Iterations(1)->Unit(benchmark::kSecond);

/// By the precision, 10^-n.
void flow_precision(benchmark::State& state) {
  run(state, one_exchange(static_cast<int>(state.range(0))),
      [&](const Topology& topology, const GpuModels& gpus) {
        return make_flow_backend(
            topology, gpus, {.precision = std::pow(10.0, -static_cast<double>(state.range(1)))});
      });
}
BENCHMARK(flow_precision)
    ->ArgsProduct({{64, 128, 256}, {2, 3, 4}})
    ->Args({64, 9})
    ->Args({128, 9})
    ->Unit(benchmark::kMillisecond);

/// One uneven all-to-all over every GPU, four links per GPU.
void port(benchmark::State& state) {
  run(state, one_exchange(static_cast<int>(state.range(0))), make_port_backend);
}
BENCHMARK(port)->Arg(256)->Arg(1024)->Arg(4096)->Unit(benchmark::kMillisecond)->UseRealTime();

/// 268 million pairs, which take 2.1 GB.
BENCHMARK(port)->Arg(16384)->Iterations(3)->Unit(benchmark::kMillisecond);

/// What tokens make of one exchange over so many GPUs: each sends the rows of `tokens` x 8 choices,
/// one in eight of them to a 64th of the GPUs.
ByteMatrix rows_of_tokens(int gpus, int tokens) {
  ByteMatrix traffic(Bytes(14336));
  const auto n = static_cast<std::size_t>(gpus), choices = static_cast<std::size_t>(tokens) * 8;
  std::vector<std::uint32_t> rows(n);
  std::vector<std::uint64_t> sent((n + 63) / 64);
  std::vector<ByteMatrix::Entry> entries;
  std::uint64_t state = 1;
  for (std::size_t from = 0; from < n; ++from) {
    for (std::size_t i = 0; i < choices; ++i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      const std::size_t to = (state >> 33) % (i % 8 == 0 ? std::max<std::size_t>(1, n / 64) : n);
      ++rows[to];
      sent[to / 64] |= std::uint64_t{1} << to % 64;
    }
    entries.clear();
    for (std::size_t word = 0; word < sent.size(); ++word) {
      for (std::uint64_t bits = std::exchange(sent[word], 0); bits != 0; bits &= bits - 1) {
        const std::size_t to = word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
        entries.push_back({GpuId(static_cast<std::int64_t>(to)), std::exchange(rows[to], 0)});
      }
    }
    traffic.add_row(entries);
  }
  return traffic;
}

/// One all-to-all of the tokens of all GPUs, 1,024 on each: 65,536 GPUs have half a billion pairs
/// with bytes, which take 3.8 GB, of four billion.
void sparse(benchmark::State& state, const Topology& topology, bool back) {
  const int gpus = topology.gpu_count();
  test::PlanWriter w(gpus);
  w.traffic(all_of(gpus), rows_of_tokens(gpus, 1024));
  Plan plan = w.plan();
  std::get<Exchange>(plan.ops[0].work).transposed = back;
  run_on(topology, state, plan, make_port_backend);
  const auto entries = static_cast<double>(plan.ops[0].exchange()->traffic.entries());
  state.counters["pairs"] = entries;
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  state.counters["peak_GB"] = static_cast<double>(used.ru_maxrss) * 1024 / 1e9;
}

void port_sparse(benchmark::State& state) {
  sparse(state, test::nodes_of_8(static_cast<int>(state.range(0)) / 8), false);
}
BENCHMARK(port_sparse)->Arg(16384)->Arg(65536)->Iterations(3)->Unit(benchmark::kMillisecond);

/// The same rows on their way back.
void port_sparse_back(benchmark::State& state) {
  sparse(state, test::nodes_of_8(static_cast<int>(state.range(0)) / 8), true);
}
BENCHMARK(port_sparse_back)->Arg(16384)->Arg(65536)->Iterations(3)->Unit(benchmark::kMillisecond);

/// Between rails, where neighbours enter the fabric at different switches.
void port_sparse_rail(benchmark::State& state) {
  const std::string nodes = std::to_string(state.range(0) / 8);
  const TopologyFile cluster =
      read_topology(MOESIM_ROOT "/topologies/h100-rail.yaml", {parse_override("nodes=" + nodes)});
  sparse(state, cluster.topology, false);
}
BENCHMARK(port_sparse_rail)->Arg(16384)->Arg(65536)->Iterations(3)->Unit(benchmark::kMillisecond);

/// An uneven all-to-all in every EP group of 256, all at once.
void port_groups(benchmark::State& state) {
  const auto gpus = static_cast<int>(state.range(0));
  std::mt19937 random(1);
  const ByteMatrix of_group = test::uneven(all_of(256), 256, 64e6 / 256, 8, random);
  test::PlanWriter w(gpus);
  for (int first = 0; first < gpus; first += 256) {
    std::vector<GpuId> members;
    for (int g = first; g < first + 256; ++g) members.emplace_back(g);
    w.among(members, of_group);
  }
  run(state, w.plan(), make_port_backend);
}
BENCHMARK(port_groups)->Arg(4096)->Arg(16384)->Arg(65536)->Unit(benchmark::kMillisecond);

/// Two all-to-alls at once, on two streams: every link is shared.
Plan two_exchanges(int gpus) {
  test::PlanWriter w(gpus);
  w.traffic(all_of(gpus), uneven_all_to_all(gpus), {}, Stream::ep);
  w.traffic(all_of(gpus), uneven_all_to_all(gpus), {}, Stream::param);
  return w.plan();
}

void port_overlapping(benchmark::State& state) {
  run(state, two_exchanges(static_cast<int>(state.range(0))), make_port_backend);
}
BENCHMARK(port_overlapping)->Arg(256)->Arg(1024)->Arg(4096)->Unit(benchmark::kMillisecond);

/// Layers of dispatch, eight kernels per GPU and combine, in groups of 8 GPUs.
Plan layers_of(int layers, int gpus) {
  test::PlanWriter w(gpus);
  std::vector<std::vector<OpId>> before(static_cast<std::size_t>(gpus / 8));
  for (int layer = 0; layer < layers; ++layer) {
    for (int group = 0; group < gpus / 8; ++group) {
      std::vector<int> members;
      std::vector<test::Transfer> transfers;
      for (int i = 0; i < 8; ++i) {
        members.push_back(group * 8 + i);
        transfers.push_back({group * 8 + i, group * 8 + (i + 1) % 8, 1'000'000 + 1000 * i + group});
      }
      auto& last = before[static_cast<std::size_t>(group)];
      const OpId dispatch = w.exchange(members, transfers, last);
      std::vector<OpId> kernels;
      for (int gpu : members) {
        for (int k = 0; k < 8; ++k) {
          const OpId kernel = w.compute(gpu, Seconds(1e-6 * (10 + gpu % 7)), {dispatch});
          if (k == 7) kernels.push_back(kernel);
        }
      }
      w.exchange(members, transfers, kernels);
      last = kernels;
    }
  }
  return w.plan();
}

void port_layers(benchmark::State& state) {
  run(state, layers_of(10, static_cast<int>(state.range(0))), make_port_backend);
}
BENCHMARK(port_layers)->Arg(256)->Unit(benchmark::kMillisecond)->UseRealTime();

/// 101,376 ops of 48 layers on 256 GPUs: what a plan of many ops costs, its own memory included.
void port_many_ops(benchmark::State& state) {
  run(state, layers_of(48, 256), make_port_backend);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_MB"] = static_cast<double>(usage.ru_maxrss) / 1e3;
}
BENCHMARK(port_many_ops)->Unit(benchmark::kMillisecond);

/// Sixty kernels per GPU after one exchange: what a compute op costs.
void port_kernels(benchmark::State& state) {
  const auto gpus = static_cast<int>(state.range(0));
  test::PlanWriter w(gpus);
  const OpId dispatch = w.exchange(all_of(gpus), {{0, 1, 1'000'000}});
  for (int gpu = 0; gpu < gpus; ++gpu) {
    for (int k = 0; k < 60; ++k) w.compute(gpu, Seconds(1e-6 * (10 + gpu % 7)), {dispatch});
  }
  run(state, w.plan(), make_port_backend);
}
BENCHMARK(port_kernels)->Arg(4096)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace moesim::bench

BENCHMARK_MAIN();
