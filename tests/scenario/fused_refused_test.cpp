// SPDX-License-Identifier: Apache-2.0
// Hardware refuses by name what only one kernel could do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "sim/base/data_files.h"
#include "sim/base/unsuitable.h"
#include "sim/scenario/can_execute.h"
#include "tests/error_of.h"
#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

TEST(FusedLayers, AreRefusedByHardware) {
  Plan plan{"t", 1, {}};
  Op fc1{"fc1-wave-1",
         {.kind = OpKind::fc1, .stage = Stage::experts, .layer = 3},
         Stream::compute,
         Group::first(1),
         {},
         {}};
  GroupedGemm gemm{{8}, 16, 16, DataType::fp32};
  fc1.work = Kernels(Kernel(gemm));
  plan.add(fc1);
  EXPECT_NO_THROW(check_can_execute(plan));
  gemm.wave = Wave{{8}, 8, 8, 1, 1, DataType::fp32, true};
  plan.ops[0].work = Kernels(Kernel(gemm));
  try {
    check_can_execute(plan);
    ADD_FAILURE();
  } catch (const Unsuitable& e) {
    EXPECT_THAT(e.what(),
                testing::HasSubstr("hardware cannot execute fused kernels and whole tiles"));
    EXPECT_THAT(e.what(), testing::HasSubstr("'fc1-wave-1' of layer 3"));
  }
}

TEST(ChosenRanks, OfSharedExpertsAreRefusedByHardware) {
  LayerDecision decision(Assignment(contiguous_placement(4, 2, 2), 2));
  EXPECT_NO_THROW(check_can_execute(decision));
  decision.shared_routed = true;
  EXPECT_THAT(error_of([&] { check_can_execute(decision); }),
              testing::HasSubstr("hardware cannot execute shared experts on ranks"));
}

TEST(StaticShapes, AreRefusedByHardware) {
  MoeModel model = read_moe_model(data_file("models/moe", "olmoe"));
  model.activations = model.weights = DataType::fp32;
  Scenario scenario;
  scenario.gradient_bytes = 4;
  scenario.iteration.emplace();
  const auto error = [&] { return error_of([&] { check_can_execute(scenario, model); }); };
  EXPECT_EQ(error(), "");
  model.hash_layers = 1;
  EXPECT_THAT(error(), testing::HasSubstr("hardware cannot execute layers routed by token ids"));
  scenario.iteration->stash.emplace();
  EXPECT_THAT(error(), testing::HasSubstr("hardware cannot execute a paged stash"));
}

