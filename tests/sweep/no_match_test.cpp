// SPDX-License-Identifier: Apache-2.0
// What a query says of scenarios that a sweep lacks.
#include "sim/sweep/no_match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/sweep/query.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(UnfinishedSweeps, AreToldByQueries) {
  const ScratchFolder scratch;
  const SweepRow ran{0, sweep_ok, "", {{"policy", text_value("a")}, {"step_s", real_value(1)}}};
  const std::string whole = scratch / "whole.sqlite", stopped = scratch / "stopped.sqlite";
  SweepStore(whole, {"hash", "grid.yaml", 1, {"policy"}}).add({ran});
  EXPECT_THAT(answer(SweepReader(whole), {}).text(), Not(HasSubstr("missing")));
  SweepStore(stopped, {"hash", "grid.yaml", 30, {"policy"}})
      .add({ran, {1, sweep_failed, "no such file", {{"policy", text_value("b")}}}});
  EXPECT_THAT(answer(SweepReader(stopped), {}).text(),
              HasSubstr("# 29 of 30 scenarios are missing"));
}

}  // namespace
}  // namespace moesim
