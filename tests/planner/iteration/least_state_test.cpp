// SPDX-License-Identifier: Apache-2.0
// State that is known before a plan is never more than what the plan holds.
#include "sim/planner/iteration/least_state.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "sim/base/unsuitable.h"
#include "tests/planner/iteration/memory_fixture.h"

namespace moesim {
namespace {

constexpr int degrees_tried = 30;  // of every system

class RandomSpecs {
 public:
  Spec next() {
    Spec made;
    made.spec.parallel = {.tp = of({1, 2}),
                          .cp = of({1, 1, 2}),
                          .pp = of({1, 2, 4}),
                          .vpp = 1,
                          .ep = of({1, 2, 4, 8}),
                          .etp = of({1, 1, 2})};
    const bool two_ways = made.spec.parallel.pp > 1 && of({0, 1}) == 1;
    made.spec.pipeline = two_ways ? PipelineKind::dualpipe : PipelineKind::one_f_one_b;
    made.spec.zero = of({0, 1, 2, 3});
    made.spec.dp_replicate = two_ways ? 1 : of({1, 1, 2});
    made.spec.optimizer = of({0, 0, 1}) == 1 ? OptimizerKind::muon : OptimizerKind::adam;
    made.spec.global_batch = 32;
    made.spec.sequence = 8;
    made.spec.distinct_microbatches = 1;
    made.state = {of({2, 4}), of({6, 12})};
    return made;
  }

 private:
  int of(const std::vector<int>& choices) { return choices[random_() % choices.size()]; }
  std::mt19937 random_{7};
};

/// [stage] what its fullest GPU holds.
std::vector<Bytes> fullest_of_stages(const MemoryPeaks& peaks, int stages) {
  std::vector<Bytes> most(static_cast<std::size_t>(stages));
  for (const MemoryPeak& peak : peaks) {
    Bytes& of_stage = most[static_cast<std::size_t>(peak.stage)];
    of_stage = std::max(of_stage, peak.use.total());
  }
  return most;
}

TEST(LeastState, IsNeverMoreThanAnySystemHolds) {
  const MoeModel model = test::whole(8);
  const Topology topology = test::h100_nodes(1);
  const RoutingTrace trace = test::tokens_for(model, 32 * 8, 8);
  int planned = 0;
  for (const auto& file : std::filesystem::directory_iterator(
           data_file("models/system", "alltoall")
               .substr(0, data_file("models/system", "alltoall").rfind('/')))) {
    if (file.path().extension() != ".yaml") continue;
    const SystemSpec system = read_system(file.path().string());
    RandomSpecs random;
    for (int i = 0; i < degrees_tried; ++i) {
      const Spec spec = random.next();
      try {
        Planner planner(system, topology, model, trace, spec);
        const PlannedStep step = planner.plan(0);
        const auto least =
            least_state(spec, planner.shape(), model, system.placement.divides_experts);
        const auto most = fullest_of_stages(step.memory.peaks, spec.spec.parallel.pp);
        for (std::size_t stage = 0; stage < least.size(); ++stage) {
          EXPECT_LE(least[stage].total(), most[stage])
              << system.name << " zero " << spec.spec.zero << " pp " << least.size() << " ep "
              << spec.spec.parallel.ep;
        }
        ++planned;
      } catch (const Error&) {
        continue;  // the degrees, or the system on them, cannot be
      }
    }
  }
  EXPECT_GT(planned, 400);
}

class LeastStateTest : public IterationMemoryTest {};

TEST_F(LeastStateTest, IsTheWholeStateOfContiguousExperts) {
  const MoeModel model = all_chosen(4);
  for (const int zero : {0, 1, 2, 3}) {
    Spec spec = options(PipelineKind::one_f_one_b, 2, 1, 4);
    spec.spec.parallel.ep = 2;
    spec.spec.zero = zero;
    const auto least = least_state(spec, shape_of(spec.spec, 8, model), model, false);
    for (const MemoryPeak& peak : memory(model, spec).peaks) {
      const MemoryUse& stage = least[static_cast<std::size_t>(peak.stage)];
      for (const auto part : {MemoryPart::weights, MemoryPart::gradients, MemoryPart::optimizer}) {
        EXPECT_EQ(peak.use.of(part), stage.of(part)) << zero << name_of(part);
      }
    }
  }
}

TEST_F(LeastStateTest, ThatFitsNoGpuOfAStageIsRefused) {
  const MoeModel model = all_chosen(4);
  const Spec spec = options(PipelineKind::one_f_one_b, 2, 1, 4);
  const IterationShape shape = shape_of(spec.spec, 8, model);
  const auto least = least_state(spec, shape, model, false);
  const auto refused = [&](Bytes memory) -> std::string {
    auto gpu = std::make_shared<GpuModel>(*test::h100s(1).front());
    gpu->memory = memory;
    try {
      check_least_state(least, shape.grid, GpuModels(8, gpu), "p", "");
    } catch (const Unsuitable& e) {
      return e.diagnostics().front().message;
    }
    return "";
  };
  // 2 layers: 2 of 8 experts of 3 x 1024 x 512 parameters each, 18 bytes of state.
  const Bytes most = std::max(least[0].total(), least[1].total());
  EXPECT_GT(most, Bytes(2 * 2 * 3 * 1024 * 512 * 18));
  EXPECT_EQ(refused(most), "");
  EXPECT_THAT(refused(most + Bytes(-1000000)),
              testing::MatchesRegex("policy 'p' needs at least .* MB all the time in pipeline "
                                    "stage ., whose GPUs have .* MB for tensors: 1 MB too much "
                                    "\\(.* MB weights, .* MB gradients, .* MB optimizer\\)"));
}

TEST_F(LeastStateTest, TheHintHasWhatTheSpecLacks) {
  const MoeModel model = all_chosen(4);  // 8 experts
  Spec spec = options(PipelineKind::one_f_one_b, 2, 1, 4);
  const auto hint = [&] { return hint_of_memory(spec, shape_of(spec.spec, 8, model).grid, model); };
  EXPECT_EQ(hint(),
            "more pipeline stages, tensor-parallel GPUs, zero: 2 or 3, recompute, shorter "
            "sequences; or memory: ignore");
  spec.spec.parallel.ep = 1;
  spec.spec.zero = 3;
  spec.spec.micro_batch = 2;
  spec.spec.recompute.add(RecomputeModule::moe_act);
  EXPECT_EQ(hint(),
            "ep up to 4 (it is 1), more pipeline stages, tensor-parallel GPUs, recompute: full, "
            "smaller micro batches, shorter sequences; or memory: ignore");
  spec.spec.parallel.tp = 4;
  spec.spec.recompute.add(RecomputeModule::full);
  EXPECT_EQ(hint(),
            "ep up to 4 (it is 1), more GPUs, smaller micro batches, shorter sequences; or "
            "memory: ignore");
}

}  // namespace
}  // namespace moesim
