// SPDX-License-Identifier: Apache-2.0
// What arrives from another stage comes before all that works on it, and what is sent may be
// awaited.
#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "tests/planner/iteration/fixtures.h"

namespace moesim {
namespace {

/// A stage has `nodes` nodes of 8 GPUs, which are one EP group.
struct ArrivalCase {
  const char* policy;
  int nodes;
};

class Arrivals : public testing::TestWithParam<ArrivalCase> {};

TEST_P(Arrivals, ComeBeforeAllOpsOfTheirPass) {
  const int gpus = 8 * GetParam().nodes;
  const Topology topology = test::h100_nodes(2 * GetParam().nodes);
  const MoeModel model = test::whole(4);
  const RoutingTrace trace = test::tokens_for(model, 2 * gpus * 64, 64);
  Spec options;
  options.spec.parallel = {.tp = 1, .pp = 2, .ep = gpus, .etp = 1};
  options.spec.global_batch = 2 * gpus;
  options.spec.sequence = 64;
  Planner planner(test::policy(GetParam().policy), topology, model, trace, options);
  const Plan plan = planner.plan(0).plan;
  // [op] the transfers that must have ended before it
  std::vector<std::vector<bool>> behind(plan.ops.size(), std::vector<bool>(plan.ops.size()));
  const auto direct = dependencies(plan);
  for (const OpId op : topological_order(plan)) {
    for (const OpId before : direct[op.index()]) {
      behind[op.index()][before.index()] = true;
      for (std::size_t i = 0; i < plan.ops.size(); ++i) {
        if (behind[before.index()][i]) behind[op.index()][i] = true;
      }
    }
  }
  int checked = 0;
  for (std::size_t t = 0; t < plan.ops.size(); ++t) {
    const Op& transfer = plan.ops[t];
    if (transfer.key.kind != OpKind::stage_transfer) continue;
    const bool forward = transfer.key.pass == Pass::forward;
    for (std::size_t i = 0; i < plan.ops.size(); ++i) {
      const Op& op = plan.ops[i];
      const bool receives = forward == (op.group.front().value >= gpus);
      if (op.key.layer < 0 || op.key.stage == Stage::reduce || !receives ||
          op.key.pass != transfer.key.pass || op.key.microbatch != transfer.key.microbatch) {
        continue;
      }
      EXPECT_TRUE(behind[i][t]) << op.label << " of layer " << op.key.layer;
      ++checked;
    }
  }
  EXPECT_GT(checked, 50);
}

// The first op of deepep-normal's backward pass is an exchange.
INSTANTIATE_TEST_SUITE_P(Policies, Arrivals,
                         testing::Values(ArrivalCase{"alltoall", 1},
                                         ArrivalCase{"deepep-normal", 1},
                                         ArrivalCase{"hiermoe-hd2", 2}));

/// Kernels of passes that run on GPUs while these send to the other of two stages, and transfers.
std::pair<int, int> kernels_beside_sends(PipelineKind kind) {
  const int gpus = 8;
  const Topology topology = test::h100_nodes(2);
  const MoeModel model = test::whole(4);
  const RoutingTrace trace = test::tokens_for(model, 16 * gpus * 64, 64);
  Spec options;
  options.spec.pipeline = kind;
  options.spec.parallel = {.tp = 1, .pp = 2, .ep = gpus, .etp = 1};
  options.spec.global_batch = 8 * gpus;
  options.spec.sequence = 64;
  Planner planner(test::policy("alltoall"), topology, model, trace, options);
  const Plan plan = planner.plan(0).plan;
  const Timeline timeline = make_port_backend(topology, test::h100s(2 * gpus))->run(plan);
  std::pair<int, int> counts;
  for (std::size_t t = 0; t < plan.ops.size(); ++t) {
    const OpKey& sent = plan.ops[t].key;
    if (sent.kind != OpKind::stage_transfer) continue;
    ++counts.second;
    // Forward the first chunk leaves stage 0, DualPipe's second one the last stage.
    const bool from_first = (sent.pass == Pass::forward) == (sent.chunk == 0);
    const GpuId sender(from_first ? 0 : gpus);
    const auto of = [&](std::size_t op) {
      return timeline.ops[op][plan.ops[op].group.member(sender)];
    };
    for (std::size_t i = 0; i < plan.ops.size(); ++i) {
      const Op& op = plan.ops[i];
      if (op.kernels() == nullptr || op.key.layer < 0 || !op.group.contains(sender)) continue;
      counts.first += of(i).start < of(t).end && of(i).end > of(t).start;
    }
  }
  return counts;
}

TEST(Sends, AreAwaitedByDualPipeAlone) {
  const auto [beside, sends] = kernels_beside_sends(PipelineKind::dualpipe);
  EXPECT_EQ(beside, 0);
  EXPECT_EQ(sends, 16);  // 8 microbatches, there and back
  EXPECT_GT(kernels_beside_sends(PipelineKind::one_f_one_b).first, 0);
}

/// A tensor of activations per GPU, and one for each layer of multi-token prediction that is
/// through.
TEST(Transfers, MoveWhatPredictingLayersAdd) {
  const Topology topology = test::h100_nodes(2);
  MoeModel model = test::whole(4);
  model.mtp = 1;
  Spec options;
  options.spec.parallel = {.tp = 1, .pp = 4, .ep = 4, .etp = 1};
  options.spec.layout = "Ett|tt|m|L";
  options.spec.global_batch = 16;
  options.spec.sequence = 64;
  const RoutingTrace trace = test::tokens_for(model, 16 * 4 * 64, 64);
  Planner planner(test::policy("alltoall"), topology, model, trace, options);
  std::map<std::pair<Pass, int>, std::int64_t> tensors;  // by the position that sends
  for (const Op& op : planner.plan(0).plan.ops) {
    if (op.key.kind != OpKind::stage_transfer) continue;
    const std::int64_t senders = std::ssize(op.group) / 2;
    tensors[{op.key.pass, op.key.part}] =
        op.exchange()->traffic.total().value / (senders * 64 * 1024 * 2);
  }
  constexpr Pass forward = Pass::forward, backward = Pass::backward;
  EXPECT_EQ(tensors, (std::map<std::pair<Pass, int>, std::int64_t>{{{forward, 0}, 1},
                                                                   {{forward, 1}, 1},
                                                                   {{forward, 2}, 2},
                                                                   {{backward, 3}, 2},
                                                                   {{backward, 2}, 1},
                                                                   {{backward, 1}, 1}}));
}

/// Streams of transfers, by stages of the sender and the receiver.
std::map<std::pair<int, int>, Stream> streams_of(PipelineKind kind, int stages, int chunks) {
  const int gpus = 16 / stages;
  const Topology topology = test::h100_nodes(2);
  const MoeModel model = test::whole(8);
  Spec options;
  options.spec.pipeline = kind;
  options.spec.parallel = {.tp = 1, .pp = stages, .vpp = chunks, .ep = gpus, .etp = 1};
  options.spec.global_batch = 8 * gpus;
  options.spec.sequence = 64;
  const RoutingTrace trace = test::tokens_for(model, 16 * gpus * 64, 64);
  Planner planner(test::policy("alltoall"), topology, model, trace, options);
  std::map<std::pair<int, int>, Stream> streams;
  for (const Op& op : planner.plan(0).plan.ops) {
    if (op.key.kind != OpKind::stage_transfer) continue;
    const int from = op.key.part, to = op.key.pass == Pass::forward ? from + 1 : from - 1;
    const auto known = streams.try_emplace({from % stages, to % stages}, op.stream).first;
    EXPECT_EQ(known->second, op.stream);
  }
  return streams;
}

TEST(Transfers, NeighboursOfAStageHaveDifferentStreams) {
  using Streams = std::map<std::pair<int, int>, Stream>;
  EXPECT_EQ(streams_of(PipelineKind::interleaved, 4, 2), (Streams{{{0, 1}, Stream::pp_down},
                                                                  {{1, 2}, Stream::pp_down_2},
                                                                  {{2, 3}, Stream::pp_down},
                                                                  {{3, 0}, Stream::pp_down_3},
                                                                  {{1, 0}, Stream::pp_up},
                                                                  {{2, 1}, Stream::pp_up_2},
                                                                  {{3, 2}, Stream::pp_up},
                                                                  {{0, 3}, Stream::pp_up_3}}));
}

}  // namespace
}  // namespace moesim
