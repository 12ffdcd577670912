// SPDX-License-Identifier: Apache-2.0
// Two GPUs whose hosts take time, and plans for them.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "tests/plan/fixed_network.h"

namespace moesim::test {

/// Kernels of so many ms: the roofline's memory has 1 kB/s.
inline Kernel kernel_of(std::int64_t ms) { return MemoryBound{Bytes(ms), Bytes(0)}; }

inline HostModel host_of(double kernel_ms, double collective_ms = 0) {
  HostModel host;
  host.per_kernel = milliseconds(kernel_ms);
  host.per_collective = milliseconds(collective_ms);
  return host;
}

inline GpuModels gpus_with_host(const HostModel& host, int count = 2, bool slowed = false) {
  auto gpu = std::make_shared<GpuModel>();
  gpu->memory_bandwidth = BytesPerSecond(1000);
  gpu->host = host;
  if (slowed) gpu->overlap.compute = 1 + 1e-15;  // kernels end by calls
  return GpuModels(static_cast<std::size_t>(count), gpu);
}

struct HostCase {
  OpId kernel(int gpu, Kernel work, OpKind kind = OpKind::other, std::vector<OpId> after = {},
              int layer = 0) {
    const OpKey key{.kind = kind, .layer = layer};
    return plan.add(
        {"k", key, Stream::compute, {GpuId(gpu)}, std::move(after), Kernels(std::move(work))});
  }
  OpId exchange(std::vector<OpId> after = {}, Stream stream = Stream::ep,
                OpKind kind = OpKind::token_exchange) {
    const std::vector<std::int64_t> entries = {0, 1, 0, 0};
    return plan.add({"x",
                     {.kind = kind, .layer = 0},
                     stream,
                     {GpuId(0), GpuId(1)},
                     std::move(after),
                     Exchange{ByteMatrix::from_dense(2, entries), {}}});
  }
  Timeline run(const HostModel& host, double exchange_ms = 0, bool slowed = false) const {
    return run_with_fixed_exchanges(plan, gpus_with_host(host, 2, slowed),
                                    milliseconds(exchange_ms));
  }
  double makespan_ms(const HostModel& host, double exchange_ms = 0) const {
    return run(host, exchange_ms).makespan.value * 1e3;
  }
  Plan plan{"plan", 2, {}};
};

}  // namespace moesim::test
