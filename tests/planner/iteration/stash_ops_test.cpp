// SPDX-License-Identifier: Apache-2.0
// Copies of what experts keep to a paged stash and back: their bytes, their time, and what waits.
#include <gtest/gtest.h>

#include <numeric>

#include "sim/plan/op_order.h"
#include "sim/report/iteration_metrics.h"
#include "tests/planner/iteration/memory_fixture.h"

namespace moesim {
namespace {

/// Two stages of two layers each, four microbatches; every GPU has 4,096 rows in each layer.
class StashOps : public IterationMemoryTest {
 protected:
  static constexpr std::int64_t rows = tokens_of_gpu * 8;
  static constexpr int layers_of_gpu = 2, microbatches = 4;

  Plan plan(bool stash = true, const Recompute& recompute = {}) const {
    Spec o = options(PipelineKind::one_f_one_b, 2, 1, microbatches);
    if (stash) o.spec.stash.emplace();
    o.spec.recompute = recompute;
    const RoutingTrace trace = test::tokens_for(model_, 8 * tokens_of_gpu, tokens_of_gpu);
    Planner planner(test::policy("alltoall"), topology_, model_, trace, o);
    return planner.plan(0).plan;
  }
  static GpuModels gpus(double bytes_per_second) {
    GpuModel gpu = *test::h100s(1).front();
    gpu.memory_bandwidth = BytesPerSecond(bytes_per_second);
    gpu.memory_efficiency = 1;
    gpu.launch_overhead = Seconds(0);
    return GpuModels(8, std::make_shared<const GpuModel>(gpu));
  }
  IterationTimes times(const Plan& plan, double bytes_per_second) const {
    return iteration_times(plan, make_port_backend(topology_, gpus(bytes_per_second))->run(plan),
                           false);
  }
  static std::vector<OpId> ops_of(const Plan& plan, const OpType& type, GpuId gpu) {
    std::vector<OpId> ops;
    for (OpId id(0); id.index() < plan.ops.size(); ++id.value) {
      if (plan[id].key.type() == type && plan[id].group.contains(gpu)) ops.push_back(id);
    }
    return ops;
  }
  /// The first op of a type on a GPU after another one in the order of the plan; below 0: none.
  static OpId next_of(const Plan& plan, OpId from, OpType type, GpuId gpu) {
    for (const OpId id : ops_of(plan, type, gpu)) {
      if (id > from) return id;
    }
    return OpId(-1);
  }
  static OpId same_work(const Plan& plan, OpId as, OpType type, GpuId gpu) {
    for (const OpId id : ops_of(plan, type, gpu)) {
      const OpKey &a = plan[id].key, &b = plan[as].key;
      if (a.layer == b.layer && a.microbatch == b.microbatch) return id;
    }
    return OpId(-1);
  }

