// SPDX-License-Identifier: Apache-2.0
#include "sim/base/yaml.h"
#include "sim/model/kernel_tables.h"

namespace moesim {
namespace {

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

GemmTable read_gemm_table(const YamlMap& map) {
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

MemoryTable read_memory_table(const YamlMap& map) {
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

KernelTables read_kernel_tables(const YamlMap& map) {
  KernelTables tables;
  if (const auto list = map.find("gemm")) {
    for (const YamlValue& value : list->list()) tables.gemm.push_back(read_gemm_table(value.map()));
  }
  if (const auto list = map.find("memory_bound")) {
    for (const YamlValue& value : list->list()) {
      tables.memory_bound.push_back(read_memory_table(value.map()));
    }
  }
  return tables;
}

}  // namespace moesim
