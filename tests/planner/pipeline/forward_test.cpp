// SPDX-License-Identifier: Apache-2.0
// Pipelines that have no backward pass.
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/planner/pipeline/pipeline.h"

namespace moesim {
namespace {

TEST(ForwardPipeline, RunsEveryForwardOnceAndNothingElse) {
  for (const auto& [kind, chunks] :
       {std::pair(PipelineKind::gpipe, 1), std::pair(PipelineKind::one_f_one_b, 1),
        std::pair(PipelineKind::interleaved, 2)}) {
    const Pipeline pipeline(
        {.kind = kind, .stages = 4, .microbatches = 8, .chunks = chunks, .backward = false});
    EXPECT_EQ(pipeline.order().size(), 4u * 8 * static_cast<std::size_t>(chunks));
    for (int stage = 0; stage < 4; ++stage) {
      for (const Turn& turn : pipeline.of(stage)) {
        EXPECT_EQ(turn.work.kind, WorkKind::forward);
        EXPECT_FALSE(turn.beside);
      }
    }
  }
}

TEST(ForwardPipeline, MustHaveEveryForwardAndNoBackward) {
  const PipelineShape shape{.stages = 1, .microbatches = 2, .backward = false};
  const StageWork first{WorkKind::forward, 0, 0}, second{WorkKind::forward, 1, 0};
  EXPECT_NO_THROW(Pipeline(shape, {{{second, {}}, {first, {}}}}));
  EXPECT_THROW(Pipeline(shape, {{{first, {}}}}), std::logic_error);
  EXPECT_THROW(Pipeline(shape, {{{first, {}}, {second, {}}, {{WorkKind::backward, 0, 0}, {}}}}),
               std::logic_error);
}

TEST(ForwardPipeline, IsNoneOfDualPipe) {
  EXPECT_THROW(
      Pipeline({.kind = PipelineKind::dualpipe, .stages = 2, .microbatches = 4, .backward = false}),
      Error);
}

}  // namespace
}  // namespace moesim
