// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/fsep/exchange.h"

namespace moesim::fsep {

ByteMatrix restore_exchange(const Placement& placement, Bytes chunk) {
  std::vector<std::uint32_t> chunks;  // to every rank: one per slot there
  for (int rank = 0; rank < placement.gpus(); ++rank) {
    chunks.push_back(static_cast<std::uint32_t>(placement.slots_on(GpuId(rank))));
  }
  ByteMatrix matrix(chunk);
  for (int rank = 0; rank < placement.gpus(); ++rank) matrix.add_dense_row(chunks);
  return matrix;
}

ByteMatrix reduce_exchange(const Placement& placement, Bytes chunk) {
  return restore_exchange(placement, chunk).transposed();
}

}  // namespace moesim::fsep
