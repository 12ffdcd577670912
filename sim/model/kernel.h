// SPDX-License-Identifier: Apache-2.0
// What a GPU computes, as shapes. Plans hold shapes and no times, so that one plan runs on any GPU
// and on real hardware; a cost model turns shapes into time.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "sim/base/types.h"
#include "sim/model/moe_model.h"

namespace moesim {

/// One GEMM per group: [m_g x k] times [k x n]; groups with m = 0 cost nothing.
struct GroupedGemm {
  std::vector<std::int64_t> m;  // rows of each group (tokens of each local expert)
  std::int64_t n = 0;
  std::int64_t k = 0;
  DataType type = DataType::bf16;
  bool operator==(const GroupedGemm&) const = default;
};

/// A kernel bound by memory traffic: permute, activation, weighted reduce.
struct MemoryBound {
  Bytes read;
  Bytes written;
  bool operator==(const MemoryBound&) const = default;
};

/// Work of the host that the GPU waits for, such as planning. It has a length and no shape, since
/// policies state it.
struct HostWork {
  std::int64_t nanoseconds = 0;
  bool operator==(const HostWork&) const = default;
};

using Kernel = std::variant<GroupedGemm, MemoryBound, HostWork>;

bool is_empty(const Kernel& kernel);  // nothing to compute, move or wait for

Flops flops_of(const Kernel& kernel);  // 2 m n k summed over groups; 0 for other kernels
Bytes memory_traffic_of(const Kernel& kernel);

}  // namespace moesim
