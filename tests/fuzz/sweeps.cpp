// SPDX-License-Identifier: Apache-2.0
// Grids of scenarios, the SQLite file of a sweep, and published tables.
#include <algorithm>

#include "sim/base/error.h"
#include "sim/evidence/published.h"
#include "sim/sweep/grid.h"
#include "sim/sweep/query.h"
#include "sim/sweep/store.h"
#include "tests/fuzz/scratch_file.h"
#include "tests/fuzz/target.h"

namespace moesim::fuzz {
namespace {

constexpr std::int64_t few_units = 2;

void read_grid(std::string_view bytes) {
  const SweepGrid read = SweepGrid::parse(std::string(bytes), "grid.yaml", {});
  read.hash();
  require(read.size() > 0, "a grid has no scenario");
  for (std::int64_t unit = 0; unit < std::min(read.units(), few_units); ++unit) read.unit(unit);
}

void read_sweep_file(std::string_view bytes) {
  const SweepReader reader(scratch_file("sweep.sqlite", bytes));
  reader.about();
  reader.columns();
  reader.rows([](const SweepRow&) {});
  answer(reader, {});
}

}  // namespace

const Target grid_target{"grid", read_grid};
const Target sweep_file_target{"sweep-file", read_sweep_file};
const Target papers_target{
    "papers", [](std::string_view bytes) { parse_paper_table(std::string(bytes), "paper.yaml"); }};

}  // namespace moesim::fuzz
