// SPDX-License-Identifier: Apache-2.0
// Activations that wait in the memory of the host: bytes, order of copies, time and memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "sim/base/error.h"
#include "sim/engine/flow_backend.h"
#include "sim/plan/op_order.h"
#include "sim/planner/iteration/host_copies.h"
#include "sim/report/iteration_metrics.h"
#include "tests/planner/iteration/memory_fixture.h"

namespace moesim {
namespace {

using enum OffloadModule;

/// Layers of all_chosen: every GPU has 4,096 rows of experts in each.
class OffloadTest : public IterationMemoryTest {
 protected:
  static constexpr std::int64_t rows = tokens_of_gpu * 8;

  Spec with(const Offload& offload, int pp = 2, int microbatches = 4) const {
    Spec o = options(PipelineKind::one_f_one_b, pp, 1, microbatches);
    o.spec.offload = offload;
    return o;
  }
  PlannedStep planned(const Spec& o) const { return planned(o, topology_); }
  PlannedStep planned(const Spec& o, const Topology& topology) const {
    const RoutingTrace trace = test::tokens_for(model_, 8 * tokens_of_gpu, tokens_of_gpu);
    return Planner(test::policy("alltoall"), topology, model_, trace, o).plan(0);
  }
  static std::vector<OpId> ops_of(const Plan& plan, const OpType& type, GpuId gpu) {
    std::vector<OpId> ops;
    for (OpId id(0); id.index() < plan.ops.size(); ++id.value) {
      if (plan[id].key.type() == type && plan[id].group.contains(gpu)) ops.push_back(id);
    }
    return ops;
  }
  static Bytes moved_by(const Plan& plan, const OpType& way, GpuId gpu) {
    Bytes bytes;
    for (const OpId id : ops_of(plan, way, gpu)) bytes += plan[id].traffic().at(gpu, gpu);
    return bytes;
  }
  Bytes of_layer(const Offload& offload) const {
    const BlockShard shard{tokens_of_gpu, (tokens_of_gpu + 1) / 2};
    return moved_activations(model_, 0, BlockKind::attention, shard, {}, offload) +
           moved_activations(model_, 0, BlockKind::moe, shard, {}, offload) +
           moved_expert_activations(model_, rows, 1, DataType::bf16, {}, offload);
  }

