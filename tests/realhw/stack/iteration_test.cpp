// SPDX-License-Identifier: Apache-2.0
// Whole iterations by the whole host program: pipeline stages, experts, replicas, and the update.
#include <gtest/gtest.h>

#include <cstdlib>

#include "realhw/measure/measure.h"
#include "realhw/nccl/nccl_backend.h"
#include "tests/realhw/emulated/emulated.h"
#include "tests/realhw/iteration/real_iteration.h"
#include "tests/realhw/stack/stack_case.h"

namespace moesim {
namespace {

struct StackOption {
  const char* name;
  Changes changes;
};

const std::vector<StackOption> options = {
    {"two_stages_two_expert_groups", {{"parallel.ep", "2"}, {"zero", "0"}}},
    {"sharded_with_overlap",
     {{"parallel.pp", "4"}, {"parallel.ep", "2"}, {"overlap.gradients", "true"}}},
    // tp 2, pp 2, ep 2, dp 2: twice as many ranks
    {"tensor_groups",
     {{"parallel.tp", "2"}, {"parallel.etp", "1"}, {"parallel.ep", "2"}, {"batch.global", "4"}}},
    {"combined", {{"pipeline", "combined-1f1b"}, {"overlap.all_to_all", "true"}}}};

/// With half of the scenario's microbatches: emulated kernels are slow.
Changes shortened(Changes changes) {
  changes.insert(changes.begin(), {"batch.global", "8"});
  return changes;
}

class StackIteration : public testing::TestWithParam<StackOption> {};

TEST_P(StackIteration, ComputesWhatOneProcessDoes) {
  RealIteration real(shortened(GetParam().changes));
  drop_scratch(real.step().plan, real.real());
  emulated::watch_every(std::getenv("MOESIM_EMULATED_ALL") == nullptr ? 31 : 1);
  // An order takes as long as a hundred of a step.
  const auto orders = orders_of_case(100 * options.size(), 1);
  for (const std::uint64_t seed : orders) {
    SCOPED_TRACE(testing::Message() << "order " << seed);
    Comparison compared;
    const RunEnd end = run_ranks(real.real().plan.gpus, seed, [&](Job& job) {
      NcclOptions nccl;
      nccl.timeout = Seconds(1);
      const auto backend = make_nccl_backend(job, nccl);
      const MeasuredStep measured =
          measure_step(job, *backend, real.real(), {.warmup = 0, .repeats = 1});
      if (job.rank() == 0) compared = measured.compared;
    });
    EXPECT_EQ(end.text(), "");
    EXPECT_GT(compared.outputs, 0);
    EXPECT_GT(compared.weights, 0);
    EXPECT_EQ(compared.wrong(), 0);
  }
  emulated::watch_every(1);
}

INSTANTIATE_TEST_SUITE_P(All, StackIteration, testing::ValuesIn(options),
                         [](const auto& option) { return std::string(option.param.name); });

}  // namespace
}  // namespace moesim
