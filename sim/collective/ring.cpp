// SPDX-License-Identifier: Apache-2.0
#include "sim/collective/ring.h"

#include <map>

namespace moesim {

ByteMatrix ring_traffic(const std::vector<Ring>& rings, int gpus, Bytes unit, std::uint32_t units) {
  std::vector<std::map<GpuId, std::uint32_t>> next(static_cast<std::size_t>(gpus)), before = next;
  for (const Ring& ring : rings) {
    const std::size_t size = ring.size();
    for (std::size_t i = 0; i < size; ++i) {
      next[ring[i].index()][ring[(i + 1) % size]] += units;
      before[ring[i].index()][ring[(i + size - 1) % size]] += units;
    }
  }
  ByteMatrix traffic(unit);
  for (std::size_t g = 0; g < next.size(); ++g) {
    std::map<GpuId, std::uint32_t> row;
    for (const auto& [to, sent] : next[g]) row[to] += (sent + 1) / 2;
    for (const auto& [to, sent] : before[g]) row[to] += sent / 2;
    std::vector<ByteMatrix::Entry> entries;
    for (const auto& [to, sent] : row) entries.push_back({to, sent});
    traffic.add_row(entries);
  }
  return traffic;
}

}  // namespace moesim
