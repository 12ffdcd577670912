// SPDX-License-Identifier: Apache-2.0
// The schedule that hides expert parameters: what every parameter exchange of three layers on two
// GPUs waits for, and what waits for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "sim/analytic/analytic_backend.h"
#include "sim/base/data_files.h"
#include "sim/planner/schedule/schedule.h"
#include "tests/mechanism/random_layers.h"

namespace moesim {
namespace {

using testing::ElementsAre;

ParamExchange swap_of(std::string name) {
  const std::int64_t bytes[] = {0, 64, 64, 0};
  return {std::move(name), ByteMatrix::from_dense(2, bytes), {}, {}};
}

/// Layers 1, 2 and 3, each of one token per GPU, that restores its experts and reduces gradients.
class OverlapScheduleTest : public testing::Test {
 protected:
  OverlapScheduleTest() {
    plan_.gpus = 2;
    model_.hidden = 128;
    model_.experts = 4;
    model_.top_k = 2;
    model_.expert_ffn = 8;
    dispatch_ = make_dispatch("alltoall", topology_, 2, model_);
    for (int number = 1; number <= 3; ++number) {
      LayerDecision decision(tokens_.assignment);
      decision.gather = {swap_of("restore")};
      decision.regather = {swap_of("restore")};
      decision.reduce = {swap_of("reduce")};
      LayerWork& work = layers_.emplace_back(std::move(decision));
      work.number = number;
      work.tokens_per_rank = {1, 1};
      work.dispatch = dispatch_.get();
      work.counts = dispatch_->count(tokens_.view());
    }
  }

  void issue(const std::string& params, bool backward = true) {
    const auto doc = YamlDocument::from_text(params, "test");
    const auto schedule = read_overlap(doc->root().map())({topology_, model_});
    doc->finish();
    StepOps step(plan_, model_, layers_);
    issue_step(*schedule, step.ops, backward);
    check_plan(plan_);
  }

  static std::string title(const Op& op) {
    return fmt::format("{} {}{}", op.label.text(), op.key.layer,
                       op.key.pass == Pass::backward ? "b" : "f");
  }
  /// Each parameter exchange in the order of its stream: "name layer pass < what it waits for".
  std::vector<std::string> waits() const {
    std::vector<std::string> all;
    for (const Op& op : plan_.ops) {
      if (op.stream != Stream::param) continue;
      std::set<std::string> after;
      for (const OpId id : op.after) after.insert(title(plan_[id]));
      all.push_back(fmt::format("{} < {}", title(op), fmt::join(after, ", ")));
    }
    return all;
  }
  /// The same with what waits for it, on both GPUs.
  std::vector<std::string> users() const {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < plan_.ops.size(); ++i) {
      if (plan_.ops[i].stream != Stream::param) continue;
      std::multiset<std::string> before;
      for (const Op& op : plan_.ops) {
        const bool waits = std::find(op.after.begin(), op.after.end(),
                                     OpId(static_cast<std::int64_t>(i))) != op.after.end();
        for (std::size_t gpu = 0; waits && gpu < op.group.size(); ++gpu) before.insert(title(op));
      }
      all.push_back(fmt::format("{} > {}", title(plan_.ops[i]), fmt::join(before, ", ")));
    }
    return all;
  }