TEST(StaticShapes, EachOfWhatHardwareCannotExecuteIsRefused) {
  const auto changed = [](const std::function<void(IterationSpec&, MoeModel&)>& change) {
    MoeModel model = read_moe_model(data_file("models/moe", "olmoe"));
    model.activations = model.weights = DataType::fp32;
    Scenario scenario;
    scenario.gradient_bytes = 4;
    IterationSpec& spec = scenario.iteration.emplace();
    spec.micro_batch = 1, spec.sequence = 4096;
    change(spec, model);
    return error_of([&] { check_can_execute(scenario, model); });
  };
  const auto of_spec = [&](const std::function<void(IterationSpec&)>& change) {
    return changed([&](IterationSpec& spec, MoeModel&) { change(spec); });
  };
  const auto of_model = [&](const std::function<void(MoeModel&)>& change) {
    return changed([&](IterationSpec&, MoeModel& model) { change(model); });
  };
  using testing::HasSubstr;
  EXPECT_EQ(of_spec([](auto& s) { s.zero = 1, s.parallel.tp = 2, s.parallel.etp = 1; }), "");
  EXPECT_THAT(of_spec([](auto& s) { s.zero = 2; }), HasSubstr("execute zero = 2 yet"));
  EXPECT_THAT(of_spec([](auto& s) { s.parallel.cp = 2; }), HasSubstr("execute cp = 2"));
  EXPECT_THAT(of_spec([](auto& s) { s.parallel.tp = 2; }), HasSubstr("execute etp = 2"));
  EXPECT_THAT(of_spec([](auto& s) { s.parallel.tp = 3, s.parallel.etp = 1; }),
              HasSubstr("over tp = 3"));
  EXPECT_THAT(
      of_spec([](auto& s) { s.parallel.tp = 2, s.parallel.etp = 1, s.sequence = 4095; }),
      HasSubstr("over tp = 2 yet; moesim simulates it\nhint: a multiple of tp, or another"));
  EXPECT_EQ(of_spec([](auto& s) {
              s.parallel.tp = 2, s.parallel.etp = 1, s.micro_batch = 2, s.sequence = 4095;
            }),
            "")
      << "microbatches are divided";
  EXPECT_THAT(of_spec([](auto& s) { s.stash.emplace(); }), HasSubstr("a paged stash"));
  for (const auto kind : {PipelineKind::dualpipe, PipelineKind::dualpipev, PipelineKind::zbv}) {
    EXPECT_THAT(of_spec([&](auto& s) { s.pipeline = kind; }), HasSubstr("execute pipeline: "));
  }
  EXPECT_EQ(of_spec([](auto& s) { s.pipeline = PipelineKind::zb1p; }), "");
  EXPECT_THAT(of_spec([](auto& s) { s.collective = ReplicaCollective::tree; }),
              HasSubstr("collectives of replicas but rings"));
  EXPECT_THAT(of_spec([](auto& s) { s.recompute.add(RecomputeModule::mlp); }),
              HasSubstr("recomputation"));
  EXPECT_THAT(of_spec([](auto& s) { s.optimizer = OptimizerKind::muon; }), HasSubstr("but Adam"));
  EXPECT_THAT(of_spec([](auto& s) { s.routing = {RoutingSource::balanced}; }),
              HasSubstr("balanced routing"));
  EXPECT_THAT(of_spec([](auto& s) { s.serving.emplace(); }), HasSubstr("passes of a serving"));
  EXPECT_THAT(of_model([](auto& m) { m.weights = DataType::bf16; }), HasSubstr("bf16 weights"));
  EXPECT_THAT(of_model([](auto& m) { m.residual_streams = 2; }), HasSubstr("residual streams"));
  EXPECT_THAT(of_model([](auto& m) { m.latent = 1; }), HasSubstr("in a latent"));
  EXPECT_THAT(of_model([](auto& m) { m.activations = DataType::bf16; }),
              HasSubstr("execute bf16 activations and fp32 weights yet"));
  EXPECT_THAT(of_model([](auto& m) { m.experts = 0; }), HasSubstr("dense models"));
  EXPECT_THAT(of_model([](auto& m) { m.shared_gate = true; }), HasSubstr("a gate of the shared"));
  EXPECT_THAT(of_model([](auto& m) { m.attention->shape->kind = AttentionKind::mla; }),
              HasSubstr("attention but of grouped queries"));
  EXPECT_THAT(of_model([](auto& m) { m.attention->shape->linear.emplace(); }),
              HasSubstr("linear attention"));
  EXPECT_THAT(of_model([](auto& m) { m.attention->shape->output_gate = true; }),
              HasSubstr("gated attention"));
  EXPECT_THAT(of_model([](auto& m) { m.mtp = 1; }), HasSubstr("multi-token prediction"));
  EXPECT_THAT(of_model([](auto& m) { m.hash_layers = 1; }), HasSubstr("routed by token ids"));
  EXPECT_THAT(of_model([](auto& m) { m.tied_embeddings = true; }), HasSubstr("embedding's"));
  EXPECT_THAT(of_model([](auto& m) { m.router_bias = true; }), HasSubstr("a bias of the router"));
  EXPECT_THAT(of_model([](auto& m) { m.expert_bias = true; }), HasSubstr("biases of experts"));
  EXPECT_THAT(of_model([](auto& m) { m.attention->shape->window = 1; }), HasSubstr("windows"));
  EXPECT_THAT(of_model([](auto& m) { m.attention->shape->bias = true; }), HasSubstr("biases of a"));
  EXPECT_THAT(of_model([](auto& m) { m.attention->shape->output_bias = true; }),
              HasSubstr("biases of attention"));
  EXPECT_THAT(of_model([](auto& m) { m.attention->shape->sinks = true; }), HasSubstr("sinks"));
  EXPECT_THAT(of_model([](auto& m) { m.vocabulary = 0; }), HasSubstr("no whole model"));
}

}  // namespace
}  // namespace moesim
