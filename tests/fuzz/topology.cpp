// SPDX-License-Identifier: Apache-2.0
// Topologies, and the loads of an exchange on small ones: every figure is a finite number.
#include "sim/topology/topology.h"

#include <cmath>

#include "sim/topology/reader.h"
#include "sim/topology/show/draw.h"
#include "tests/fuzz/target.h"

namespace moesim::fuzz {
namespace {

constexpr int few_gpus = 64;

/// Shipped clusters, and not much more: larger ones take milliseconds and show nothing else. A
/// fuzzer has even less, because routes would take half of its time.
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
constexpr ClusterLimits shipped{.gpus = 256, .vertices = 1024, .cables = 2048};
#else
constexpr ClusterLimits shipped{.gpus = 1024, .vertices = 4096, .cables = 8192};
#endif

void require_sound(Seconds time) {
  require(std::isfinite(time.value) && time.value >= 0, "a time is not a finite number");
}

void read_and_load(std::string_view bytes) {
  const Topology cluster = parse_topology(std::string(bytes), "a.yaml", {}, shipped).topology;
  if (cluster.gpu_count() > few_gpus) return;
  ByteMatrix traffic(Bytes(1000));
  for (const GpuId from : cluster.all_gpus()) {
    std::vector<ByteMatrix::Entry> row;
    for (const GpuId to : cluster.all_gpus()) {
      if (to != from) row.push_back({to, 1});
    }
    traffic.add_row(row);
  }
  const LinkLoads loads = cluster.loads(traffic);
  require_sound(loads.latency);
  require_sound(loads.overhead);
  for (const LinkUse& use : loads.uses) {
    require_sound(use.time);
    require_sound(use.first);
  }
}

}  // namespace

const Target topology_target{"topology", read_and_load};

}  // namespace moesim::fuzz
