// SPDX-License-Identifier: Apache-2.0
// Passes of a serving engine as plans: closed forms, conservation of rows, and ranks that differ.
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "sim/base/id_vector.h"
#include "sim/base/unsuitable.h"
#include "sim/model/kv_cache.h"
#include "sim/planner/iteration/rank_kernels.h"
#include "sim/planner/iteration/serving_batches.h"
#include "tests/planner/iteration/fixtures.h"

namespace moesim {
namespace {

Spec serving(std::vector<std::vector<SequenceStep>> ranks, ParallelSizes sizes) {
  Spec spec;
  spec.spec.parallel = std::move(sizes);
  spec.spec.zero = 0;
  spec.spec.serving.emplace().batch = {std::move(ranks)};
  spec.state = {0, 0};
  spec.optimizer = spec.backward = false;
  return spec;
}

Timeline simulated(const PlannedStep& step, const Topology& topology) {
  return make_port_backend(topology, test::h100s(topology.gpu_count()))->run(step.plan);
}

/// Rows of all routed experts in one layer.
std::int64_t expert_rows(const Plan& plan, int layer) {
  std::int64_t rows = 0;
  for (const Op& op : plan.ops) {
    if (op.key.kind != OpKind::fc1 || op.key.layer != layer) continue;
    for (std::size_t m = 0; m < op.group.size(); ++m) {
      const auto& sizes = std::get<GroupedGemm>(op.kernels()->of(m)).m;
      rows += std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    }
  }
  return rows;
}

std::int64_t rows_of(const Plan& plan, OpKind kind, GpuId gpu) {
  for (const Op& op : plan.ops) {
    if (op.key.kind != kind || !op.group.contains(gpu)) continue;
    return std::get<GroupedGemm>(op.kernels()->of(op.group.member(gpu))).m.front();
  }
  return 0;
}

// The layer that drafts has its first tokens of a step in a part behind the first one.
TEST(ServingPlan, BalancersRememberTheLayerThatDrafts) {
  MoeModel model = test::whole(4);
  model.mtp = 1;
  const RoutingTrace trace = test::tokens_for(model, 64, 64);
  const Topology topology =
      read_topology(data_file("topologies", "h100-rail"), {parse_override("nodes=1")}).topology;
  Spec spec =
      serving({{SequenceStep{.context = 100, .tokens = 2, .count = 2}}}, {.ep = 8, .etp = 1});
  spec.spec.serving->drafts = 1;
  for (const char* policy : {"eplb", "vllm-eplb", "sglang-eplb"}) {
    Planner planner(test::policy(policy), topology, model, trace, spec);
    EXPECT_EQ(planner.plan(0).tokens, 32) << policy;
  }
}

TEST(ServingPlan, OfOneGpuTakesTheSumOfItsKernels) {
  MoeModel model = test::whole(4);
  model.mtp = 1;
  const RoutingTrace trace = test::tokens_for(model, 64, 64);
  const Topology topology = read_topology(data_file("topologies", "h100-rail"),
                                          {parse_override("nodes=1"), parse_override("node.gpus=1"),
                                           parse_override("node.nics.count=1")})
                                .topology;
  for (const auto& list : {SequenceStep{.context = 100, .tokens = 1, .count = 1},
                           SequenceStep{.context = 0, .tokens = 64, .count = 1}}) {
    Spec spec = serving({{list}}, {.ep = 1, .etp = 1});
    spec.spec.serving->drafts = list.context > 0 ? 2 : 0;
    Planner planner(test::policy("alltoall"), topology, model, trace, spec);
    const PlannedStep step = planner.plan(0);
    EXPECT_EQ(step.tokens, list.tokens);
    const GpuModel& gpu = *test::h100s(1).front();
    Seconds kernels;
    for (const Op& op : step.plan.ops) {
      ASSERT_EQ(op.key.pass, Pass::forward);
      ASSERT_EQ(op.stream, Stream::compute);
      if (op.kernels() != nullptr) kernels += gpu.time(op.kernels()->of(0), op.key.type());
    }
    EXPECT_NEAR(simulated(step, topology).makespan.value, kernels.value, 1e-9 * kernels.value);
  }
}

TEST(ServingPlan, SharedExpertsOfFewTokensRunNextToTheDispatch) {
  MoeModel model = test::whole(4);
  model.shared_experts = 1;
  model.shared_ffn = 64;
  const RoutingTrace trace = test::tokens_for(model, 256, 16);
  const Topology topology = test::h100_nodes(1);
  for (const std::int64_t tokens : {256, 257}) {
    Planner planner(test::policy("deepep-low-latency"), topology, model, trace,
                    serving({{{.context = 0, .tokens = tokens, .count = 1}}}, {.ep = 8, .etp = 1}));
    const PlannedStep step = planner.plan(0);
    // In the order of the compute stream they are behind the launch of the dispatch, or before it.
    int behind = 0, before = 0;
    bool dispatched = false;
    for (const Op& op : step.plan.ops) {
      if (op.key.kind == OpKind::gate) dispatched = false;
      if (op.key.kind == OpKind::token_exchange) dispatched = true;
      if (op.key.kind != OpKind::shared_fc1 && op.key.kind != OpKind::shared_fc2) continue;
      EXPECT_EQ(op.stream, Stream::compute) << "they share the GPU with the routed experts";
      EXPECT_TRUE(op.after.empty() || !dispatched);
      ++(dispatched ? behind : before);
    }
    EXPECT_EQ(tokens == 256 ? before : behind, 0);
    EXPECT_GT(tokens == 256 ? behind : before, 0);
  }
}

TEST(ServingPlan, LayersThatReplayOneRecordedLayerShareKernelsAndTraffic) {
  const MoeModel model = test::whole(6);
  MoeModel recorded = model;
  recorded.moe_layers = {1, 2};  // in turn for all five
  const RoutingTrace trace = test::tokens_for(recorded, 256, 16);
  const Topology topology = test::h100_nodes(1);
  Planner planner(test::policy("deepep-low-latency"), topology, model, trace,
                  serving({{{.context = 9, .tokens = 1, .count = 6}}}, {.ep = 8, .etp = 1}));
  const PlannedStep step = planner.plan(0);
  std::set<const void*> matrices, scores;
  int exchanges = 0, attentions = 0;
  for (const Op& op : step.plan.ops) {
    if (op.exchange() != nullptr) {
      matrices.insert(op.exchange()->traffic.identity().first);
      ++exchanges;
    } else if (op.key.kind == OpKind::attention_scores) {
      scores.insert(&op.kernels()->each());
      ++attentions;
    }
  }
  EXPECT_LE(matrices.size(), 2u);
  EXPECT_EQ(exchanges, 2 * 5);
  EXPECT_EQ(scores.size(), 2u);  // of the first layer, and of all others
  EXPECT_EQ(attentions, 6);
}

TEST(ServingPlan, EveryTokenReachesItsExperts) {
  const MoeModel model = test::whole(4);
  const RoutingTrace trace = test::tokens_for(model, 256, 16);
  const Topology topology = test::h100_nodes(2);
  for (const int tp : {1, 2, 4}) {
    const SequenceStep decode{.context = 9, .tokens = 2, .count = 6};
    const SequenceStep prefill{.context = 0, .tokens = 37, .count = 1};
    Planner planner(test::policy("deepep-low-latency"), topology, model, trace,
                    serving({{decode, prefill}}, {.tp = tp, .ep = 16, .etp = 1}));
    const PlannedStep step = planner.plan(0);
    EXPECT_EQ(step.tokens, (12 + 37) * 16 / tp);
    for (int layer = 1; layer < 4; ++layer) {
      EXPECT_EQ(expert_rows(step.plan, layer), step.tokens * model.top_k);
    }
    EXPECT_EQ(rows_of(step.plan, OpKind::head, GpuId(0)), 12 + 1);  // sampled tokens only
  }
}

/// Rows of the head in every part of a pass.
std::vector<std::int64_t> head_rows(const Plan& plan) {
  std::vector<std::int64_t> rows;
  for (const Op& op : plan.ops) {
    if (op.key.kind == OpKind::head)
      rows.push_back(std::get<GroupedGemm>(op.kernels()->of(0)).m[0]);
  }
  return rows;
}

TEST(ServingPlan, DraftsRunTheLayerBehindTheModelOnceForEach) {
  MoeModel model = test::whole(4);
  const Topology topology = test::h100_nodes(2);
  const std::int64_t sequences = 6, ranks = 16, drafts = 3;
  const auto plan = [&](ServingOverlap overlap, int mtp) {
    model.mtp = mtp;
    Spec spec =
        serving({{{.context = 9, .tokens = 1 + drafts, .count = sequences}}}, {.ep = 16, .etp = 1});
    spec.spec.serving->drafts = drafts;
    spec.spec.serving->overlap = overlap;
    const RoutingTrace trace = test::tokens_for(model, 256, 16);
    return Planner(test::policy("deepep-low-latency"), topology, model, trace, spec).plan(0);
  };
  for (const auto overlap : {ServingOverlap::none, ServingOverlap::two_batch}) {
    const bool halves = overlap == ServingOverlap::two_batch;
    const PlannedStep given = plan(overlap, 0), drafted = plan(overlap, 2);
    const std::int64_t verified = sequences * (1 + drafts);
    EXPECT_EQ(drafted.tokens, given.tokens);
    EXPECT_EQ(expert_rows(drafted.plan, 3), verified * ranks * model.top_k);
    EXPECT_EQ(expert_rows(drafted.plan, 4),
              (verified + (drafts - 1) * sequences) * ranks * model.top_k);
    EXPECT_EQ(expert_rows(drafted.plan, 5), 0) << "one layer drafts, over and over";
    std::vector<std::int64_t> heads =
        halves ? std::vector{verified / 2, verified / 2} : std::vector{verified};
    EXPECT_EQ(head_rows(given.plan), heads);
    heads.insert(heads.end(), static_cast<std::size_t>(drafts), sequences);
    EXPECT_EQ(head_rows(drafted.plan), heads);
    // The layer has weights and keys of its own.
    const auto held = [](const PlannedStep& step, MemoryPart part) {
      return step.memory.peaks[0].use.of(part).value;
    };
    const Bytes keys = cache_of_sequence(model, 9 + 1 + drafts, {}, 3, 4) * sequences;
    EXPECT_EQ(held(drafted, MemoryPart::cache) - held(given, MemoryPart::cache), keys.value);
    EXPECT_GT(
        held(drafted, MemoryPart::weights),
        held(given, MemoryPart::weights) + 2 * model.experts / ranks * model.expert_parameters());
    EXPECT_GT(simulated(drafted, topology).makespan, simulated(given, topology).makespan);
  }
}

TEST(ServingPlan, GatherAndScatterAreTheTwoShotsOfOneSum) {
  const MoeModel model = test::whole(2);
  const RoutingTrace trace = test::tokens_for(model, 256, 16);
  const Topology topology = test::h100_nodes(1);
  const auto rounds = [&](int ep, int etp) {
    Planner planner(test::policy("alltoall"), topology, model, trace,
                    serving({{{.context = 9, .count = 8}}}, {.tp = 8, .ep = ep, .etp = etp}));
    int sum = 0;
    for (const Op& op : planner.plan(0).plan.ops) {
      if (op.key.kind != OpKind::tensor_exchange || op.key.layer != 0) continue;
      // The head gathers what the last layer scattered.
      if (block_in(op.key.part / 2) != BlockKind::head) sum += op.exchange()->rounds;
    }
    return sum;
  };
  EXPECT_EQ(rounds(8, 1), rounds(1, 8)) << "whether experts are divided or not";
}

/// Every GPU has all tokens and sums its part of each layer's attention and experts.
TEST(ServingPlan, SumsOverTwoNodesLeaveThemByAllGpusAlike) {
  const MoeModel model = test::whole(4);
  const RoutingTrace trace = test::tokens_for(model, 256, 16);
  const Topology topology = test::h100_nodes(2);
  Planner planner(
      test::policy("alltoall"), topology, model, trace,
      serving({{{.context = 0, .tokens = 32, .count = 1}}}, {.tp = 16, .ep = 1, .etp = 16}));
  const PlannedStep step = planner.plan(0);
  const Bytes part(32 / 16 * model.hidden * size_of(model.activations));
  int sums = 0;
  for (const Op& op : step.plan.ops) {
    if (op.key.kind != OpKind::tensor_exchange) continue;
    ++sums;
    for (const GpuId gpu : ids<GpuId>(16)) {
      Bytes leaves;
      for (const auto& entry : op.exchange()->traffic.row(gpu)) {
        if (entry.to.value / 8 == gpu.value / 8) continue;
        leaves += entry.units * op.exchange()->traffic.unit();
      }
      EXPECT_EQ(leaves, 2 * part);
    }
  }
  EXPECT_GE(sums, 2 * 4);
}

TEST(ServingPlan, LastProductsRunWhileResultsOfOthersTravel) {
  const MoeModel model = test::whole(2);
  const RoutingTrace trace = test::tokens_for(model, 4096, 64);
  const Topology topology = test::h100_nodes(2);
  const auto plan = [&](const std::string& policy, ServingOverlap overlap) {
    Spec spec = serving({{{.context = 9, .count = 128}}}, {.ep = 8, .etp = 1});
    spec.spec.serving->overlap = overlap;
    return Planner(test::policy(policy), topology, model, trace, spec).plan(0);
  };
  const PlannedStep one = plan("deepep-low-latency", ServingOverlap::none);
  const PlannedStep parts = plan("deepep-low-latency", ServingOverlap::single_batch);
  const auto count = [](const PlannedStep& step, OpKind kind, Stage stage) {
    std::pair<int, std::int64_t> found;  // ops, and rows of products or bytes
    for (const Op& op : step.plan.ops) {
      if (op.key.kind != kind || op.key.stage != stage) continue;
      ++found.first;
      if (op.exchange() != nullptr) found.second += op.exchange()->traffic.total().value;
      for (std::size_t m = 0; op.kernels() != nullptr && m < op.group.size(); ++m) {
        const auto& sizes = std::get<GroupedGemm>(op.kernels()->of(m)).m;
        found.second += std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
      }
    }
    return found;
  };
  for (const auto& [kind, stage, ops] : {std::tuple{OpKind::token_exchange, Stage::dispatch, 1},
                                         {OpKind::fc1, Stage::experts, 1},
                                         {OpKind::fc2, Stage::experts, 4},
                                         {OpKind::token_exchange, Stage::combine, 4}}) {
    EXPECT_EQ(count(parts, kind, stage).first, ops * count(one, kind, stage).first);
    EXPECT_EQ(count(parts, kind, stage).second, count(one, kind, stage).second);
  }
  // The first results leave before the last product ends.
  const Timeline timeline = simulated(parts, topology);
  Seconds first_left(1e9), last_computed;
  for (std::size_t i = 0; i < parts.plan.ops.size(); ++i) {
    const Op& op = parts.plan.ops[i];
    for (const Interval& of : timeline.ops[i]) {
      if (op.key.kind == OpKind::fc2) last_computed = std::max(last_computed, of.end);
      const bool back = op.key.kind == OpKind::token_exchange && op.key.stage == Stage::combine;
      if (back) first_left = std::min(first_left, of.start);
    }
  }
  EXPECT_LT(first_left, last_computed);
  EXPECT_THROW(plan("deepep-normal", ServingOverlap::single_batch), Unsuitable);  // a row per GPU
  EXPECT_THROW(plan("megamoe-hopper", ServingOverlap::single_batch), Unsuitable);
}

TEST(ServingPlan, GpusThatShareKeysPassQueriesAndResults) {
  const MoeModel model = test::whole(3);  // 4 key heads: two GPUs have the same
  const RoutingTrace trace = test::tokens_for(model, 256, 64);
  const Topology topology = test::h100_nodes(2);
  Spec spec = serving({{{.context = 99, .tokens = 1, .count = 6}}}, {.tp = 8, .ep = 16, .etp = 1});
  spec.spec.serving->dcp = 2;
  Planner planner(test::policy("deepep-low-latency"), topology, model, trace, spec);
  const PlannedStep step = planner.plan(0);
  // Queries and results of 2 heads of 64 values in bf16, sums of exponentials of 4 in fp32.
  const Bytes expected[] = {Bytes(6 * 2 * 64 * 2), Bytes(6 * 2 * 64 * 2 + 6 * 4 * 4)};
  std::size_t exchanges = 0;
  for (const Op& op : step.plan.ops) {
    if (op.key.kind != OpKind::context_exchange) continue;
    for (const GpuId from : op.group) {
      for (const GpuId to : op.group) {
        const bool pair = from != to && from.value / 2 == to.value / 2;
        EXPECT_EQ(op.traffic().at(from, to), pair ? expected[exchanges % 2] : Bytes(0));
      }
    }
    ++exchanges;
  }
  EXPECT_EQ(exchanges, 2u * 3);
  EXPECT_EQ(step.memory.peaks[0].use.of(MemoryPart::cache),
            cache_of_sequence(model, 100, {.tp = 8, .cp = 2}) * 6);
}

TEST(ServingPlan, RanksHaveBatchesOfTheirOwn) {
  const MoeModel model = test::whole(3);
  const RoutingTrace trace = test::tokens_for(model, 256, 64);
  const Topology topology = test::h100_nodes(1);
  std::vector<std::vector<SequenceStep>> ranks(8);
  ranks[0] = {{.context = 0, .tokens = 2048, .count = 1}};
  for (int r = 1; r < 7; ++r) ranks[static_cast<std::size_t>(r)] = {{.context = 50, .count = 8}};
  Planner planner(test::policy("alltoall"), topology, model, trace,
                  serving(ranks, {.ep = 8, .etp = 1}));
  const PlannedStep step = planner.plan(0);
  EXPECT_EQ(rows_of(step.plan, OpKind::attention_projections, GpuId(0)), 2048);
  EXPECT_EQ(rows_of(step.plan, OpKind::attention_projections, GpuId(1)), 8);
  EXPECT_EQ(rows_of(step.plan, OpKind::attention_projections, GpuId(7)), 0);  // idle
  // The others wait for the prefill: no dispatch begins before its attention has ended.
  const Timeline timeline = simulated(step, topology);
  Seconds prefilled, dispatched(1e9);
  for (std::size_t i = 0; i < step.plan.ops.size(); ++i) {
    const Op& op = step.plan.ops[i];
    if (op.key.layer != 1) continue;
    if (op.key.kind == OpKind::attention_output && op.group.contains(GpuId(0))) {
      prefilled = timeline.ops[i][op.group.member(GpuId(0))].end;
    }
    if (op.key.kind != OpKind::token_exchange || op.key.stage != Stage::dispatch) continue;
    for (const Interval& of : timeline.ops[i]) dispatched = std::min(dispatched, of.end);
  }
  EXPECT_GT(prefilled.value, 0);
  EXPECT_GT(dispatched, prefilled);
}

TEST(ServingPlan, HoldsWeightsAndCacheAndNothingForABackwardPass) {
  const MoeModel model = test::whole(4);
  const RoutingTrace trace = test::tokens_for(model, 64, 64);
  const Topology topology = test::h100_nodes(1);
  const SequenceStep list{.context = 999, .tokens = 1, .count = 5};
  Planner planner(test::policy("alltoall"), topology, model, trace,
                  serving({{list}}, {.ep = 8, .etp = 1}));
  const MemoryUse use = planner.plan(0).memory.peaks.front().use;
  // 5 sequences x 1000 tokens x 4 layers x key and value of 4 heads x 64 values of 2 bytes.
  EXPECT_EQ(use.of(MemoryPart::cache), Bytes(5LL * 1000 * 4 * 2 * 4 * 64 * 2));
  const Parameters p = parameters_of(model);
  EXPECT_EQ(use.of(MemoryPart::weights), Bytes(2 * (p.main() - p.routed * 7 / 8)));
  for (const MemoryPart part : {MemoryPart::gradients, MemoryPart::optimizer,
                                MemoryPart::placeholders, MemoryPart::activations}) {
    EXPECT_EQ(use.of(part), Bytes(0)) << name_of(part);
  }
}

TEST(RankKernels, OfOneShapeAreOneOp) {
  const auto gemm = [](std::int64_t m, std::int64_t n) { return GroupedGemm{{m}, n, 8}; };
  const auto joined_lists = joined({{{OpKind::gate, gemm(4, 2)}, {OpKind::head, gemm(4, 9)}},
                                    {{OpKind::gate, gemm(1, 2)},
                                     {OpKind::norm, MemoryBound{Bytes(1), Bytes(1)}},
                                     {OpKind::head, gemm(1, 9)}}},
                                   {0, 1, 1});
  ASSERT_EQ(joined_lists.size(), 3u);
  EXPECT_EQ(joined_lists[0].kernels.each(),
            (std::vector<Kernel>{gemm(4, 2), gemm(1, 2), gemm(1, 2)}));
  EXPECT_EQ(joined_lists[1].kind, OpKind::norm);
  EXPECT_EQ(joined_lists[1].group.list(), (std::vector{GpuId(1), GpuId(2)}));
  EXPECT_EQ(joined_lists[2].group.size(), 3u);
}

}  // namespace
}  // namespace moesim
