// SPDX-License-Identifier: Apache-2.0
// A step of 1,000 s on two hosts of a GPU each: what is drawn of it can be worked out by hand.
#pragma once

#include <utility>
#include <vector>

#include "sim/plan/priced.h"
#include "sim/plan/timeline.h"
#include "sim/topology/reader.h"

namespace moesim::test {

/// GPUs and NICs of 1 and 2 GB/s without latencies, and a switch.
inline const Topology& two_hosts() {
  static const TopologyFile file = parse_topology(
      "nodes: 2\nnode:\n  gpu: h100-sxm\n  gpus: 1\n  pcie: {bandwidth: 2 GB/s, latency: 0 us}\n"
      "  nics: {count: 1, bandwidth: 1 GB/s, latency: 0 us}\nfabric: {kind: switch}\n",
      "two");
  return file.topology;
}

/// Each GPU computes rows of two experts, the first one in waves; then 4 GB go from GPU 0 to 1.
struct TwoHostsStep {
  TwoHostsStep() {
    plan.gpus = 2;
    for (const int gpu : {0, 1}) {
      GroupedGemm products{{6 - 4 * gpu, 1}, 8, 16, DataType::bf16};
      if (gpu == 0)
        products.wave = Wave{.rows = {6, 1}, .tile = 128, .fill = 128, .tiles = 2, .of = 2};
      add({"fc1",
           OpKey{.kind = OpKind::fc1,
                 .pass = Pass::forward,
                 .stage = Stage::experts,
                 .layer = 3,
                 .microbatch = 0},
           Stream::compute,
           {GpuId(gpu)},
           {},
           Kernels(products)},
          {{Seconds(0), Seconds(gpu == 0 ? 50 : 100)}});
    }
    const std::int64_t dense[] = {5, 4'000'000'000, 0, 0};
    add({"dispatch",
         OpKey{.kind = OpKind::other,
               .pass = Pass::backward,
               .stage = Stage::dispatch,
               .layer = 3,
               .microbatch = 1},
         Stream::ep,
         {GpuId(0), GpuId(1)},
         {},
         Exchange{ByteMatrix::from_dense(2, dense), {}, false}},
        {{Seconds(50), Seconds(300)}, {Seconds(100), Seconds(300)}});
    add({"host", OpKey{.kind = OpKind::other}, Stream::copy, {GpuId(1)}, {}, Kernels(HostWork{7})},
        {{Seconds(300), Seconds(400)}});
    timeline.makespan = Seconds(1000);
  }
  void add(Op op, const std::vector<Interval>& when) {
    plan.add(std::move(op));
    timeline.ops.add_row(when);
  }

  Plan plan;
  Timeline timeline;
};

}  // namespace moesim::test
