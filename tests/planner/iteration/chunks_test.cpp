// SPDX-License-Identifier: Apache-2.0
// Layers in chunks of their tokens: delivered as a whole, computed as a whole.
#include "tests/planner/iteration/chunks.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "sim/plan/delivery.h"
#include "sim/planner/iteration/planner.h"

namespace moesim {
namespace {

using test::in_chunks;

struct ChunkCase {
  const char* dispatch;
  const char* by;
  std::vector<int> counts;
};

class DispatchInChunks : public testing::TestWithParam<ChunkCase> {};

TEST_P(DispatchInChunks, DeliversEveryRow) {
  const Topology topology = test::h100_nodes(2);
  const MoeModel model = test::tiny();
  const RoutingTrace trace = test::tokens_for(model, 16 * 32, 32);
  std::int64_t moved_at_once = 0;
  for (const int chunks : GetParam().counts) {
    PlannerOptions options;
    options.ep = 8;
    options.layers = {0};
    options.explicit_rows = true;
    const Batches batches = make_batches(trace, {16, 32, 1});
    Planner planner(in_chunks(GetParam().dispatch, chunks,
                              chunks > 1 ? fmt::format(", chunk: {}", GetParam().by) : ""),
                    topology, model, trace, options);
    const PlannedStep planned = planner.plan(batches.batches[0], 0);
    LayerRouting routing;
    routing.layer = planned.layers[0].number;
    routing.chosen = planned.layers[0].chosen;
    for (int rank = 0; rank < 16; ++rank) {
      routing.source.insert(routing.source.end(), 32, GpuId(rank));
    }
    routing.assignment = &planned.layers[0].assignment();
    check_delivery(planned.plan, {routing});
    std::int64_t moved = 0;
    int dispatches = 0;
    for (const Op& op : planned.plan.ops) {
      if (op.key.kind != OpKind::token_exchange) continue;
      moved += op.exchange()->traffic.total().value;
      ++dispatches;
    }
    if (chunks == 1) moved_at_once = moved;
    EXPECT_EQ(moved, moved_at_once);  // of equal parts, too: chunks are slices of the capacity
    EXPECT_EQ(dispatches % chunks, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, DispatchInChunks,
    testing::Values(ChunkCase{"alltoall", "tokens", {1, 2, 5}},
                    ChunkCase{"dedup", "tokens", {1, 2, 5}},
                    ChunkCase{"{kind: hierarchical, depth: 1}", "tokens", {1, 3}},
                    ChunkCase{"deepep-normal", "tokens", {1, 4}},
                    ChunkCase{"{kind: tutel, padding: max}", "tokens", {1, 2, 5}},
                    ChunkCase{"{kind: padded, padding: capacity, factor: 16}", "tokens", {1, 2, 4}},
                    ChunkCase{"fused", "tiles, tile: 4, tile_columns: 4", {1, 2, 5, 8}},
                    ChunkCase{"alltoall", "partners", {1, 2, 4, 8}},
                    ChunkCase{"dedup", "partners", {1, 2, 4, 8}}));

/// As in FasterMoE's code: in chunk j a group of ranks sends to the j-th after it.
TEST(Chunks, OfPartnersPairGroupsOfRanks) {
  const Topology topology = test::h100_nodes(2);
  const MoeModel model = test::tiny();
  const RoutingTrace trace = test::tokens_for(model, 16 * 32, 32);
  PlannerOptions options;
  options.ep = 16;
  options.layers = {0};
  const Batches batches = make_batches(trace, {16, 32, 1});
  Planner planner(in_chunks("alltoall", 4, ", chunk: partners"), topology, model, trace, options);
  const Plan plan = planner.plan(batches.batches[0], 0).plan;
  int step = 0;
  for (const Op& op : plan.ops) {
    if (op.key.kind != OpKind::token_exchange || op.key.pass != Pass::forward) continue;
    const bool back = op.key.stage == Stage::combine;
    const ByteMatrix traffic = op.traffic().moved();
    for (GpuId from(0); from.value < 16; ++from.value) {
      for (const auto& entry : traffic.row(from)) {
        const int ahead = (static_cast<int>(entry.to.value / 4 - from.value / 4) + 4) % 4;
        EXPECT_EQ(ahead, back ? (4 - step % 4) % 4 : step % 4);
      }
    }
    ++step;
  }
  EXPECT_EQ(step, 8);
}

TEST(Chunks, ComputeInIterationsWhatTheWholeDoes) {
  const Topology topology = test::h100_nodes(2);
  const MoeModel model = test::whole(4);
  const RoutingTrace trace = test::tokens_for(model, 32 * 512, 512);
  std::map<OpType, double> at_once;
  for (const int chunks : {1, 3}) {
    for (const PipelineKind kind : {PipelineKind::one_f_one_b, PipelineKind::combined}) {
      Spec options;
      options.spec.parallel = {.pp = 2, .ep = 8, .etp = 1};
      options.spec.pipeline = kind;
      options.spec.overlap.all_to_all = true;
      options.spec.recompute.add(RecomputeModule::moe);
      options.spec.global_batch = 32;
      options.spec.sequence = 512;
      Planner planner(in_chunks("dedup", chunks), topology, model, trace, options);
      const Plan plan = planner.plan(0).plan;
      std::map<OpType, double> flop;
      for (const Op& op : plan.ops) {
        if (op.kernels() == nullptr) continue;
        for (std::size_t m = 0; m < op.group.size(); ++m) {
          flop[op.key.type()] += flops_of(op.kernels()->of(m)).value;
        }
      }
      if (at_once.empty()) at_once = flop;
      EXPECT_EQ(flop, at_once);
      EXPECT_GT(make_port_backend(topology, test::h100s(16))->run(plan).makespan.value, 0);
    }
  }
}

TEST(Chunks, AreRefusedWhereRanksSpreadAnExpertsTokens) {
  const Topology topology = test::h100_nodes(2);
  const MoeModel model = test::tiny();
  const RoutingTrace trace = test::tokens_for(model, 16 * 32, 32);
  PlannerOptions options;
  options.ep = 16;
  options.layers = {0};
  const Batches batches = make_batches(trace, {16, 32, 1});
  const SystemSpec system = read_system(data_file("models/system", "trt-llm"),
                                        {parse_override("schedule={kind: overlap, chunks: 2}")});
  try {
    Planner planner(system, topology, model, trace, options);
    for (int step = 0; step < 10; ++step) planner.plan(batches.batches[0], step);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("which chunks cut short"));
  }
}

}  // namespace
}  // namespace moesim
