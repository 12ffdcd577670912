// SPDX-License-Identifier: Apache-2.0
// Every column of a Parquet file.
#include "sim/base/error.h"
#include "sim/import/parquet/parquet_column.h"
#include "tests/fuzz/scratch_file.h"
#include "tests/fuzz/target.h"

namespace moesim::fuzz {
namespace {

void read_columns(std::string_view bytes) {
  const ParquetFile file(scratch_file("a.parquet", bytes));
  for (const char* column : {"indices", "scores", "token_id", "gate"}) {
    if (!file.has(column)) continue;
    try {
      ParquetColumn values(file, column);
      while (values.read(1000).count() > 0) continue;
    } catch (const Error&) {
      // Other columns may be sound.
    }
  }
}

}  // namespace

const Target parquet_target{"parquet", read_columns};

}  // namespace moesim::fuzz
