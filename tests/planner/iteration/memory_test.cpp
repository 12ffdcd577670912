// SPDX-License-Identifier: Apache-2.0
// Memory over an iteration against closed forms: state by ZeRO stage, microbatches in flight by
// schedule, rows by routing, what recomputation leaves.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/base/unsuitable.h"
#include "sim/planner/pipeline/ideal_times.h"
#include "sim/trace/memory_step.h"
#include "tests/planner/iteration/memory_fixture.h"

namespace moesim {
namespace {

struct InFlight {
  PipelineKind kind;
  int pp, vpp, microbatches;
};

class HeldMicrobatches : public IterationMemoryTest,
                         public testing::WithParamInterface<InFlight> {};

TEST_P(HeldMicrobatches, AreThoseOfTheSchedule) {
  const InFlight c = GetParam();
  const MoeModel model = all_chosen(8);
  const Spec o = options(c.kind, c.pp, c.vpp, c.microbatches);
  const StepMemory held = memory(model, o);
  const Pipeline pipeline({c.kind, c.pp, c.microbatches, c.vpp});
  const Bytes of_chunk = kept_by_layer(model, {}) * (8 / c.pp / c.vpp);
  for (int stage = 0; stage + 1 < c.pp; ++stage) {  // the last one has a head besides
    int passes = c.kind == PipelineKind::gpipe ? c.microbatches : c.pp - stage;
    if (c.kind == PipelineKind::interleaved) {
      passes = (c.vpp - 1) * c.pp + 2 * (c.pp - stage) - 1;
    }
    EXPECT_EQ(passes, std::ranges::max(live_activations(pipeline.of(stage))));
    const int gpu = stage * 8 / c.pp;
    EXPECT_EQ(activations(held, gpu), of_chunk * passes) << stage;
  }
}
INSTANTIATE_TEST_SUITE_P(Schedules, HeldMicrobatches,
                         testing::Values(InFlight{PipelineKind::one_f_one_b, 2, 1, 4},
                                         InFlight{PipelineKind::one_f_one_b, 4, 1, 8},
                                         InFlight{PipelineKind::one_f_one_b, 8, 1, 16},
                                         InFlight{PipelineKind::gpipe, 4, 1, 6},
                                         InFlight{PipelineKind::gpipe, 2, 1, 3},
                                         InFlight{PipelineKind::interleaved, 4, 2, 8},
                                         InFlight{PipelineKind::interleaved, 2, 4, 4}),
                         [](const auto& run) {
                           std::string name = fmt::format("{}_pp{}_vpp{}", name_of(run.param.kind),
                                                          run.param.pp, run.param.vpp);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST_F(IterationMemoryTest, DualPipeHoldsWeightsTwiceAndOnePassMoreThanStages) {
  const MoeModel model = all_chosen(8);
  const StepMemory once = memory(model, options(PipelineKind::one_f_one_b, 4, 1, 8));
  const StepMemory twice = memory(model, options(PipelineKind::dualpipe, 4, 1, 8));
  const int middle = 2;  // of stage 1: neither embedding nor head
  const auto part = [&](const StepMemory& of, MemoryPart p) { return of.peaks[middle].use.of(p); };
  for (const MemoryPart p : {MemoryPart::weights, MemoryPart::gradients}) {
    EXPECT_EQ(part(twice, p), part(once, p) * 2) << name_of(p);
  }
  // Both stages that hold the same share what ZeRO divides.
  EXPECT_EQ(part(twice, MemoryPart::optimizer), part(once, MemoryPart::optimizer));
  const Bytes pass = kept_by_layer(model, {}) * 2;
  EXPECT_GT(activations(twice, middle), pass * 4);
  EXPECT_LE(activations(twice, middle), pass * 5);
}

TEST_F(IterationMemoryTest, StateIsDividedAsTheStageOfZeroSays) {
  const MoeModel model = all_chosen(4);
  std::int64_t dense = 0, routed = 0;
  const auto add = [&](int layer, BlockKind kind) {
    const BlockParameters p = block_parameters(model, layer, kind);
    dense += p.split + p.whole;
    routed += p.routed;
  };
  add(0, BlockKind::embedding);
  add(0, BlockKind::head);
  for (int layer = 0; layer < 4; ++layer)
    add(layer, BlockKind::attention), add(layer, BlockKind::moe);
  for (int zero = 0; zero <= 2; ++zero) {
    Spec o = options(PipelineKind::one_f_one_b, 1, 1, 2);
    o.spec.parallel.ep = 4;
    o.spec.zero = zero;
    const MemoryUse use = memory(model, o).peaks[0].use;
    EXPECT_EQ(use.of(MemoryPart::weights), Bytes(2 * (dense + routed / 4)));
    const auto shared = [&](int bytes, int from) {  // of 8 replicas, and of 2 EP groups
      return zero < from ? Bytes(bytes * (dense + routed / 4))
                         : Bytes((bytes * dense + 7) / 8 + bytes * routed / 4 / 2);
    };
    EXPECT_EQ(use.of(MemoryPart::gradients), shared(4, 2)) << zero;
    EXPECT_EQ(use.of(MemoryPart::optimizer), shared(12, 1)) << zero;
  }
}

TEST_F(IterationMemoryTest, CopiesHoldAllStateEach) {
  const MoeModel model = all_chosen(4);
  const auto state = [&](int ep, int copies) {
    Spec o = options(PipelineKind::one_f_one_b, 1, 1, 2);
    o.spec.parallel.ep = ep;
    o.spec.zero = 3;
    o.spec.dp_replicate = copies;
    const MemoryUse use = memory(model, o).peaks[0].use;
    return std::array{use.of(MemoryPart::weights), use.of(MemoryPart::gradients),
                      use.of(MemoryPart::optimizer)};
  };
  // Eight GPUs that share everything; then in two copies, on four each.
  const auto once = state(2, 1), twice = state(2, 2);
  for (std::size_t part = 0; part < once.size(); ++part) {
    EXPECT_NEAR(static_cast<double>(twice[part].value) / static_cast<double>(once[part].value), 2,
                1e-5);
  }
}

/// Of the parameters that it updates itself: all of them, or its part of the replicas'.
TEST_F(IterationMemoryTest, UpdateTakesItsBytesWhileNothingElseWorks) {
  const MoeModel model = all_chosen(4);
  for (int zero = 0; zero <= 2; ++zero) {
    Spec o = options(PipelineKind::one_f_one_b, 1, 1, 2);
    o.spec.parallel.ep = 4;
    o.spec.zero = zero;
    const MemoryPeak passes = memory(model, o).peaks[0];
    o.spec.update_bytes = 1;  // less than what passes need: nothing changes but the curve's end
    EXPECT_EQ(memory(model, o).peaks[0].use, passes.use);
    o.spec.update_bytes = 1000;
    const StepMemory held = memory(model, o);
    const MemoryPeak& peak = held.peaks[0];
    EXPECT_TRUE(peak.update && !passes.update);
    EXPECT_EQ(peak.when(), "in the update of pipeline stage 0");
    const Bytes own = peak.use.of(MemoryPart::optimizer);
    EXPECT_EQ(own, passes.use.of(MemoryPart::optimizer));
    EXPECT_EQ(peak.use.of(MemoryPart::working), Bytes(own.value / 12 * 1000)) << zero;
    EXPECT_EQ(peak.use.of(MemoryPart::activations), Bytes(0));
    EXPECT_EQ(peak.use.of(MemoryPart::gradients), passes.use.of(MemoryPart::gradients));
    ASSERT_EQ(held.curve.size(), 5u);  // 2 microbatches there and back
    EXPECT_EQ(held.curve.back(), peak.use);
    o.optimizer = false;
    EXPECT_EQ(memory(model, o).peaks[0].use, passes.use);
  }
}

TEST_F(IterationMemoryTest, GradientsOfTheBlockAtWorkAreWholeBeforeZeroSharesThem) {
  const MoeModel model = all_chosen(4);
  Spec o = options(PipelineKind::one_f_one_b, 1, 1, 2);
  o.spec.parallel.ep = 4;
  const auto moe = [&](int zero) {
    o.spec.zero = zero;
    const MemoryPeak peak = memory(model, o).peaks[0];
    EXPECT_EQ(peak.block, BlockKind::moe);
    return peak.use.of(MemoryPart::working);
  };
  const BlockParameters p = block_parameters(model, 3, BlockKind::moe);
  EXPECT_EQ(moe(2), moe(1) + Bytes(4 * (p.whole + p.split + p.routed / 4)));
}

TEST_F(IterationMemoryTest, FullRecomputationKeepsTheInputsOfLayers) {
  const MoeModel model = all_chosen(8);
  Spec o = options(PipelineKind::one_f_one_b, 4, 1, 8);
  const StepMemory all = memory(model, o);
  o.spec.recompute = {RecomputeModule::full};
  const StepMemory least = memory(model, o);
  const Bytes input(std::int64_t{tokens_of_gpu} * 1024 * 2);
  EXPECT_EQ(kept_by_layer(model, o.spec.recompute), input);
  EXPECT_EQ(activations(least, 0), input * 2 * 4);
  // The layer that is computed again is there as if it had been kept.
  const Bytes again =
      least.peaks[0].use.of(MemoryPart::working) + all.peaks[0].use.of(MemoryPart::working) * -1;
  EXPECT_EQ(again, kept_by_layer(model, {}) + input * -1);
}

TEST_F(IterationMemoryTest, WeightGradientsApartHoldWhatTheyMultiply) {
  const MoeModel model = all_chosen(8);
  const StepMemory held = memory(model, options(PipelineKind::zb1p, 4, 1, 8));
  const StepMemory whole = memory(model, options(PipelineKind::one_f_one_b, 4, 1, 8));
  EXPECT_GT(activations(held, 0), activations(whole, 0));
}

/// 8 experts, top-2; the tokens choose among the first `chosen`.
RoutingTrace skewed(const MoeModel& model, int chosen) {
  TraceInfo info;
  info.name = "skewed";
  info.model = model.name;
  info.experts = model.experts;
  info.top_k = 2;
  info.layers = model.moe_layers;
  std::vector<int> ids;
  for (std::size_t i = 0; i < info.layers.size() * 8 * tokens_of_gpu; ++i) {
    const int first = static_cast<int>(i) % chosen;
    ids.push_back(first);
    ids.push_back((first + 1) % chosen);
  }
  StepArrays arrays{0, IdArray(8, ids), std::vector<std::int32_t>(8, tokens_of_gpu), {}, {}};
  const auto step = make_step(info, std::move(arrays));
  return RoutingTrace(std::move(info), {step});
}

TEST_F(IterationMemoryTest, SkewedRoutingFillsExactlyTheGpuThatGetsTheRows) {
  MoeModel model = all_chosen(4);
  model.top_k = 2;
  Spec o = options(PipelineKind::one_f_one_b, 1, 1, 1);
  o.spec.parallel.ep = 4;
  const StepMemory even = memory(model, o, skewed(model, 8));
  const StepMemory skew = memory(model, o, skewed(model, 2));
  const std::int64_t rows = std::int64_t{tokens_of_gpu} * 2;  // of one GPU's tokens
  const auto kept = [&](std::int64_t of) {
    return kept_expert_activations(model, of, 1, DataType::bf16, {}) * 4;
  };
  const Bytes head = kept_activations(model, 0, BlockKind::head, {tokens_of_gpu}, {});
  const auto of_layers = [&](const StepMemory& held, int gpu) {
    const bool with_head = held.peaks[static_cast<std::size_t>(gpu)].block == BlockKind::head;
    return activations(held, gpu) + head * (with_head ? -1 : 0);
  };
  for (int gpu = 0; gpu < 8; ++gpu) {
    const bool gets = gpu % 4 == 0;  // the first two experts are on the first GPU of a group
    EXPECT_EQ(of_layers(skew, gpu) + of_layers(even, gpu) * -1,
              kept(gets ? 4 * rows : 0) + kept(rows) * -1)
        << gpu;
  }
  EXPECT_EQ(fullest(skew.peaks), GpuId(0));
  EXPECT_EQ(fullest(even.peaks), GpuId(0));
}

TEST_F(IterationMemoryTest, CurveOfTheFullestGpuHasItsPeakInItsTurn) {
  const MoeModel model = all_chosen(8);
  const StepMemory held = memory(model, options(PipelineKind::one_f_one_b, 4, 1, 8));
  const MemoryPeak& peak = held.peaks[fullest(held.peaks).index()];
  ASSERT_EQ(held.curve.size(), 16u);
  Bytes most;
  for (const MemoryUse& use : held.curve) most = std::max(most, use.total());
  EXPECT_EQ(most, peak.use.total());
  EXPECT_EQ(held.curve[static_cast<std::size_t>(peak.turn)], peak.use);
}

TEST_F(IterationMemoryTest, WhatDoesNotFitIsRefusedWithWhenAndOfWhat) {
  const StepMemory held = memory(all_chosen(8), options(PipelineKind::one_f_one_b, 4, 1, 8));
  GpuModel gpu = *test::h100s(1)[0];
  const GpuId worst = fullest(held.peaks);
  const MemoryPeak& peak = held.peaks[worst.index()];
  gpu.memory = peak.use.total();
  const auto exact = std::make_shared<const GpuModel>(gpu);
  EXPECT_NO_THROW(check_memory(held.peaks, GpuModels(8, exact), "p", {}));
  gpu.memory += Bytes(-1'000'000);
  const auto small = std::make_shared<const GpuModel>(gpu);
  try {
    check_memory(held.peaks, GpuModels(8, small), "p", {}, "what helps");
    FAIL() << "fits";
  } catch (const Unsuitable& e) {
    EXPECT_EQ(e.diagnostics().front().hint, "what helps");
    const std::string text = e.diagnostics().front().message;
    EXPECT_THAT(text, testing::HasSubstr(fmt::format("on GPU {} in turn {} of pipeline stage {}",
                                                     worst.value, peak.turn, peak.stage)));
    EXPECT_THAT(text, testing::HasSubstr("1 MB too much"));
    EXPECT_THAT(text, testing::HasSubstr("activations"));
  }
}

}  // namespace
}  // namespace moesim