  Topology topology_ = bare_nodes(1, 2);
  Tokens tokens_{2, 4, 2, 1, {2, 3, 0, 3}, 2};
  MoeModel model_;
  std::unique_ptr<Dispatch> dispatch_;
  std::vector<LayerWork> layers_;
  Plan plan_;
};

const char* const fsep = "{gather: dispatch, reduce: delayed, recompute: experts}";

TEST_F(OverlapScheduleTest, FsepLaunchesRestoresAndReducesBehindTheGatesOfTheLayerBefore) {
  issue(fsep);
  EXPECT_THAT(waits(), ElementsAre("restore 1f < ",                           // exposed
                                   "restore 2f < dispatch-alltoall 1f",       // gate fwd(2)
                                   "restore 3f < dispatch-alltoall 2f",       // gate fwd(3)
                                   "restore 3b < unpermute 3f",               // no gate
                                   "restore 2b < dispatch-alltoall-grad 3b",  // gate bwd(2)
                                   "reduce 3b < dispatch-alltoall-grad 2b",   // gate bwd(1),
                                   "restore 1b < dispatch-alltoall-grad 2b",  // then the restore
                                   "reduce 2b < dispatch-alltoall-grad 1b",
                                   "reduce 1b < gate-wgrad 1b"));  // flushed at the end
}

TEST_F(OverlapScheduleTest, ExpertsWaitForTheirRestoreAndNothingForReduces) {
  issue(fsep);
  EXPECT_THAT(users(),
              ElementsAre("restore 1f > gate 1f, gate 1f, sort 1f, sort 1f",
                          "restore 2f > sort 2f, sort 2f", "restore 3f > sort 3f, sort 3f",
                          "restore 3b > fc1-recompute 3b, fc1-recompute 3b, reduce-grad 3b, "
                          "reduce-grad 3b",
                          "restore 2b > fc1-recompute 2b, fc1-recompute 2b, reduce-grad 2b, "
                          "reduce-grad 2b",
                          "reduce 3b > ",
                          "restore 1b > fc1-recompute 1b, fc1-recompute 1b, reduce-grad 1b, "
                          "reduce-grad 1b",
                          "reduce 2b > ", "reduce 1b > "));
}

TEST_F(OverlapScheduleTest, TheFirstRestoreMayBeHidden) {
  issue("{gather: dispatch, first: hidden}", false);
  EXPECT_THAT(users(), ElementsAre("restore 1f > sort 1f, sort 1f", "restore 2f > sort 2f, sort 2f",
                                   "restore 3f > sort 3f, sort 3f"));
}

TEST_F(OverlapScheduleTest, WithoutCommunicationScheduleOneUnitIsPrefetched) {
  issue("{gather: attention, reduce: at-once}");
  EXPECT_THAT(waits(),
              ElementsAre("restore 1f < ", "restore 2f < unpermute 1f", "restore 3f < unpermute 2f",
                          "restore 3b < unpermute 3f", "reduce 3b < sort-grad 3b",
                          "restore 2b < gate-wgrad 3b", "reduce 2b < sort-grad 2b",
                          "restore 1b < gate-wgrad 2b", "reduce 1b < sort-grad 1b"));
}

TEST_F(OverlapScheduleTest, AStepOrALayerAheadInBothPasses) {
  issue("{gather: step, reduce: at-once}");
  EXPECT_THAT(waits(), ElementsAre("restore 1f < ", "restore 2f < ", "restore 3f < ",
                                   "restore 3b < unpermute 3f", "restore 2b < unpermute 3f",
                                   "restore 1b < unpermute 3f", "reduce 3b < sort-grad 3b",
                                   "reduce 2b < sort-grad 2b", "reduce 1b < sort-grad 1b"));
  plan_ = Plan();
  plan_.gpus = 2;
  issue("{gather: layer, first: hidden}");
  EXPECT_THAT(waits(), ElementsAre("restore 1f < ", "restore 2f < ", "restore 3f < unpermute 1f",
                                   "restore 3b < unpermute 3f", "restore 2b < unpermute 3f",
                                   "reduce 3b < sort-grad 3b", "restore 1b < gate-wgrad 3b",
                                   "reduce 2b < sort-grad 2b", "reduce 1b < sort-grad 1b"));
}

TEST_F(OverlapScheduleTest, ExpertsAreComputedThreeOrFourTimes) {
  const auto count = [&](const std::string& name) {
    std::size_t gpus = 0;
    for (const Op& op : plan_.ops) gpus += op.label == name ? op.group.size() : 0;
    return gpus;
  };
  issue(fsep);
  EXPECT_EQ(count("fc1-recompute"), 6u);  // 3 layers x 2 GPUs
  EXPECT_EQ(count("fc1"), 6u);
  EXPECT_EQ(count("dispatch-alltoall"), 6u);  // recompute exchanges no tokens
  plan_ = Plan();
  plan_.gpus = 2;
  issue("{gather: dispatch}");
  EXPECT_EQ(count("fc1-recompute"), 0);
}

/// Restores of 4 MB over 400 GB/s take 10 us; experts and exchanges around them less or more.
TEST_F(OverlapScheduleTest, ARestoreIsExposedExactlyAsFarAsNothingHidesIt) {
  const auto makespan = [&](std::int64_t bytes) {
    const std::int64_t table[] = {0, bytes, bytes, 0};
    for (LayerWork& work : layers_) {
      work.decision.gather[0].traffic = ByteMatrix::from_dense(2, table);
    }
    plan_ = Plan();
    plan_.gpus = 2;
    issue("{gather: dispatch}", false);
    const auto gpu =
        std::make_shared<const GpuModel>(read_gpu_model(data_file("models/gpu", "h100-sxm")));
    return make_analytic_backend(topology_, {gpu, gpu})->run(plan_).makespan.value;
  };
  const double free = makespan(1), gap = makespan(4'000'000) - free;
  // Only the first is not hidden at first; a very long one is exposed three times.
  EXPECT_GE(gap, 10e-6 * 0.999);
  EXPECT_LT(gap, 30e-6);
  EXPECT_NEAR(makespan(800'000'000) - makespan(400'000'000), 3 * 1e-3, 1e-9);
}

TEST_F(OverlapScheduleTest, FirstHasNoMeaningWhenEveryLayerIsLaunchedAlike) {
  try {
    issue("{gather: attention, first: hidden}");
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("'schedule.first' has no effect"));
  }
}

}  // namespace
}  // namespace moesim