  MoeModel model_ = all_chosen(8);
  OpType out_{OpKind::offload}, back_{OpKind::offload, Role::plain, Pass::backward};
};

TEST_F(OffloadTest, ModulesMoveTheirInputs) {
  constexpr std::int64_t t = tokens_of_gpu, h = 1024, f = 512;
  EXPECT_EQ(of_layer({expert_fc1}).value, rows * h * 2);
  EXPECT_EQ(of_layer({moe_act}).value, rows * 2 * f * 2);
  EXPECT_EQ(of_layer({fused_group_mlp}).value, rows * (h + 3 * f) * 2);
  EXPECT_EQ(of_layer({core_attn}).value, t * (1024 + 256 + 256) * 2);
  EXPECT_EQ(of_layer({attn_proj}).value, t * 1024 * 2);
  // The norm is a part of the product's kernel: its input and its output.
  EXPECT_EQ(of_layer({qkv_linear}).value, t * h * 4);
  EXPECT_EQ(of_layer({attn_norm}).value, 0);
  EXPECT_EQ(of_layer({mlp_norm}).value, t * h * 2);
  EXPECT_THAT(without_effect({attn_norm, expert_fc1}, model_, {}),
              testing::ElementsAre("attn_norm"));
}

TEST_F(OffloadTest, ModulesOfLatentAttentionAreApart) {
  const MoeModel deepseek = read_moe_model(data_file("models/moe", "deepseek-v3"));
  const BlockShard shard{64, 32};
  const auto moved = [&](const Offload& offload, const Recompute& recompute = {}) {
    return moved_activations(deepseek, 5, BlockKind::attention, shard, recompute, offload).value;
  };
  constexpr std::int64_t t = 64, h = 7168;
  EXPECT_EQ(moved({attn_norm}), t * h * 2);
  EXPECT_EQ(moved({core_attn}), t * 128 * (2 * 192 + 128) * 2);
  EXPECT_EQ(moved({core_attn}, {RecomputeModule::mla_up_proj}), 0) << "it is not kept";
}

TEST_F(OffloadTest, CopiesMoveEveryByteOutAndBackOnce) {
  const Offload offload = {expert_fc1, core_attn, mlp_norm};
  const Plan plan = planned(with(offload)).plan;
  for (GpuId gpu(0); gpu.value < 8; ++gpu.value) {
    // Stage 0 keeps the last of its 4 layers for its first microbatch, stage 1 for all 4.
    const std::int64_t layers = gpu.value < 4 ? 4 * 4 - 1 : 4 * 3;
    for (const OpType& way : {out_, back_}) {
      EXPECT_EQ(moved_by(plan, way, gpu), of_layer(offload) * layers);
    }
  }
  EXPECT_TRUE(ops_of(planned(with({})).plan, out_, GpuId(0)).empty());
}

TEST_F(OffloadTest, CopiesFollowWhatTheyCopyAndComeBackALayerAhead) {
  const Plan plan = planned(with({expert_fc1})).plan;
  const GpuId gpu(0);
  OpOrder order(plan);
  const auto same_layer = [&](OpId as, const OpType& type) {
    for (const OpId id : ops_of(plan, type, gpu)) {
      const OpKey &a = plan[id].key, &b = plan[as].key;
      if (a.layer == b.layer && a.microbatch == b.microbatch) return id;
    }
    return OpId(-1);
  };
  for (const OpId copy : ops_of(plan, out_, gpu)) {
    EXPECT_TRUE(order.precedes(same_layer(copy, {OpKind::fc2}), copy, gpu));
    EXPECT_TRUE(order.precedes(copy, same_layer(copy, back_), gpu));
  }
  const OpType gradient{OpKind::fc2, Role::dgrad, Pass::backward};
  const std::vector<OpId> back = ops_of(plan, back_, gpu), uses = ops_of(plan, gradient, gpu);
  for (const OpId copy : back) {
    const OpId use = same_layer(copy, gradient);
    EXPECT_TRUE(order.precedes(copy, use, gpu));
    // Not before the experts of the layer behind have ended, and during all that follows these.
    const auto before = std::ranges::find(uses, use);
    if (before == uses.begin()) continue;
    EXPECT_TRUE(order.precedes(*std::prev(before), copy, gpu));
    const OpType attention{OpKind::attention_scores, Role::dgrad, Pass::backward};
    const OpId later = ops_of(
        plan, attention, gpu)[static_cast<std::size_t>(std::distance(uses.begin(), before) - 1)];
    EXPECT_FALSE(order.precedes(later, copy, gpu));
  }
}

TEST_F(OffloadTest, ACopyTakesItsBytesOverTheLinkOfTheGpu) {
  const PlannedStep step = planned(with({expert_fc1}));
  const Timeline timeline = make_port_backend(topology_, test::h100s(8))->run(step.plan);
  const OpId copy = ops_of(step.plan, out_, GpuId(3)).front();
  const Interval taken = timeline.ops[copy.index()][step.plan[copy].group.member(GpuId(3))];
  const double bytes = static_cast<double>(rows * 1024 * 2);
  EXPECT_NEAR((taken.end - taken.start).value, bytes / 64e9 + 0.5e-6, 1e-9);
}

TEST_F(OffloadTest, CopiesShareTheLinkOfTheGpuWithItsNic) {
  const Topology two = test::h100_nodes(2);
  const auto end_of_copy = [&](bool sends) {
    Plan plan{"copy", 16, {}};
    const ByteMatrix::Entry own{GpuId(0), 1}, other{GpuId(1), 1};
    Exchange copied{ByteMatrix(Bytes(64'000'000)), {}, false};
    copied.traffic.add_row(std::span(&own, 1));
    copied.with_hosts = true;
    plan.add({"copy", {.kind = OpKind::offload}, Stream::to_host, Group({GpuId(0)}), {}, copied});
    Exchange sent{ByteMatrix(Bytes(50'000'000)), {}, false};
    sent.traffic.add_row(std::span(&other, 1));
    sent.traffic.add_row({});
    const Group pair({GpuId(0), GpuId(8)});
    if (sends) plan.add({"send", {.kind = OpKind::token_exchange}, Stream::ep, pair, {}, sent});
    return make_port_backend(two, test::h100s(16))->run(plan).ops[0][0].end.value;
  };
  EXPECT_NEAR(end_of_copy(false), 1e-3 + 0.5e-6, 1e-9);
  // 114 MB at 64 GB/s.
  EXPECT_NEAR(end_of_copy(true), 1.78e-3, 0.02e-3);
}

TEST_F(OffloadTest, FlowsAndPortsCopyAlikeWhereNobodyElseUsesTheLinks) {
  const PlannedStep step = planned(with({expert_fc1, core_attn}));
  const GpuModels gpus = test::h100s(8);
  const double port = make_port_backend(topology_, gpus)->run(step.plan).makespan.value;
  const double flow = make_flow_backend(topology_, gpus, {})->run(step.plan).makespan.value;
  EXPECT_NEAR(flow / port, 1, 0.02);
}

TEST_F(OffloadTest, JoinedCopiesTakeAsLongAsThoseOfEveryGpu) {
  Spec apart = with({expert_fc1, core_attn}), joined = apart;
  joined.join_alike = true;
  const GpuModels gpus = test::h100s(8);
  const auto backend = make_port_backend(topology_, gpus);
  const PlannedStep one = planned(joined), each = planned(apart);
  EXPECT_LT(one.plan.ops.size(), each.plan.ops.size());
  EXPECT_NEAR(backend->run(one.plan).makespan.value / backend->run(each.plan).makespan.value, 1,
              1e-6);
}

TEST_F(OffloadTest, ExposedCopiesAreAPartOfTheIteration) {
  const GpuModels gpus = test::h100s(8);
  const auto times = [&](const Spec& o) {
    const PlannedStep step = planned(o);
    return iteration_times(step.plan, make_port_backend(topology_, gpus)->run(step.plan), false);
  };
  const IterationTimes with_copies =
      times(with({fused_group_mlp, core_attn, attn_proj, qkv_linear}));
  const IterationTimes without = times(with({}));
  EXPECT_GT(with_copies.of(IterationPart::offload), Seconds(0));
  EXPECT_EQ(without.of(IterationPart::offload), Seconds(0));
  EXPECT_GT(with_copies.iteration, without.iteration);
  const Seconds sum =
      std::accumulate(with_copies.parts.begin(), with_copies.parts.end(), Seconds(0));
  EXPECT_NEAR(sum.value / with_copies.iteration.value, 1, 1e-9);
}

TEST_F(OffloadTest, MemoryHoldsTwoBlocksOfWhatIsElsewhere) {
  const Offload offload = {expert_fc1};
  const Bytes moved = of_layer(offload);
  // One stage, 8 microbatches forward before any goes backward: 8 layers of each are kept.
  Spec gpipe = options(PipelineKind::gpipe, 1, 1, 8);
  const StepMemory all = planned(gpipe).memory;
  gpipe.spec.offload = offload;
  const StepMemory some = planned(gpipe).memory;
  const Bytes saved = activations(all, 0) + activations(some, 0) * -1;
  // The last layer of the microbatch that goes backward first stays, as what moves at the peak.
  EXPECT_LE(saved, moved * (8 * 8 - 1));
  EXPECT_GE(saved, moved * (8 * 8 - 4));
  EXPECT_LE(some.peaks[0].on_host, moved * (8 * 8 - 1));
  EXPECT_GE(some.peaks[0].on_host, moved * (8 * 8 - 4));
  EXPECT_EQ(all.peaks[0].on_host, Bytes(0));
}

TEST_F(OffloadTest, KeepsTheLastLayerIfItIsNeededNext) {
  const Pipeline pipeline({.kind = PipelineKind::one_f_one_b, .stages = 2, .microbatches = 3});
  using Kept = std::set<std::pair<int, int>>;
  EXPECT_EQ(keeping_last_layer(pipeline.of(0)), (Kept{{0, 0}}));
  EXPECT_EQ(keeping_last_layer(pipeline.of(1)), (Kept{{0, 0}, {1, 0}, {2, 0}}));
}

TEST_F(OffloadTest, NeedsALinkToTheMemoryOfTheHost) {
  const Topology topology = parse_topology(
                                "nodes: 1\nnode:\n  gpu: h100-sxm\n  gpus: 8\n"
                                "  nvlink: {kind: switch, bandwidth: 400 GB/s, latency: 1 us}\n",
                                "bare")
                                .topology;
  try {
    planned(with({expert_fc1}), topology);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.diagnostics().front().message,
              "'offload: expert_fc1' on topology 'bare', where GPU 0 has no link to the memory of "
              "its host");
    EXPECT_THAT(e.diagnostics().front().hint, testing::HasSubstr("c2c"));
  }
}

}  // namespace
}  // namespace moesim
