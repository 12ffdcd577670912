// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/owners.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "sim/base/error.h"
#include "sim/base/id_vector.h"
#include "sim/base/ordering.h"

namespace moesim {

ByteMatrix traffic_of(std::span<const ExpertTransfer> transfers, int gpus) {
  std::vector<std::map<GpuId, std::int64_t>> rows(static_cast<std::size_t>(gpus));
  for (const ExpertTransfer& t : transfers) rows[t.from.index()][t.to] += t.bytes.value;
  std::int64_t unit = 0;
  for (const auto& row : rows) {
    for (const auto& entry : row) unit = std::gcd(unit, entry.second);
  }
  unit = std::max<std::int64_t>(unit, 1);  // transfers without bytes, as gradients in inference
  ByteMatrix traffic{Bytes(unit)};
  for (const auto& row : rows) {
    std::vector<ByteMatrix::Entry> entries;
    for (const auto& [to, bytes] : row) {
      entries.push_back({to, static_cast<std::uint32_t>(bytes / unit)});
    }
    traffic.add_row(entries);
  }
  return traffic;
}

std::vector<GpuId> owners_of(const SlotTable& table) {
  std::size_t slots = 0;
  for (const auto& experts : table) slots += experts.size();
  std::vector<GpuId> owners(slots, GpuId(-1));
  for (const GpuId gpu : ids_of<GpuId>(table)) {
    for (const ExpertId e : table[gpu.index()]) {
      if (e.value < 0 || e.index() >= slots || owners[e.index()] != GpuId(-1)) {
        throw Error(
            fmt::format("expert {} on GPU {}: every expert needs exactly one slot, and "
                        "there are {} slots",
                        e.value, gpu.value, slots));
      }
      owners[e.index()] = gpu;
    }
  }
  return owners;
}

std::vector<GpuId> owners_of(const SlotTable& table, const LoadMatrix& loads) {
  std::vector<GpuId> owners = owners_of(table);
  if (std::ssize(owners) != loads.experts() || std::ssize(table) != loads.sources()) {
    throw Error(fmt::format("loads of {} experts from {} ranks for {} experts on {} GPUs",
                            loads.experts(), loads.sources(), owners.size(), table.size()));
  }
  return owners;
}

std::vector<ExpertId> heaviest_first(std::span<const std::int64_t> loads) {
  return descending<ExpertId>(loads);
}

std::vector<std::int64_t> gpu_loads(const SlotTable& table, std::span<const std::int64_t> loads) {
  std::vector<std::int64_t> sums;
  for (const auto& experts : table) {
    std::int64_t& sum = sums.emplace_back(0);
    for (const ExpertId e : experts) sum += loads[e.index()];
  }
  return sums;
}

}  // namespace moesim
