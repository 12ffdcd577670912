// SPDX-License-Identifier: Apache-2.0
// What each schedule asks of a pipeline, and where its positions lie.
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/planner/pipeline/pipelines.h"

namespace moesim {
namespace {

using test::Kind;

std::string broken_rule(const PipelineShape& shape) {
  try {
    Pipeline{shape};
  } catch (const Error& e) {
    return e.diagnostics().front().message + "; " + e.diagnostics().front().hint;
  }
  return "";
}

TEST(PipelineShape, NamesTheRuleThatItBreaks) {
  EXPECT_EQ(broken_rule({Kind::one_f_one_b, 0, 1, 1}), "1f1b: 0 pipeline stages; at least 1");
  EXPECT_EQ(broken_rule({Kind::gpipe, 1, 0, 1}), "gpipe: 0 microbatches; at least 1");
  EXPECT_EQ(broken_rule({Kind::gpipe, 100'000, 2'000'000'000, 1}),
            "gpipe: 2000000000 microbatches through 100000 pipeline stages with 1 chunk; at most "
            "1000000 passes of a microbatch through a chunk");
  EXPECT_EQ(
      broken_rule({Kind::zb1p, 4, 8, 2}),
      "zb1p: 2 model chunks per stage; only interleaved and combined-interleaved choose their "
      "chunks");
  EXPECT_EQ(
      broken_rule({Kind::combined_interleaved, 4, 8, 1}),
      "combined-interleaved: 1 model chunk per stage; at least 2; 1f1b and combined-1f1b have "
      "one");
  EXPECT_EQ(
      broken_rule({Kind::interleaved, 4, 10, 2}),
      "interleaved: 10 microbatches are not a multiple of 4 pipeline stages; a group of as many "
      "microbatches as stages passes each chunk in turn");
  EXPECT_EQ(broken_rule({Kind::interleaved, 8, 1, 2}),
            "interleaved: 1 microbatch is not a multiple of 8 pipeline stages; a group of as many "
            "microbatches as stages passes each chunk in turn");
  EXPECT_EQ(
      broken_rule({Kind::dualpipe, 3, 8, 1}),
      "dualpipe: 3 pipeline stages are odd; the stages of one half mirror those of the other");
  EXPECT_EQ(broken_rule({Kind::dualpipe, 4, 9, 1}),
            "dualpipe: 9 microbatches are odd; half of them enter at each end");
  EXPECT_EQ(broken_rule({Kind::dualpipe, 4, 6, 1}),
            "dualpipe: 6 microbatches are fewer than twice the 4 pipeline stages; at least 8");
  EXPECT_EQ(broken_rule({Kind::dualpipev, 4, 7, 1}),
            "dualpipev: 7 microbatches are fewer than twice the 4 pipeline stages; at least 8");
  EXPECT_EQ(broken_rule({Kind::dualpipev, 3, 7, 1}), "");
}

TEST(PipelineShape, NamesOfKinds) {
  EXPECT_EQ(pipeline_kind_names().size(), 11U);
  EXPECT_EQ(name_of(Kind::one_f_one_b), "1f1b");
  EXPECT_EQ(name_of(Kind::combined), "combined-1f1b");
  EXPECT_EQ(name_of(Kind::dualpipev), "dualpipev");
  EXPECT_EQ(name_of(Kind::v_min), "v-min");
}

TEST(PipelineShape, PlacesOfPositions) {
  const Pipeline chunks({Kind::interleaved, 4, 4, 3});
  EXPECT_EQ(chunks.positions(), 12);
  EXPECT_EQ(chunks.place(2, 9), (ChunkPlace{1, 2}));
  const Pipeline dual({Kind::dualpipe, 4, 8, 1});
  EXPECT_EQ(dual.positions(), 4);
  EXPECT_EQ(dual.chunks(), 2);
  EXPECT_EQ(dual.copies(), 2);
  EXPECT_EQ(dual.place(3, 1), (ChunkPlace{1, 0}));
  EXPECT_EQ(dual.place(4, 1), (ChunkPlace{2, 1}));
  EXPECT_EQ(dual.position_of({2, 0}), dual.position_of({1, 1}));
  for (const Kind kind : {Kind::dualpipev, Kind::zbv, Kind::v_half, Kind::v_min}) {
    const Pipeline v({kind, 4, 8, 1});
    EXPECT_EQ(v.positions(), 8);
    EXPECT_EQ(v.copies(), 1);
    EXPECT_EQ(v.place(7, 3), (ChunkPlace{3, 0}));
    EXPECT_EQ(v.place(7, 4), (ChunkPlace{3, 1}));
    EXPECT_EQ(v.place(7, 7), (ChunkPlace{0, 1}));
  }
}

}  // namespace
}  // namespace moesim
