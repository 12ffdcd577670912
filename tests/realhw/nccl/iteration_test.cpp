// SPDX-License-Identifier: Apache-2.0
// Whole iterations over NCCL without a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "realhw/measure/measure.h"
#include "tests/realhw/iteration/real_iteration.h"
#include "tests/realhw/nccl/nccl_case.h"

namespace moesim {
namespace {

/// What ranks on fakes throw; the comparison of all of them.
std::vector<std::string> run_on_fakes(const RealIteration& real, RowFormat matrices,
                                      Comparison& compared) {
  set_gemm_threads(1);
  FakeNccl nccl;
  FakeGpu::Log log;
  NcclOptions options;
  options.timeout = Seconds(60);
  options.compile.matrices = matrices;
  return as_ranks(real.real().plan.gpus, [&](Job& job) {
    const auto backend = make_nccl_backend(
        job, {nccl.api(), [&] { return std::make_unique<FakeGpu>(log); }, "fakes"}, options);
    const MeasuredStep measured =
        measure_step(job, *backend, real.real(), {.warmup = 1, .repeats = 1});
    if (job.rank() == 0) compared = measured.compared;
  });
}

/// Four iterations, each from the weights of the one before, three of them from a graph.
TEST(NcclIteration, ComputesWhatOneProcessDoes) {
  for (const Changes& changes :
       {Changes{{"parallel.ep", "2"}, {"zero", "0"}},
        Changes{{"parallel.tp", "2"}, {"parallel.etp", "1"}, {"parallel.ep", "2"}},
        Changes{{"parallel.pp", "4"}, {"parallel.ep", "2"}, {"overlap.gradients", "true"}}}) {
    const RealIteration real(changes);
    Comparison compared;
    EXPECT_THAT(run_on_fakes(real, RowFormat::float32, compared), testing::Each(""));
    EXPECT_GT(compared.outputs, 0);
    EXPECT_GT(compared.weights, 0);
    EXPECT_EQ(compared.wrong(), 0);
  }
}

TEST(NcclIteration, IsRefusedInBfloat16) {
  const RealIteration real(Changes{});
  Comparison compared;
  EXPECT_THAT(run_on_fakes(real, RowFormat::bfloat16, compared),
              testing::Each(testing::HasSubstr("whole iterations are computed in float32")));
}

}  // namespace
}  // namespace moesim
