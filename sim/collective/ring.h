// SPDX-License-Identifier: Apache-2.0
// Rings: what most collectives are made of.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/byte_matrix.h"
#include "sim/base/types.h"

namespace moesim {

/// Who passes parts on to whom; the last one passes to the first.
using Ring = std::vector<GpuId>;

/// On every ring each of its GPUs passes `units` on, half of them either way, as NCCL does with its
/// channels: bytes leave and enter a node by different NICs. The matrix has `gpus` rows.
ByteMatrix ring_traffic(const std::vector<Ring>& rings, int gpus, Bytes unit, std::uint32_t units);

}  // namespace moesim
