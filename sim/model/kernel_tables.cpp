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

std::optional<OpType> read_op(const YamlMap& map) {
  const auto value = map.find("op");
  if (!value) return std::nullopt;
  const std::string name = value->string();
  if (name.empty()) return std::nullopt;
  const auto type = find_op_type(name);
  if (!type) {
    value->error("no op is called '" + name + "'", op_type_hint(name));
  }
  return type;
}

Seconds time_in(const YamlMap& point) {
  const auto time = point.get("time");
  return time ? time->seconds(positive) : Seconds(1);
}

constexpr Range possible_extent{1, 1e12};

GemmTable read_gemm(const YamlMap& map) {
  GemmTable table;
  table.op = read_op(map);
  table.n = map.integer("n", possible_extent);
  table.k = map.integer("k", possible_extent);
  table.type = static_cast<DataType>(map.choice("type", {"fp8", "bf16", "fp16", "fp32"}));
  if (const auto points = map.get("points")) {
    for (const YamlValue& value : points->list()) {
      const YamlMap point = value.map();
      const auto groups = static_cast<double>(point.integer("groups", possible_extent));
      table.groups[groups].add(static_cast<double>(point.integer("m", possible_extent)),
                               time_in(point));
    }
    if (table.groups.empty()) points->error("'points' is empty", "{groups: 1, m: 64, time: 8 us}");
  }
  return table;
}

MemoryTable read_memory(const YamlMap& map) {
  MemoryTable table;
  table.op = read_op(map);
  if (const auto points = map.get("points")) {
    for (const YamlValue& value : points->list()) {
      const YamlMap point = value.map();
      const auto bytes = point.get("bytes");
      const Bytes size = bytes ? bytes->bytes({1, 1e18}) : Bytes(1);
      table.bytes.add(static_cast<double>(size.value), time_in(point));
    }
    if (table.bytes.empty()) points->error("'points' is empty", "{bytes: 1 MiB, time: 3 us}");
  }
  return table;
}

}  // namespace

Seconds TimeCurve::at(double size) const {
  const auto above = points_.lower_bound(size);
  if (above == points_.begin()) return above->second;
  const auto below = std::prev(above);
  if (above == points_.end()) return below->second * (size / below->first);
  const double part = std::log(size / below->first) / std::log(above->first / below->first);
  return below->second * std::pow(above->second / below->second, part);
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

KernelTables read_kernel_tables(const YamlMap& map) {
  KernelTables tables;
  if (const auto list = map.find("gemm")) {
    for (const YamlValue& value : list->list()) tables.gemm.push_back(read_gemm(value.map()));
  }
  if (const auto list = map.find("memory_bound")) {
    for (const YamlValue& value : list->list()) {
      tables.memory_bound.push_back(read_memory(value.map()));
    }
  }
  return tables;
}

}  // namespace moesim
