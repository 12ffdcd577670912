// SPDX-License-Identifier: Apache-2.0
#include "sim/model/kernel_tables.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace moesim {
namespace {

/// Work that is done again takes as long as the first time.
OpType first_time(const OpType& op) {
  return op.role == Role::recompute ? OpType{op.kind, Role::plain, Pass::forward} : op;
}

}  // namespace

Seconds TimeCurve::at(double size) const {
  const auto above = points_.lower_bound(size);
  if (above == points_.begin()) return above->second;
  const auto below = std::prev(above);
  if (above == points_.end()) return below->second + (size - below->first) * slope_beyond();
  const double part = std::log(size / below->first) / std::log(above->first / below->first);
  return below->second * std::pow(above->second / below->second, part);
}

Seconds TimeCurve::slope_beyond() const {
  const auto last = std::prev(points_.end());
  const Seconds in_proportion = last->second * (1 / last->first);
  if (last == points_.begin()) return in_proportion;
  const auto before = std::prev(last);
  const Seconds rise = (last->second - before->second) * (1 / (last->first - before->first));
  return std::clamp(rise, Seconds(0), in_proportion);
}

Seconds GemmTable::time(double number, double m) const {
  TimeCurve over_groups;
  for (const auto& [size, curve] : groups) over_groups.add(size, curve.at(m));
  return over_groups.at(number);
}

Seconds GemmTable::time(const std::vector<std::int64_t>& m) const {
  const auto with_rows =
      static_cast<double>(std::ranges::count_if(m, [](std::int64_t rows) { return rows > 0; }));
  Seconds sum;
  for (const std::int64_t rows : m) {
    if (rows > 0) sum += time(with_rows, static_cast<double>(rows)) * (1 / with_rows);
  }
  return sum;
}

const GemmTable* KernelTables::find(const GroupedGemm& kernel, const OpType& op) const {
  const OpType type = first_time(op);
  const auto distance = [&](const GemmTable& table) {
    const double apart = std::abs(std::log(static_cast<double>(table.n * table.k) /
                                           static_cast<double>(kernel.n * kernel.k)));
    return std::tuple(table.n != kernel.n || table.k != kernel.k, apart,
                      table.op == type ? 0
                      : !table.op      ? 1
                                       : 2);
  };
  const GemmTable* best = nullptr;
  for (const GemmTable& table : gemm) {
    if (table.type != kernel.type) continue;
    if (best == nullptr || distance(table) < distance(*best)) best = &table;
  }
  return best;
}

const MemoryTable* KernelTables::find_memory(const OpType& op) const {
  const OpType type = first_time(op);
  const MemoryTable* any = nullptr;
  for (const MemoryTable& table : memory_bound) {
    if (table.op == type) return &table;
    if (!table.op) any = &table;
  }
  return any;
}

}  // namespace moesim