  MoeModel model_ = all_chosen(4);
  Bytes row_ = kept_expert_activations(model_, 1, 1, DataType::bf16, {});
  OpType out_{OpKind::stash}, back_{OpKind::stash, Role::plain, Pass::backward};
};

TEST_F(StashOps, CopyWhatIsKeptOutAndBackOnce) {
  const Plan made = plan();
  // 4 bytes of gate weights, two halves in bf16, the input and the inner row in bf16.
  EXPECT_EQ(row_.value, 4 + 2 * 512 * 2 + (1024 + 512) * 2);
  for (const OpType& way : {out_, back_}) {
    for (GpuId gpu(0); gpu.value < 8; ++gpu.value) {
      const auto ops = ops_of(made, way, gpu);
      EXPECT_EQ(std::ssize(ops), layers_of_gpu * microbatches);
      for (const OpId id : ops) {
        EXPECT_EQ(made[id].stream, Stream::stash);
        EXPECT_EQ(std::get<MemoryBound>(made[id].kernels()->of(made[id].group.member(gpu))),
                  (MemoryBound{row_ * rows, row_ * rows}));
      }
    }
  }
  EXPECT_TRUE(ops_of(plan(false), out_, GpuId(0)).empty());
  Recompute all;
  all.add(RecomputeModule::moe);
  EXPECT_TRUE(ops_of(plan(true, all), out_, GpuId(0)).empty()) << "nothing is kept";
}

TEST_F(StashOps, TakeTheirBytesAtTheBandwidthOfTheMemory) {
  const Plan made = plan();
  const Timeline timeline = make_port_backend(topology_, gpus(1e12))->run(made);
  const double closed_form = 2 * static_cast<double>(row_.value) * rows / 1e12;
  for (const OpType& way : {out_, back_}) {
    const OpId id = ops_of(made, way, GpuId(3)).front();
    const Interval taken = timeline.ops[id.index()][made[id].group.member(GpuId(3))];
    EXPECT_NEAR((taken.end - taken.start).value / closed_form, 1, 1e-9);
  }
}

TEST_F(StashOps, FollowTheExpertsAndHoldUpTheNextOnes) {
  const Plan made = plan();
  const GpuId gpu(0);
  OpOrder order(made);
  for (const OpId copy : ops_of(made, out_, gpu)) {
    const OpType fc2{OpKind::fc2}, combine{OpKind::token_exchange};
    EXPECT_TRUE(order.precedes(same_work(made, copy, fc2, gpu), copy, gpu));
    const OpId next = next_of(made, copy, {OpKind::fc1}, gpu);
    EXPECT_TRUE(next.value < 0 || order.precedes(copy, next, gpu));
    // Results travel while what the experts keep is copied.
    EXPECT_FALSE(order.precedes(copy, next_of(made, copy, combine, gpu), gpu));
  }
  for (const OpId copy : ops_of(made, back_, gpu)) {
    const OpType gradient{OpKind::fc2, Role::dgrad, Pass::backward};
    const OpType travels{OpKind::token_exchange, Role::plain, Pass::backward};
    EXPECT_TRUE(order.precedes(copy, same_work(made, copy, gradient, gpu), gpu));
    EXPECT_FALSE(order.precedes(copy, same_work(made, copy, travels, gpu), gpu));
    EXPECT_TRUE(order.precedes(same_work(made, copy, out_, gpu), copy, gpu));
  }
  // A layer's are on their way while the gradients of the layer behind it go through attention.
  const OpType attention{OpKind::attention_scores, Role::dgrad, Pass::backward};
  const OpId first = ops_of(made, attention, gpu).front();
  const OpId copy = next_of(made, first, back_, gpu);
  EXPECT_FALSE(order.precedes(first, copy, gpu));
}

TEST_F(StashOps, AreHiddenOrCountAsWhatMovesRows) {
  const auto sum = [](const IterationTimes& of) {
    return std::accumulate(of.parts.begin(), of.parts.end(), Seconds(0)).value;
  };
  const Plan with = plan(), without = plan(false);
  for (const double bandwidth : {1e11, 3e12}) {
    const IterationTimes copied = times(with, bandwidth), kept = times(without, bandwidth);
    EXPECT_NEAR(sum(copied) / copied.iteration.value, 1, 1e-9);
    EXPECT_GE(copied.iteration, kept.iteration);
    EXPECT_GE(copied.of(IterationPart::moe_other), kept.of(IterationPart::moe_other));
    const double copies =
        4.0 * static_cast<double>(row_.value) * rows / bandwidth * layers_of_gpu * microbatches;
    EXPECT_LE((copied.of(IterationPart::moe_other) - kept.of(IterationPart::moe_other)).value,
              copies * (1 + 1e-9));
  }
  EXPECT_GT(times(with, 1e11).iteration, times(without, 1e11).iteration);
  EXPECT_GT(times(with, 1e11).of(IterationPart::moe_other),
            times(without, 1e11).of(IterationPart::moe_other));
}

}  // namespace
}  // namespace moesim
