// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "sim/linkfit/calibration_text.h"

namespace moesim {
namespace {

TEST(KernelTablesText, HasEveryPointUnderItsKey) {
  KernelTables tables;
  EXPECT_EQ(kernel_tables_yaml(tables, "made up"), "");
  MemoryTable& memory = tables.memory_bound.emplace_back();
  memory.bytes.add(1024, Seconds(2e-6));
  memory.bytes.add(4096, Seconds(5e-6));
  const std::string of_memory =
      "memory_bound:  # made up, by bytes read and written\n"
      "  - op: \"\"\n"
      "    points:\n"
      "      - {bytes: 1024 B, time: 2 us}\n"
      "      - {bytes: 4096 B, time: 5 us}\n";
  EXPECT_EQ(kernel_tables_yaml(tables, "made up"), of_memory);
  GemmTable& gemm = tables.gemm.emplace_back();
  gemm.n = 64, gemm.k = 32;
  gemm.groups[4].add(16, Seconds(3e-6));
  EXPECT_EQ(kernel_tables_yaml(tables, "made up"),
            "gemm:  # made up\n"
            "  - op: \"\"\n"
            "    n: 64\n"
            "    k: 32\n"
            "    type: bf16\n"
            "    points:\n"
            "      - {groups: 4, m: 16, time: 3 us}\n" +
                of_memory);
}

}  // namespace
}  // namespace moesim
