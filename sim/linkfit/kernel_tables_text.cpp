// SPDX-License-Identifier: Apache-2.0
#include "sim/linkfit/kernel_tables_text.h"

#include <fmt/format.h>

#include "sim/base/figures.h"
#include "sim/linkfit/calibration_text.h"

namespace moesim {
namespace {

std::string table_yaml(const GemmTable& table) {
  std::string yaml = fmt::format("  - op: {}\n    n: {}\n    k: {}\n    type: {}\n    points:\n",
                                 quoted(name_of(table.op)), table.n, table.k, name_of(table.type));
  for (const auto& [groups, curve] : table.groups) {
    for (const auto& [m, time] : curve.points()) {
      yaml += fmt::format("      - {{groups: {:.0f}, m: {:.0f}, time: {}}}\n", groups, m,
                          microseconds(time));
    }
  }
  return yaml;
}

std::string table_yaml(const MemoryTable& table) {
  std::string yaml = fmt::format("  - op: {}\n    points:\n", quoted(name_of(table.op)));
  for (const auto& [bytes, time] : table.bytes.points()) {
    yaml += fmt::format("      - {{bytes: {:.0f} B, time: {}}}\n", bytes, microseconds(time));
  }
  return yaml;
}

}  // namespace

std::string kernel_tables_yaml(const KernelTables& tables, const std::string& comment) {
  std::string yaml;
  if (!tables.gemm.empty()) yaml += fmt::format("gemm:  # {}\n", comment);
  for (const GemmTable& table : tables.gemm) yaml += table_yaml(table);
  if (!tables.memory_bound.empty()) {
    yaml += fmt::format("memory_bound:  # {}, by bytes read and written\n", comment);
  }
  for (const MemoryTable& table : tables.memory_bound) yaml += table_yaml(table);
  return yaml;
}

}  // namespace moesim
