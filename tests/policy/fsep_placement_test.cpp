// SPDX-License-Identifier: Apache-2.0
// FSEP through the whole step planner: published volumes and memory, lag, lite routing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "sim/balance/fsep/baselines.h"
#include "sim/balance/fsep/flex.h"
#include "sim/balance/fsep/volume.h"
#include "sim/base/data_files.h"
#include "sim/policy/placement/fsep/fsep_planner.h"
#include "sim/policy/step_plan.h"
#include "sim/policy/unsuitable.h"
#include "tests/policy/random_layers.h"

namespace moesim {
namespace {

constexpr int per_rank = 16;

const Topology& laer_a100() {
  static const TopologyFile file = read_topology(data_file("topologies", "laer-a100"));
  return file.topology;
}

SystemSpec system_of(const std::string& placement) {
  return parse_system(
      "{name: t, source: test, routing: identity, dispatch: alltoall, schedule: {kind: overlap, "
      "reduce: delayed}, placement: " +
          placement + "}",
      "test");
}

/// Steps of one layer; in step s a token's choices are shifted towards expert hot(s).
RoutingTrace trace_of(const MoeModel& model, int ranks, int layers, int steps,
                      const std::function<int(int)>& hot) {
  TraceInfo info{"t", "toy", model.experts, model.top_k, {}, Phase::synthetic, ""};
  for (int l = 0; l < layers; ++l) info.layers.push_back(l);
  std::vector<std::shared_ptr<const TraceStep>> all;
  for (int s = 0; s < steps; ++s) {
    std::mt19937 random(static_cast<unsigned>(s) + 1);
    std::vector<int> ids;
    for (int t = 0; t < ranks * per_rank * layers; ++t) {
      const int first = random() % 4 > 0 ? hot(s) : static_cast<int>(random() % 8) % model.experts;
      for (int k = 0; k < model.top_k; ++k) ids.push_back((first + 3 * k) % model.experts);
    }
    StepArrays arrays;
    arrays.ids = IdArray(model.experts, ids);
    for (int r = 0; r < ranks; ++r) arrays.sequence_lengths.push_back(per_rank);
    all.push_back(make_step(info, std::move(arrays)));
  }
  return {info, all};
}

/// A system's plans for all steps of a trace.
struct Replay {
  Replay(const std::string& placement, const Topology& topology, const MoeModel& model,
         const RoutingTrace& trace, int ep, bool backward = true) {
    PlannerOptions options;
    options.ep = ep;
    options.backward = backward;
    if (!backward) options.state = {0, 0};
    for (std::size_t l = 0; l < trace.info().layers.size(); ++l) {
      options.layers.push_back(static_cast<int>(l));
    }
    const SystemSpec system = system_of(placement);
    StepPlanner planner(system, topology, model, trace, options);
    for (int s = 0; s < trace.step_count(); ++s) {
      Batch batch;
      batch.step = s;
      for (int r = 0; r < topology.gpu_count(); ++r) {
        batch.ranks.push_back({{std::int64_t{r} * per_rank, per_rank}});
      }
      plans.push_back(planner.plan(batch, s));
      loads.push_back(count_loads(batch, trace.step(s).ids(0), model.experts));
    }
  }
  SlotTable slots(std::size_t step) const {
    return plans[step].layers[0].assignment().placement().table();
  }
  std::vector<StepPlan> plans;
  std::vector<LoadMatrix> loads;  // [step] of the first layer
};

struct PublishedShape {
  const char* model;
  int slots;
  std::int64_t parameters, restore, chunk;  // Psi, V in bytes, bytes
};

class PublishedVolume : public testing::TestWithParam<PublishedShape> {};

TEST_P(PublishedVolume, OfThePlanAndItsMemory) {
  const auto& [name, slots, psi, volume, chunk] = GetParam();
  const MoeModel model = read_moe_model(data_file("models/moe", name));
  ASSERT_EQ(model.expert_parameters(), psi);
  const RoutingTrace trace = trace_of(model, 32, 2, 2, [](int) { return 0; });
  const Replay replay(fmt::format("{{kind: fsep, slots: {}}}", slots), laer_a100(), model, trace,
                      32);
  for (const StepPlan& step : replay.plans) {
    std::map<int, std::vector<std::int64_t>> sent, received;  // [layer][gpu]
    for (const Op& op : step.plan.ops) {
      if (op.lane != Lane::param) continue;
      const ByteMatrix& traffic = op.exchange()->traffic;
      EXPECT_EQ(traffic.unit(), Bytes(chunk));
      std::vector<std::int64_t> off_node(4);
      auto& out = sent[op.layer];
      auto& in = received[op.layer];
      out.resize(32), in.resize(32);
      for (int from = 0; from < 32; ++from) {
        EXPECT_EQ(traffic.row(GpuId(from)).size(), 32u);  // to itself too
        for (const auto& entry : traffic.row(GpuId(from))) {
          if (entry.to.value == from) continue;
          const std::int64_t bytes = traffic.bytes(entry).value;
          out[static_cast<std::size_t>(from)] += bytes;
          in[entry.to.index()] += bytes;
          if (entry.to.value / 8 != from / 8) off_node[static_cast<std::size_t>(from / 8)] += bytes;
        }
      }
      EXPECT_THAT(off_node, testing::Each(8 * slots * psi * 2 / 32 * 24));
    }
    ASSERT_EQ(sent.size(), 2u);  // layers
    for (int layer = 0; layer < 2; ++layer) {
      EXPECT_THAT(sent[layer], testing::Each(3 * volume));  // two restores and a reduce
      EXPECT_THAT(received[layer], testing::Each(3 * volume));
    }
    for (const GpuMemory& gpu : step.memory) {
      const std::int64_t kept = gpu.weights.value + gpu.gradients.value + gpu.optimizer.value;
      EXPECT_EQ(kept, 2 * 16 * model.experts * psi / 32);  // of two layers
      EXPECT_EQ(gpu.gathered, fsep::fsep_transient({psi, Bytes(2)}, {32, 8, slots}));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, PublishedVolume,
    testing::Values(PublishedShape{"mixtral-8x7b-e8k2", 2, 176'160'768, 682'622'976, 11'010'048},
                    PublishedShape{"mixtral-8x7b-e16k4", 4, 88'080'384, 682'622'976, 5'505'024},
                    PublishedShape{"mixtral-8x22b-e8k2", 2, 301'989'888, 1'170'210'816, 18'874'368},
                    PublishedShape{"mixtral-8x22b-e16k4", 4, 150'994'944, 1'170'210'816,
                                   9'437'184}));

MoeModel toy_model(int experts = 8) {
  MoeModel model;
  model.hidden = 16;
  model.experts = experts;
  model.top_k = 2;
  model.expert_ffn = 4;  // 192 parameters
  return model;
}

TEST(FsepPlacement, InterNodeBytesOfTheReferenceCluster) {
  const MoeModel model = read_moe_model(data_file("models/moe", "mixtral-8x7b-e8k2"));
  const RoutingTrace trace = trace_of(model, 32, 1, 1, [](int) { return 0; });
  const auto out_of_node_0 = [&](const std::string& placement, int ep) {
    const Replay replay(placement, laer_a100(), model, trace, ep);
    const ByteMatrix& traffic =
        replay.plans[0].layers[0].decision.gather[0].traffic;  // one restore or all-gather
    std::int64_t bytes = 0;
    for (int from = 0; from < 8; ++from) {
      for (const auto& entry : traffic.row(GpuId(from))) {
        if (entry.to.value >= 8) bytes += traffic.bytes(entry).value;
      }
    }
    return bytes;
  };
  EXPECT_EQ(out_of_node_0("{kind: fsep, slots: 2}", 32), 4'227'858'432);  // 4.228 GB
  EXPECT_EQ(out_of_node_0("fsdp-ep", 4), 2'466'250'752);                  // 4 rings x 616.56 MB
}

TEST(FsepPlacement, CountsOfAStepFirstInfluenceTheNextAndTheSixthNoMore) {
  const Topology topology = bare_nodes(2, 4);
  const MoeModel model = toy_model();
  const fsep::SlotGrid grid{8, 4, 2};
  const auto moving = [](int step) { return step % 8; };
  const Replay replay("{kind: fsep, slots: 2}", topology, model, trace_of(model, 8, 1, 12, moving),
                      8);
  EXPECT_EQ(replay.slots(0), fsep::initial_slots(8, grid));
  fsep::PlannerOptions options;
  options.cost.token = model.row_bytes();
  for (std::size_t step = 1; step < 12; ++step) {
    const std::size_t oldest = step < 5 ? 0 : step - 5;
    LoadMatrix sum = replay.loads[oldest];
    for (std::size_t s = oldest + 1; s < step; ++s) sum += replay.loads[s];
    EXPECT_EQ(replay.slots(step), fsep::plan(sum, grid, options).choice().placed.slots) << step;
  }
  // Other choices in step 3 alone.
  const Replay other("{kind: fsep, slots: 2}", topology, model,
                     trace_of(model, 8, 1, 12, [&](int s) { return s == 3 ? 6 : moving(s); }), 8);
  for (std::size_t step = 0; step < 12; ++step) {
    if (step > 3 && step <= 8) continue;
    EXPECT_EQ(replay.slots(step), other.slots(step)) << step;
  }
  EXPECT_NE(replay.slots(4), other.slots(4));
}

TEST(FsepPlacement, LiteRoutingFollowsTheStepsOwnCounts) {
  const Topology topology = bare_nodes(2, 4);
  const MoeModel model = toy_model();
  const Replay replay("{kind: fsep, slots: 2}", topology, model,
                      trace_of(model, 8, 1, 4, [](int s) { return 2 * s; }), 8);
  for (std::size_t step = 0; step < 4; ++step) {
    const LayerWork& layer = replay.plans[step].layers[0];
    const fsep::Reach reach(layer.assignment().placement(), 4);
    EXPECT_EQ(layer.counts.slots, fsep::spread(replay.loads[step], reach).slots) << step;
  }
}

TEST(FsepPlacement, ANewLayoutMovesNothing) {
  const MoeModel model = toy_model();
  const Replay replay("{kind: fsep, slots: 2}", bare_nodes(2, 4), model,
                      trace_of(model, 8, 1, 3, [](int s) { return s; }), 8);
  EXPECT_NE(replay.slots(1), replay.slots(2));
  for (const StepPlan& step : replay.plans) {
    EXPECT_TRUE(step.layers[0].decision.migrate.empty());
    EXPECT_EQ(step.layers[0].decision.gather[0].traffic,
              replay.plans[0].layers[0].decision.gather[0].traffic);
  }
}

TEST(FsepPlacement, EveryRunOfRanksIsFsepByItself) {
  const MoeModel model = toy_model(4);
  const Replay replay("{kind: fsep, slots: 2}", bare_nodes(2, 4), model,
                      trace_of(model, 8, 1, 2, [](int s) { return s; }), 4);
  const LayerWork& layer = replay.plans[1].layers[0];
  const ByteMatrix& traffic = layer.decision.gather[0].traffic;
  EXPECT_EQ(traffic.at(GpuId(5), GpuId(6)), Bytes(2 * 192 / 4 * 2));
  EXPECT_EQ(traffic.at(GpuId(3), GpuId(4)), Bytes(0));
  for (int run = 0; run < 2; ++run) {
    const SlotTable all = replay.slots(1);
    const Placement placement(4, SlotTable(all.begin() + 4 * run, all.begin() + 4 * run + 4));
    LoadMatrix loads(4, 4);
    for (int r = 0; r < 4; ++r) {
      for (int e = 0; e < 4; ++e) {
        loads.at(GpuId(r), ExpertId(e)) = replay.loads[1].at(GpuId(4 * run + r), ExpertId(e));
      }
    }
    const auto expected = fsep::spread(loads, fsep::Reach(placement, 4)).slots;
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), layer.counts.slots.begin() + 8 * run));
  }
}

TEST(FsepPlacement, ShardsArePaddedToWholeParameters) {
  MoeModel model = toy_model();
  model.hidden = 8, model.expert_ffn = 5;  // 120 parameters on 16 ranks: 7.5 each
  const Replay replay("fsep", bare_nodes(2, 8), model,
                      trace_of(model, 16, 1, 1, [](int) { return 0; }), 16);
  const LayerDecision& decision = replay.plans[0].layers[0].decision;
  EXPECT_EQ(decision.gather[0].traffic.unit(), Bytes(8 * 2));
  EXPECT_EQ(decision.memory[0].resident(), Bytes(8 * 8 * 16));  // E x shard x 16 bytes
  // The reduce reads 16 chunks of 16 bytes and writes shards of 8 experts in fp32.
  EXPECT_EQ(decision.reduce[0].decode[3], (MemoryBound{Bytes(256), Bytes(256)}));
}

TEST(FsepPlacement, ForwardAloneRestoresOnce) {
  const MoeModel model = toy_model();
  const Replay replay("{kind: fsep, slots: 2}", bare_nodes(2, 4), model,
                      trace_of(model, 8, 2, 1, [](int) { return 0; }), 8, false);
  const LayerDecision& decision = replay.plans[0].layers[0].decision;
  EXPECT_TRUE(decision.regather.empty());
  EXPECT_TRUE(decision.reduce.empty());
  EXPECT_EQ(replay.plans[0].memory[0].weights, Bytes(2 * 8 * 192 / 8 * 2));
  EXPECT_EQ(replay.plans[0].memory[0].gathered, Bytes(2 * 2 * 192 * 2));  // two layers, two slots
}

TEST(FsepPlacement, BaselinesChangeWhenTheirAuthorsLetThem) {
  const Topology topology = bare_nodes(1, 8);
  const MoeModel model = toy_model();
  const RoutingTrace trace = trace_of(model, 8, 1, 6, [](int s) { return s; });
  const fsep::SlotGrid grid{8, 8, 2};
  const auto replay = [&](const std::string& planner) {
    return Replay("{kind: fsep, slots: 2, planner: " + planner + "}", topology, model, trace, 8);
  };
  const Replay initial = replay("initial"), fsdp = replay("fsdp-ep"), even = replay("even");
  const Replay smart = replay("smart, interval: 3");
  for (std::size_t step = 0; step < 6; ++step) {
    EXPECT_EQ(initial.slots(step), fsep::initial_slots(8, grid));
    EXPECT_EQ(fsdp.slots(step),
              step == 0 ? fsep::initial_slots(8, grid) : fsep::fsdp_ep_slots(8, grid));
    EXPECT_EQ(even.slots(step), even.slots(0));
  }
  EXPECT_EQ(smart.slots(1), fsep::smart_slots(smart.loads[0].per_expert(), grid));
  EXPECT_EQ(smart.slots(3), smart.slots(1));
  LoadMatrix four = smart.loads[0];
  for (std::size_t s = 1; s < 4; ++s) four += smart.loads[s];
  EXPECT_EQ(smart.slots(4), fsep::smart_slots(four.per_expert(), grid));
}

TEST(FsepPlacement, FlexGoesOnFromItsOwnSlots) {
  const MoeModel model = toy_model();
  const Replay flex("{kind: fsep, slots: 3, planner: flex}", bare_nodes(2, 4), model,
                    trace_of(model, 8, 1, 6, [](int s) { return s / 2; }), 8);
  SlotTable slots = flex.slots(0);
  LoadMatrix sum = flex.loads[0];
  for (std::size_t step = 1; step < 6; ++step) {
    slots = fsep::flex_plan(sum, slots, {8, 4, 3}).slots;
    EXPECT_EQ(flex.slots(step), slots);
    sum += flex.loads[step];
  }
  EXPECT_NE(slots, flex.slots(0));
}

TEST(FsepPlacement, EvenSpreadsCopiesOverNodes) {
  const MoeModel model = toy_model();
  const Replay replay("{kind: fsep, slots: 2, planner: even}", bare_nodes(2, 4), model,
                      trace_of(model, 8, 1, 1, [](int) { return 0; }), 8);
  const SlotTable slots = replay.slots(0);
  for (std::size_t node = 0; node < 2; ++node) {
    std::vector<int> copies(8);
    for (std::size_t rank = 4 * node; rank < 4 * node + 4; ++rank) {
      for (const ExpertId expert : slots[rank]) ++copies[expert.index()];
    }
    EXPECT_THAT(copies, testing::Each(1));
  }
}

TEST(FsepPlacement, PlanningTakesThePublishedTimeAndIsHidden) {
  EXPECT_DOUBLE_EQ(published_planning_time(64, 1).value, 0.49e-3);
  EXPECT_DOUBLE_EQ(published_planning_time(1024, 16).value, 282e-3);
  EXPECT_DOUBLE_EQ(published_planning_time(512, 4).value, 33.6e-3);
  EXPECT_NEAR(published_planning_time(90, 1).value, 0.788e-3, 0.01e-3);  // between 0.49 and 1.29
  EXPECT_DOUBLE_EQ(published_planning_time(8, 2).value, 0.52e-3);
  EXPECT_DOUBLE_EQ(published_planning_time(4096, 32).value, 282e-3);
  const MoeModel model = toy_model();
  const RoutingTrace trace = trace_of(model, 8, 2, 2, [](int) { return 0; });
  const auto replay = [&](const std::string& params) {
    return Replay("{kind: fsep, slots: 2" + params + "}", bare_nodes(1, 8), model, trace, 8);
  };
  const Replay hidden = replay("");
  EXPECT_EQ(hidden.plans[0].planning(), Seconds(0));
  EXPECT_DOUBLE_EQ(hidden.plans[1].planning().value, 2 * 0.52e-3);  // two layers
  EXPECT_EQ(replay(", planner: flex").plans[1].planning(), Seconds(0));
  const auto host_work = [](const StepPlan& step) {
    return std::count_if(step.plan.ops.begin(), step.plan.ops.end(),
                         [](const Op& op) { return op.name == "planning"; });
  };
  EXPECT_EQ(host_work(hidden.plans[1]), 0);
  EXPECT_EQ(host_work(replay(", planning: blocks, planning_time: 1 ms").plans[1]), 2 * 8);
}

TEST(FsepPlanner, TakesAsFewSlotsAsSuit) {
  const Topology topology = bare_nodes(3, 8);
  const auto slots = [&](FsepPlanning planning, int experts, bool queue = true) {
    const MoeModel model = toy_model(experts);
    const PlacementContext context{topology, model, experts, 24, 24, 1, true, {}, 0, 1, {}};
    return FsepPlanner(context, {.planning = planning, .queue = queue}, {}).grid().slots_per_rank;
  };
  EXPECT_EQ(slots(FsepPlanning::laer, 8), 1);
  EXPECT_EQ(slots(FsepPlanning::laer, 64), 3);
  EXPECT_EQ(slots(FsepPlanning::laer, 64, false), 8);  // 24 x 8 is a multiple of 64
  EXPECT_EQ(slots(FsepPlanning::smart, 64), 8);        // groups of 8 ranks
}

TEST(FsepPlanner, NodesAreTheLargestEqualBlocks) {
  EXPECT_EQ(equal_blocks(bare_nodes(3, 8), 24), 8);
  EXPECT_EQ(equal_blocks(bare_nodes(2, 8), 4), 4);
  EXPECT_EQ(equal_blocks(bare_nodes(4, 6), 8), 2);
}

TEST(FsepPlanner, ChargesWhatTheClustersSlowestLinkTakes) {
  // With links as slow inside nodes as between them LAER-MoE's cost sees no nodes.
  const Topology topology = bare_nodes(2, 4, 50);
  const MoeModel model = toy_model();
  const RoutingTrace trace = trace_of(model, 8, 1, 3, [](int s) { return s; });
  const Replay cluster("{kind: fsep, slots: 3, bandwidths: cluster}", topology, model, trace, 8);
  fsep::PlannerOptions options;
  options.cost.token = model.row_bytes();
  options.cost.same_node = options.cost.other_node = BytesPerSecond(50e9);
  EXPECT_EQ(cluster.slots(1),
            fsep::plan(cluster.loads[0], {8, 4, 3}, options).choice().placed.slots);
}

void expect_error(const std::string& placement, const std::string& text) {
  try {
    system_of(placement);
    FAIL() << placement;
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr(text));
  }
}

TEST(FsepPlacement, ParametersWithoutEffectAreErrors) {
  expect_error("{kind: fsep, planner: even, window: 3}", "'placement.window' has no effect");
  expect_error("{kind: fsep, planner: flex, pq: false}", "'placement.pq' has no effect");
  expect_error("{kind: fsep, even: false, pq: false}", "no candidate is left");
  const MoeModel model = toy_model();
  const RoutingTrace trace = trace_of(model, 8, 1, 1, [](int) { return 0; });
  const auto replay = [&](const std::string& params) {
    Replay("{kind: fsep, " + params + "}", bare_nodes(1, 8), model, trace, 8);
  };
  EXPECT_THROW(replay("planner: smart, slots: 3"), Unsuitable);
  EXPECT_THROW(replay("pq: false, slots: 3, even: true, planner: laer, interval: 1, window: 0"),
               Error);
}

TEST(FsdpEp, GathersAndReducesInRingsOverTheGroups) {
  const MoeModel model = toy_model();
  const Replay replay("fsdp-ep", bare_nodes(2, 4), model,
                      trace_of(model, 8, 1, 1, [](int) { return 0; }), 2);
  const LayerDecision& decision = replay.plans[0].layers[0].decision;
  EXPECT_EQ(replay.slots(0)[5],
            (std::vector<ExpertId>{ExpertId(1), ExpertId(3), ExpertId(5), ExpertId(7)}));
  // Four copies: three rounds of a quarter of four experts of 384 bytes, half of them either way.
  constexpr std::int64_t half = 3 * 4 * 384 / 4 / 2;
  for (const auto* list : {&decision.gather, &decision.regather, &decision.reduce}) {
    ASSERT_EQ(list->size(), 1u);
    const ByteMatrix& traffic = list->front().traffic;
    EXPECT_EQ(traffic.entries(), 16u);
    EXPECT_EQ(traffic.at(GpuId(1), GpuId(3)), Bytes(half));
    EXPECT_EQ(traffic.at(GpuId(1), GpuId(7)), Bytes(half));
    EXPECT_EQ(traffic.at(GpuId(7), GpuId(1)), Bytes(half));
  }
  EXPECT_EQ(decision.memory[0].resident(), Bytes(4 * 192 / 4 * 16));
  EXPECT_EQ(decision.memory[0].gathered, Bytes(2 * 4 * 384));
}

TEST(FsdpEp, TwoGroupsSendEachOtherTheirHalf) {
  const MoeModel model = toy_model();
  const Replay replay("fsdp-ep", bare_nodes(2, 4), model,
                      trace_of(model, 8, 1, 1, [](int) { return 0; }), 4);
  const ByteMatrix& traffic = replay.plans[0].layers[0].decision.gather[0].traffic;
  EXPECT_EQ(traffic.entries(), 8u);
  EXPECT_EQ(traffic.at(GpuId(1), GpuId(5)), Bytes(2 * 384 / 2));
}

TEST(FsdpEp, OneGroupHasNothingToGather) {
  const MoeModel model = toy_model();
  const Replay replay("fsdp-ep", bare_nodes(1, 4), model,
                      trace_of(model, 4, 1, 1, [](int) { return 0; }), 4);
  for (const Op& op : replay.plans[0].plan.ops) EXPECT_NE(op.lane, Lane::param);
}

}  // namespace
}  // namespace moesim
