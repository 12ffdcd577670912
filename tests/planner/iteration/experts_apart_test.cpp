// SPDX-License-Identifier: Apache-2.0
// Attention on some GPUs, experts on the others.
#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "sim/base/unsuitable.h"
#include "sim/model/kv_cache.h"
#include "sim/plan/delivery.h"
#include "sim/planner/iteration/serving_batches.h"
#include "tests/error_of.h"
#include "tests/planner/iteration/fixtures.h"

namespace moesim {
namespace {

constexpr int attending = 12, holders = 4, sequences = 5;

/// Passes over several recorded steps, so that placements plan from what they saw.
struct PlannedPass {
  Spec spec;
  MoeModel model = test::whole(4);
  RoutingTrace trace = test::tokens_for(model, 600, 10);

  explicit PlannedPass(std::vector<std::vector<SequenceStep>> ranks, int gpus,
                       int attention_ranks) {
    spec.spec.parallel = {.ep = gpus, .etp = 1};
    spec.spec.zero = 0;
    ServingSpec& serving = spec.spec.serving.emplace();
    serving.batch = {std::move(ranks)};
    serving.attention_ranks = attention_ranks;
    spec.state = {0, 0};
    spec.optimizer = spec.backward = false;
    spec.explicit_rows = true;
  }
  /// The planner lives as long as the pass: steps keep references to it.
  PlannedStep plan(const std::string& policy, const Topology& topology) {
    planner = std::make_unique<Planner>(test::policy(policy), topology, model, trace, spec);
    planner->warm_up(0);
    planner->warm_up(0);
    return planner->plan(0);
  }
  std::unique_ptr<Planner> planner = nullptr;
};

/// Every sequence is a recorded one of its own.
std::vector<SequenceStep> list_of_rank(int rank) {
  std::vector<SequenceStep> list;
  for (int s = 0; s < sequences; ++s) {
    list.push_back({.context = 4, .tokens = 3, .count = 1, .request = rank * sequences + s});
  }
  return list;
}

PlannedPass apart(ServingOverlap overlap = ServingOverlap::none) {
  std::vector<std::vector<SequenceStep>> ranks;
  for (int rank = 0; rank < attending; ++rank) ranks.push_back(list_of_rank(rank));
  PlannedPass pass(std::move(ranks), attending + holders, attending);
  pass.spec.spec.serving->overlap = overlap;
  return pass;
}

/// The same tokens on as many GPUs as hold experts, which do both.
PlannedPass together() {
  std::vector<std::vector<SequenceStep>> ranks(holders);
  for (int rank = 0; rank < attending; ++rank) {
    auto& list = ranks[static_cast<std::size_t>(rank % holders)];
    for (const SequenceStep& each : list_of_rank(rank)) list.push_back(each);
  }
  return PlannedPass(std::move(ranks), holders, 0);
}

Topology four_gpus() {
  return read_topology(data_file("topologies", "h100-rail"),
                       {parse_override("nodes=1"), parse_override("node.gpus=4"),
                        parse_override("node.nics.count=4")})
      .topology;
}

void prove(const PlannedStep& step) {
  std::vector<LayerRouting> routing;
  for (const PlannedLayer& layer : step.layers) {
    LayerRouting& of =
        routing.emplace_back(LayerRouting{layer.number, {}, layer.chosen, &layer.assignment()});
    for (std::size_t rank = 0; rank < layer.batch->ranks.size(); ++rank) {
      for (const TokenRun& run : layer.batch->ranks[rank]) {
        of.source.insert(of.source.end(), static_cast<std::size_t>(run.count),
                         GpuId(static_cast<std::int64_t>(rank)));
      }
    }
  }
  check_delivery(step.plan, routing);
}

class PlacedApart : public testing::TestWithParam<std::string> {};

TEST_P(PlacedApart, HoldersComputeWhatTheyWouldTogether) {
  const Topology all = test::h100_nodes(2), four = four_gpus();
  PlannedPass own_pass = apart(), other_pass = together();
  const PlannedStep own = own_pass.plan(GetParam(), all);
  const PlannedStep other = other_pass.plan(GetParam(), four);
  prove(own);
  ASSERT_EQ(own.layers.size(), other.layers.size());
  for (std::size_t l = 0; l < own.layers.size(); ++l) {
    const Placement& placement = own.layers[l].assignment().placement();
    for (GpuId gpu(0); gpu.value < attending; ++gpu.value) EXPECT_EQ(placement.slots_on(gpu), 0);
    EXPECT_EQ(placement.table(GpuId(attending), holders),
              other.layers[l].assignment().placement().table());
    EXPECT_EQ(own.layers[l].counts.slots, other.layers[l].counts.slots);
  }
}

INSTANTIATE_TEST_SUITE_P(Placements, PlacedApart,
                         testing::Values("alltoall", "deepep-normal", "megatron-allgather", "eplb",
                                         "sglang-eplb", "vllm-eplb", "trt-llm", "llep", "flash-lb",
                                         "moonep", "laer"),
                         [](const auto& of) {
                           std::string name = of.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(ExpertsApart, EachGpuHasItsPartInTimeAndMemory) {
  const Topology topology = test::h100_nodes(2);
  PlannedPass pass = apart();
  const PlannedStep step = pass.plan("alltoall", topology);
  std::set<OpKind> of_attending, of_holders;
  for (const Op& op : step.plan.ops) {
    if (op.kernels() == nullptr) continue;
    for (const GpuId gpu : op.group) {
      (gpu.value < attending ? of_attending : of_holders).insert(op.key.kind);
    }
  }
  EXPECT_EQ(of_attending.count(OpKind::fc1), 0u);
  EXPECT_TRUE(of_attending.contains(OpKind::attention_scores));
  EXPECT_TRUE(of_attending.contains(OpKind::head));
  EXPECT_TRUE(of_holders.contains(OpKind::fc1));
  for (const OpKind kind : {OpKind::attention_scores, OpKind::gate, OpKind::norm, OpKind::head}) {
    EXPECT_FALSE(of_holders.contains(kind)) << name_of(OpType{kind});
  }
  const auto held = [&](int gpu, MemoryPart part) {
    return step.memory.peaks[static_cast<std::size_t>(gpu)].use.of(part);
  };
  const Parameters p = parameters_of(pass.model);
  EXPECT_EQ(held(0, MemoryPart::weights), Bytes(2 * (p.main() - p.routed)));
  EXPECT_EQ(held(15, MemoryPart::weights), Bytes(2 * p.routed / holders));
  EXPECT_EQ(held(0, MemoryPart::cache), cache_of_sequence(pass.model, 7, {}) * sequences);
  EXPECT_EQ(held(15, MemoryPart::cache), Bytes(0));
}

TEST(ExpertsApart, PartsOfABatchFillBothSides) {
  const Topology topology = test::h100_nodes(2);
  std::int64_t rows = 0;
  for (const auto overlap : {ServingOverlap::none, ServingOverlap::two_batch,
                             ServingOverlap::three_batch, ServingOverlap::single_batch}) {
    PlannedPass pass = apart(overlap);
    const PlannedStep step = pass.plan("deepep-low-latency", topology);
    for (std::size_t l = 0; l < step.layers.size(); ++l) {
      prove(pass.planner->layer_with_rows(step, l));
    }
    EXPECT_EQ(step.layers.size(), 3u * static_cast<std::size_t>(pass.spec.spec.serving->turns()));
    std::int64_t all = 0;
    for (const PlannedLayer& layer : step.layers) {
      for (const std::int64_t of_slot : layer.counts.slots) all += of_slot;
    }
    if (rows == 0) rows = all;
    EXPECT_EQ(all, rows);
    EXPECT_EQ(all, attending * sequences * 3 * pass.model.top_k * 3);
  }
}

/// Kernels of one part of a batch in one layer, or around all of them, on a GPU.
struct SideTimes {
  Seconds attention, experts, embedding, head, exchange;
};

SideTimes times_of(const PlannedStep& step, const Timeline& timeline) {
  SideTimes times;
  const GpuModel& gpu = *test::h100s(1).front();
  for (std::size_t i = 0; i < step.plan.ops.size(); ++i) {
    const Op& op = step.plan.ops[i];
    if (op.key.microbatch != 0) continue;
    if (op.exchange() != nullptr && op.key.layer == 0 && op.key.stage == Stage::dispatch) {
      times.exchange = Seconds(1);
      for (const Interval& of : timeline.ops[i]) {
        times.exchange = std::min(times.exchange, of.end - of.start);
      }
    }
    if (op.kernels() == nullptr) continue;
    const Seconds time = gpu.time(op.kernels()->of(0), op.key.type());
    const BlockKind block = block_in(op.key.part);
    if (op.group.contains(GpuId(1))) {
      if (op.key.layer == 0) times.experts += time;
    } else if (block == BlockKind::head && op.key.part != 0) {
      times.head += time;
    } else if (op.key.kind == OpKind::embedding) {
      times.embedding += time;
    } else if (op.key.layer == 0) {
      times.attention += time;
    }
  }
  return times;
}

/// With enough parts the slower side never waits (arXiv 2504.02263, section 4.1): what both sides
/// and the exchanges take once, and the slower one for all other parts and layers.
TEST(ExpertsApart, PartsTakeTheTimeOfTheSlowerSide) {
  constexpr int layers = 5, parts = 3, count = 30;
  const Topology topology = read_topology(data_file("topologies", "h100-rail"),
                                          {parse_override("nodes=1"), parse_override("node.gpus=2"),
                                           parse_override("node.nics.count=2")})
                                .topology;
  for (const bool experts_slower : {false, true}) {
    PlannedPass pass({{{.context = experts_slower ? 100 : 200000, .tokens = 1, .count = count}}}, 2,
                     1);
    pass.model = parse_moe_model(
        "name: even\nsource: test\nhidden: 1024\nlayers: 5\nmoe_layers: {first: 0, count: 5}\n"
        "experts: 4\ntop_k: 4\nexpert_ffn: 16384\nexpert_matrices: 3\nactivations: bf16\nweights: "
        "bf16\ngate: {score: softmax}\nvocabulary: 32000\nattention: {kind: gqa, heads: 16, "
        "kv_heads: 4, head_dim: 64}\n",
        "even");
    pass.trace = test::tokens_for(pass.model, 600, 10);
    pass.spec.spec.serving->overlap = ServingOverlap::three_batch;
    pass.spec.explicit_rows = false;
    const PlannedStep step = pass.plan("deepep-low-latency", topology);
    const Timeline timeline = make_port_backend(topology, test::h100s(2))->run(step.plan);
    const SideTimes t = times_of(step, timeline);
    ASSERT_EQ(t.experts > t.attention, experts_slower);
    const Seconds slower = std::max(t.attention, t.experts);
    const Seconds once = t.attention + t.experts + 2 * t.exchange;
    const Seconds expected = parts * t.embedding + once + (layers * parts - 1) * slower + t.head;
    EXPECT_NEAR(timeline.makespan.value, expected.value, 0.01 * expected.value);
  }
}

TEST(ExpertsApart, NeedsOneGroupOfAllGpus) {
  const Topology topology = test::h100_nodes(2);
  const auto message = [&](int ep, int ranks) -> std::string {
    PlannedPass pass({list_of_rank(0)}, ep, ranks);
    return error_of([&] { pass.plan("alltoall", topology); });
  };
  EXPECT_EQ(message(16, 15), "");
  EXPECT_NE(message(16, 16).find("serving.attention_ranks is 16 of 16 ranks"), std::string::npos);
  EXPECT_NE(message(8, 4).find("parallel.ep: 16"), std::string::npos);
}

}  // namespace
}  // namespace moesim
