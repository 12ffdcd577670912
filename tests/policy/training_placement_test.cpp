// SPDX-License-Identifier: Apache-2.0
// The placements of training systems on four GPUs, and on random routing.
#include <gtest/gtest.h>

#include <map>

#include "sim/model/group_counts.h"
#include "sim/policy/hierarchy.h"
#include "sim/policy/placement/training/expert_copies.h"
#include "sim/policy/step_plan.h"
#include "sim/policy/unsuitable.h"
#include "tests/policy/layer_tokens.h"

namespace moesim {
namespace {

/// Two nodes of two GPUs.
const Topology& two_nodes() {
  static const TopologyFile file =
      read_topology(MOESIM_ROOT "/topologies/h100-rail.yaml",
                    {parse_override("nodes=2"), parse_override("node.gpus=2"),
                     parse_override("node.nics.count=2")});
  return file.topology;
}

/// Experts of 144 parameters: 288 bytes of weights, 288 of gradients, 2016 with optimizer state;
/// rows of 16 bytes.
MoeModel toy_model(int experts, int top_k) {
  MoeModel model;
  model.hidden = 8;
  model.experts = experts;
  model.top_k = top_k;
  model.expert_ffn = 6;
  return model;
}

/// A placement and the steps it is shown.
class Placing {
 public:
  Placing(const std::string& text, const MoeModel& model, int ep = 4, int layers = 1)
      : model_(model), ep_(ep) {
    const SystemSpec system = parse_system(
        "{name: t, source: test, routing: identity, dispatch: alltoall, schedule: sequential, "
        "placement: " +
            text + "}",
        "test");
    placer_ = system.placement.make(
        {two_nodes(), model_, model.experts, 4, ep, layers, true, {}, 0, 0, {}});
  }

  /// The next step of a layer; `ids` holds the choices of every rank's tokens in turn.
  LayerDecision step(const std::vector<int>& ids, int layer = 0) {
    const auto tokens = static_cast<std::int64_t>(ids.size()) / model_.top_k;
    const Tokens t(4, model_.experts, model_.top_k, tokens / 4, ids, ep_);
    const IdRows rows = t.step->ids(0);
    const LoadMatrix loads = count_loads(t.batch, rows, model_.experts);
    return placer_->decide({steps_++, layer, t.batch, rows, loads});
  }
  /// The same from loads [rank][expert], for planners that look at nothing else.
  LayerDecision step_of(const std::vector<std::vector<int>>& loads, int layer = 0) {
    std::vector<int> ids;
    std::size_t most = 0;
    std::vector<std::vector<int>> of_rank;
    for (const auto& row : loads) {
      auto& mine = of_rank.emplace_back();
      for (std::size_t e = 0; e < row.size(); ++e) {
        mine.insert(mine.end(), static_cast<std::size_t>(row[e]), static_cast<int>(e));
      }
      most = std::max(most, mine.size());
    }
    for (const auto& mine : of_rank) {
      EXPECT_EQ(mine.size(), most) << "ranks hold equally many tokens";
      ids.insert(ids.end(), mine.begin(), mine.end());
    }
    return step(ids, layer);
  }
  const Placer& placer() const { return *placer_; }

 private:
  MoeModel model_;
  int ep_;
  std::unique_ptr<Placer> placer_;
  int steps_ = 0;
};

SlotTable table_of(const LayerDecision& decision) {
  return decision.assignment.placement().table();
}

SlotTable slots(const std::vector<std::vector<int>>& gpus) {
  SlotTable table;
  for (const auto& experts : gpus) table.emplace_back(experts.begin(), experts.end());
  return table;
}

using Flows = std::map<std::pair<int, int>, std::int64_t>;

Flows flows_of(const ParamExchange& exchange) {
  Flows flows;
  for (int from = 0; from < exchange.traffic.ranks(); ++from) {
    for (const auto& entry : exchange.traffic.row(GpuId(from))) {
      flows[{from, entry.to.value}] = exchange.traffic.bytes(entry).value;
    }
  }
  return flows;
}

std::vector<Flows> flows_of(const std::vector<ParamExchange>& exchanges) {
  std::vector<Flows> flows;
  for (const auto& e : exchanges) flows.push_back(flows_of(e));
  return flows;
}

// The tokens of the paper's Fig. 7, experts counted from 0: nodes are touched by 4 and 3 of them,
// by 2 and 3 once experts 0 and 3 have exchanged slots. The pair (1, 2) is as good.
const std::vector<int> fig7 = {0, 2, 0, 2, 1, 3, 0, 1};

TEST(ExpertSwap, ExchangesTheBestPairBeforeTheNextStep) {
  Placing placing("{kind: expert-swap, depth: 2}", toy_model(4, 2));
  const LayerDecision first = placing.step(fig7);
  EXPECT_EQ(table_of(first), slots({{0}, {1}, {2}, {3}}));
  EXPECT_TRUE(first.migrate.empty());
  const LayerDecision second = placing.step(fig7);
  EXPECT_EQ(table_of(second), slots({{3}, {1}, {2}, {0}}));
  EXPECT_EQ(flows_of(second.migrate), (std::vector<Flows>{{{{0, 3}, 2016}, {{3, 0}, 2016}}}));
  EXPECT_TRUE(second.migrate_blocks);
  EXPECT_FALSE(placing.placer().reacts());
}

TEST(ExpertSwap, MovesWeightsAloneWhenAsked) {
  Placing placing("{kind: expert-swap, depth: 2, payload: weights}", toy_model(4, 2));
  placing.step(fig7);
  EXPECT_EQ(flows_of(placing.step(fig7).migrate),
            (std::vector<Flows>{{{{0, 3}, 288}, {{3, 0}, 288}}}));
}

TEST(ExpertSwap, KeepsItsInterval) {
  Placing placing("{kind: expert-swap, depth: 2, interval: 2}", toy_model(4, 2));
  placing.step(fig7);
  EXPECT_TRUE(placing.step(fig7).migrate.empty());
  EXPECT_FALSE(placing.step(fig7).migrate.empty());
}

TEST(ExpertSwap, TheRoutingJustBeforeADecisionCounts) {
  // Every pair of experts twice: no exchange changes anything.
  const std::vector<int> all_pairs = {0, 1, 2, 3, 0, 2, 1, 3, 0, 3, 1, 2,
                                      0, 1, 2, 3, 0, 2, 1, 3, 0, 3, 1, 2};
  Placing placing("{kind: expert-swap, depth: 2, interval: 2}", toy_model(4, 2));
  placing.step(fig7), placing.step(all_pairs);
  EXPECT_TRUE(placing.step(fig7).migrate.empty());
  placing.step(fig7);
  EXPECT_EQ(table_of(placing.step(all_pairs)), slots({{3}, {1}, {2}, {0}}));
}

/// P_1 of the layer: the tokens that touch each node.
std::vector<std::int64_t> touching_nodes(const Assignment& assignment, const std::vector<int>& ids,
                                         int top_k) {
  GroupCounts counts({4, {1, 2}}, CountReading::mean);
  for (std::size_t t = 0; t * static_cast<std::size_t>(top_k) < ids.size(); ++t) {
    std::vector<GpuId> targets;
    for (int k = 0; k < top_k; ++k) {
      const int e = ids[t * static_cast<std::size_t>(top_k) + static_cast<std::size_t>(k)];
      targets.push_back(assignment.gpu(GpuId(0), ExpertId(e)));
    }
    counts.add(GpuId(0), targets);
  }
  return counts.totals(1, Copies::per_group);
}

TEST(ExpertSwap, LowersWhatTheBusiestNodeReceives) {
  Placing placing("{kind: expert-swap, depth: 2}", toy_model(4, 2));
  const auto before = touching_nodes(placing.step(fig7).assignment, fig7, 2);
  EXPECT_EQ(before, (std::vector<std::int64_t>{4, 3}));
  const auto after = touching_nodes(placing.step(fig7).assignment, fig7, 2);
  EXPECT_EQ(after, (std::vector<std::int64_t>{2, 3}));
}

TEST(ExpertSwap, SeveralPairsGoOnUntilNothingHelps) {
  MoeModel model = toy_model(16, 1);
  model.hidden = 8192;   // of smaller rows latencies hide some
  std::vector<int> ids;  // half of the tokens choose one of four experts of GPU 0
  for (int t = 0; t < 256; ++t) ids.push_back(t % 2 == 0 ? t / 2 % 4 : t / 2 % 16);
  Placing one("{kind: expert-swap, depth: 1}", model);
  Placing all("{kind: expert-swap, depth: 1, pairs: 99}", model);
  one.step(ids), all.step(ids);
  const Bytes state(14 * model.expert_parameters());
  EXPECT_EQ(one.step(ids).migrate.at(0).traffic.total(), state * 2);
  EXPECT_GE(all.step(ids).migrate.at(0).traffic.total(), state * 6);
  EXPECT_TRUE(all.step(ids).migrate.empty());
}

TEST(ExpertSwap, RunsSwapByThemselves) {
  Placing placing("{kind: expert-swap}", toy_model(4, 1), 2);
  // Ranks 0 and 1 choose evenly; ranks 2 and 3 load experts 0 and 1 of GPU 2.
  const std::vector<std::vector<int>> loads = {
      {2, 2, 2, 2}, {2, 2, 2, 2}, {4, 4, 0, 0}, {4, 4, 0, 0}};
  placing.step_of(loads);
  const LayerDecision next = placing.step_of(loads);
  EXPECT_EQ(table_of(next), slots({{0, 1}, {2, 3}, {2, 1}, {0, 3}}));
  EXPECT_EQ(flows_of(next.migrate), (std::vector<Flows>{{{{2, 3}, 2016}, {{3, 2}, 2016}}}));
}

TEST(ExpertSwap, SaysWhenTheClusterIsNotThatDeep) {
  EXPECT_THROW(Placing("{kind: expert-swap, depth: 7}", toy_model(4, 2)), Unsuitable);
}

TEST(SmartMoe, DealsOutByTheTwoStepsBefore) {
  Placing placing("{kind: smart-moe, interval: 2}", toy_model(8, 1));
  // Over two steps 10, 9, 8, 7, 4, 3, 2 and 1 choices, as in the published example.
  const std::vector<std::vector<int>> a = {{6, 0, 0, 0, 0, 0, 0, 0},
                                           {0, 6, 0, 0, 0, 0, 0, 0},
                                           {0, 0, 6, 0, 0, 0, 0, 0},
                                           {0, 0, 0, 3, 3, 0, 0, 0}};
  const std::vector<std::vector<int>> b = {{4, 1, 0, 0, 0, 0, 0, 0},
                                           {0, 2, 2, 1, 0, 0, 0, 0},
                                           {0, 0, 0, 3, 1, 1, 0, 0},
                                           {0, 0, 0, 0, 0, 2, 2, 1}};
  EXPECT_TRUE(placing.step_of(a).migrate.empty());
  EXPECT_TRUE(placing.step_of(b).migrate.empty());
  const LayerDecision third = placing.step_of(a);
  EXPECT_EQ(table_of(third), slots({{0, 7}, {1, 6}, {2, 5}, {3, 4}}));
  EXPECT_EQ(flows_of(third.migrate), (std::vector<Flows>{{{{0, 1}, 288},
                                                          {{1, 2}, 288},
                                                          {{1, 3}, 288},
                                                          {{2, 3}, 288},
                                                          {{3, 0}, 288},
                                                          {{3, 1}, 288}}}));
  EXPECT_FALSE(placing.placer().reacts());
}

TEST(SmartMoe, LeavesEvenLoadsAlone) {
  Placing placing("{kind: smart-moe, interval: 1}", toy_model(4, 1));
  const std::vector<std::vector<int>> even(4, {1, 1, 1, 1});
  placing.step_of(even);
  EXPECT_TRUE(placing.step_of(even).migrate.empty());
}

/// The model of FasterMoE's defaults: H 2048, width 4096, two matrices, fp32.
MoeModel fastermoe_model() {
  MoeModel model = toy_model(4, 1);
  model.hidden = 2048;
  model.expert_ffn = 4096;
  model.expert_matrices = 2;
  model.activations = model.weights = DataType::fp32;
  return model;
}

const std::string shadowing = "kind: shadowing, bandwidth: 6.25 GB/s, throughput: 11.5 TFLOP/s";
// By the rule of the code each shadow must save 767.2 choices: expert totals of 4000, 3200, 2436
// and 2000 are worth one.
const std::vector<std::vector<int>> worth_one(4, {1000, 800, 609, 500});
const std::vector<std::vector<int>> worth_none(4, {1000, 900, 800, 700});

TEST(Shadowing, CopiesLoadedExpertsAfterTheGate) {
  Placing placing("{" + shadowing + "}", fastermoe_model());
  EXPECT_TRUE(placing.placer().reacts());
  const LayerDecision decision = placing.step_of(worth_one);
  EXPECT_TRUE(decision.after_gate);
  EXPECT_EQ(table_of(decision), slots({{0}, {1, 0}, {2, 0}, {3, 0}}));
  const std::int64_t weights = 2LL * 2048 * 4096 * 4, gradients = weights / 2;
  EXPECT_EQ(flows_of(decision.gather),
            (std::vector<Flows>{{{{0, 1}, weights}, {{1, 2}, weights}, {{2, 3}, weights}}}));
  EXPECT_EQ(flows_of(decision.reduce),
            (std::vector<Flows>{{{{1, 0}, gradients}, {{2, 1}, gradients}, {{3, 2}, gradients}}}));
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(decision.assignment.gpu(GpuId(rank), ExpertId(0)), GpuId(rank));
    EXPECT_EQ(decision.assignment.gpu(GpuId(rank), ExpertId(2)), GpuId(2));
  }
  EXPECT_EQ(decision.memory[0].gathered, Bytes(0));
  EXPECT_EQ(decision.memory[1].gathered, Bytes(weights + gradients));
  EXPECT_EQ(decision.memory[1].weights, Bytes(weights));
  EXPECT_TRUE(placing.step_of(worth_none).gather.empty());
}

TEST(Shadowing, BroadcastsAndReducesByNode) {
  Placing placing("{" + shadowing + ", broadcast: by-node}", fastermoe_model());
  const LayerDecision decision = placing.step_of(worth_one);
  const std::int64_t weights = 2LL * 2048 * 4096 * 4, gradients = weights / 2;
  EXPECT_EQ(flows_of(decision.gather),
            (std::vector<Flows>{{{{0, 1}, weights}, {{0, 2}, weights}}, {{{2, 3}, weights}}}));
  EXPECT_EQ(
      flows_of(decision.reduce),
      (std::vector<Flows>{{{{3, 2}, gradients}}, {{{1, 0}, gradients}, {{2, 0}, gradients}}}));
}

TEST(Shadowing, VariantsDiffer) {
  // The paper sees that GPU 1, with its own choices for expert 0, would compute 4200; the corrected
  // code also charges eight transfers. All want a shadow where expert 0 has 20000 of 21200 choices.
  const std::vector<std::vector<int>> hot(4, {5000, 100, 100, 100});
  for (const std::string variant : {"paper", "code", "corrected"}) {
    Placing placing("{" + shadowing + ", variant: " + variant + "}", fastermoe_model());
    EXPECT_EQ(placing.step_of(worth_one).gather.empty(), variant != "code") << variant;
    EXPECT_EQ(table_of(placing.step_of(hot)), slots({{0}, {1, 0}, {2, 0}, {3, 0}})) << variant;
  }
}

const std::vector<std::vector<int>> skewed(4, {40, 4, 4, 4});
const std::vector<std::vector<int>> even(4, {13, 13, 13, 13});

// Transfers that cost next to nothing: who is copied depends on loads alone.
const std::string prophet =
    "kind: pro-prophet, bandwidth: 1000 GB/s, throughput: 1 GFLOP/s, broadcast: direct, "
    "balance: 1";

TEST(ProProphet, PlansFromTheStepBefore) {
  Placing placing("{" + prophet + ", excluded: 0, planning_time: 1 ms}", toy_model(4, 1));
  const LayerDecision first = placing.step_of(skewed);
  EXPECT_EQ(table_of(first), slots({{0}, {1}, {2}, {3}}));
  EXPECT_EQ(first.planning, Seconds(0));
  const LayerDecision second = placing.step_of(even);
  EXPECT_EQ(table_of(second), slots({{0}, {1, 0}, {2, 0}, {3, 0}}));
  EXPECT_EQ(flows_of(second.gather),
            (std::vector<Flows>{{{{0, 1}, 288}, {{0, 2}, 288}, {{0, 3}, 288}}}));
  EXPECT_EQ(flows_of(second.reduce),
            (std::vector<Flows>{{{{1, 0}, 288}, {{2, 0}, 288}, {{3, 0}, 288}}}));
  EXPECT_EQ(second.planning, Seconds(1e-3));
  EXPECT_FALSE(second.after_gate);
  EXPECT_TRUE(placing.step_of(even).gather.empty());
}

TEST(ProProphet, ExcludedGpusSendToTheHome) {
  Placing placing("{" + prophet + ", excluded: 1}", toy_model(4, 1));
  placing.step_of({{40, 4, 4, 4}, {40, 4, 4, 4}, {19, 11, 11, 11}, {40, 4, 4, 4}});
  const LayerDecision decision = placing.step_of(skewed);
  EXPECT_EQ(table_of(decision), slots({{0}, {1, 0}, {2}, {3, 0}}));
  EXPECT_EQ(decision.assignment.gpu(GpuId(2), ExpertId(0)), GpuId(0));
  EXPECT_EQ(decision.assignment.gpu(GpuId(3), ExpertId(0)), GpuId(3));
}

// 288 bytes an expert at 1 GB/s: 0.5 us hide one transfer, 0.6 us two.
const std::string hecate =
    "kind: hecate, bandwidth: 1 GB/s, dense_time: 0.5 us, throughput: 1 TFLOP/s";

TEST(Hecate, ReplicatesWhatTheDenseLayerHides) {
  Placing placing("{" + hecate + ", free_slots: 1}", toy_model(4, 1));
  EXPECT_TRUE(placing.step_of(skewed).gather.empty());
  const LayerDecision second = placing.step_of(even);
  EXPECT_EQ(table_of(second), slots({{0}, {1, 0}, {2, 0}, {3, 0}}));
  EXPECT_EQ(flows_of(second.gather),
            (std::vector<Flows>{{{{0, 1}, 288}, {{0, 2}, 288}, {{0, 3}, 288}}}));
  EXPECT_TRUE(second.regather.empty());
  EXPECT_EQ(second.assignment.gpu(GpuId(2), ExpertId(0)), GpuId(2));
  EXPECT_FALSE(placing.placer().reacts());
}

TEST(Hecate, FetchesAgainWhatItReleased) {
  Placing placing("{" + hecate + ", free_slots: 1, release: true}", toy_model(4, 1));
  placing.step_of(skewed);
  const LayerDecision second = placing.step_of(even);
  EXPECT_FALSE(second.gather.empty());
  EXPECT_EQ(flows_of(second.regather), flows_of(second.gather));
}

TEST(Hecate, DealsShardsOutAnewWithTheirState) {
  Placing placing("{" + hecate + ", free_slots: 0, interval: 2}", toy_model(8, 1));
  // Expert 0 is the top one, of which transfers relieve its GPU; experts 2 and 3 share GPU 1.
  const std::vector<std::vector<int>> loads(4, {20, 4, 10, 10, 1, 1, 1, 1});
  placing.step_of(loads);
  EXPECT_TRUE(placing.step_of(loads).migrate.empty());
  const LayerDecision third = placing.step_of(loads);
  const auto owners = owners_of(table_of(third));  // throws unless each expert has one slot
  EXPECT_NE(owners[2], owners[3]);
  std::int64_t moved = 0;
  for (std::size_t e = 0; e < 8; ++e) {
    if (owners[e] != GpuId(static_cast<std::int64_t>(e / 2))) moved += 2016;
  }
  EXPECT_GT(moved, 0);
  EXPECT_EQ(third.migrate.at(0).traffic.total(), Bytes(moved));
  EXPECT_TRUE(placing.step_of(loads).migrate.empty());
}

TEST(Hecate, CalibratesByTheGateWhereThatPays) {
  Placing placing("{" + hecate + ", free_slots: 1, calibration_slots: 1}", toy_model(4, 1));
  EXPECT_TRUE(placing.placer().reacts());
  // A thousand rows of 16 bytes take longer than an expert of 288.
  const LayerDecision first = placing.step_of(std::vector<std::vector<int>>(4, {1000, 0, 0, 0}));
  EXPECT_TRUE(first.after_gate);
  EXPECT_EQ(table_of(first), slots({{0}, {1, 0}, {2, 0}, {3, 0}}));
}

TEST(Hecate, NeedsSomethingToHideBehind) {
  EXPECT_THROW(Placing("{kind: hecate, throughput: 1 TFLOP/s}", toy_model(4, 1)), Unsuitable);
}

/// Four experts that every token may choose, T tokens on each rank: tokens bring 4 x 16 B x T x 4
/// ranks x 1/2 across nodes, experts 4 x 2 x 288 B. So they are equal at T = 18.
std::vector<int> spread_tokens(int per_rank) {
  std::vector<int> ids;
  for (int t = 0; t < 4 * per_rank; ++t) ids.push_back(t % 4);
  return ids;
}

TEST(Janus, MovesWhatIsFewerBytesAcrossNodes) {
  Placing placing("janus", toy_model(4, 1));
  EXPECT_TRUE(placing.step(spread_tokens(18)).gather.empty());
  const LayerDecision data = placing.step(spread_tokens(19));
  EXPECT_EQ(table_of(data).at(3).size(), 4u);
  for (int rank = 0; rank < 4; ++rank) {
    for (int e = 0; e < 4; ++e) {
      EXPECT_EQ(data.assignment.gpu(GpuId(rank), ExpertId(e)), GpuId(rank));
    }
  }
  EXPECT_FALSE(placing.placer().reacts());
}

TEST(Janus, FetchesOncePerNodeThenInside) {
  Placing placing("{kind: janus, centric: data}", toy_model(4, 1));
  const LayerDecision data = placing.step(spread_tokens(1));
  // Experts 0 and 1 go to GPUs 2 and 3, experts 2 and 3 to GPUs 0 and 1; then to the neighbours.
  EXPECT_EQ(flows_of(data.gather),
            (std::vector<Flows>{{{{0, 1}, 288},
                                 {{0, 2}, 288},
                                 {{1, 0}, 288},
                                 {{1, 3}, 288},
                                 {{2, 0}, 288},
                                 {{2, 3}, 288},
                                 {{3, 1}, 288},
                                 {{3, 2}, 288}},
                                {{{0, 1}, 288}, {{1, 0}, 288}, {{2, 3}, 288}, {{3, 2}, 288}}}));
  const auto back = flows_of(data.reduce);
  ASSERT_EQ(back.size(), 2u);
  EXPECT_EQ(back[0].size(), 4u);
  EXPECT_EQ(back[1].size(), 8u);
}

TEST(Janus, AfterTheGateFetchesWhatIsNeeded) {
  Placing placing("{kind: janus, fetch: needed}", toy_model(4, 1));
  EXPECT_TRUE(placing.placer().reacts());
  // GPU 0 alone needs expert 3, and that much.
  const LayerDecision data =
      placing.step_of({{0, 0, 0, 40}, {0, 40, 0, 0}, {0, 0, 40, 0}, {0, 0, 0, 40}});
  EXPECT_EQ(table_of(data), slots({{0, 3}, {1}, {2}, {3}}));
  EXPECT_EQ(flows_of(data.gather), (std::vector<Flows>{{{{3, 0}, 288}}}));
  EXPECT_EQ(flows_of(data.reduce), (std::vector<Flows>{{{{0, 3}, 288}}}));
  EXPECT_TRUE(data.after_gate);
}

// What holds for all of them, on random routing of two layers.
struct Property {
  const char* name;
  const char* text;
  int ep;
  friend void PrintTo(const Property& p, std::ostream* out) { *out << p.name << p.ep; }
};

class TrainingPlacements : public testing::TestWithParam<Property> {
 protected:
  static constexpr int experts = 16;
  static constexpr int top_k = 3;
  Placing placing() const {
    return Placing(GetParam().text, toy_model(experts, top_k), GetParam().ep, 2);
  }
  /// More and more tokens of low experts.
  static std::vector<int> ids(unsigned seed) {
    std::mt19937 random(seed);
    std::vector<int> result;
    for (int t = 0; t < 4 * 32; ++t) {
      std::set<int> chosen;
      while (static_cast<int>(chosen.size()) < top_k) {
        const int e = static_cast<int>(std::min(random() % experts, random() % experts));
        if (chosen.insert(e).second) result.push_back(e);
      }
    }
    return result;
  }
};

TEST_P(TrainingPlacements, EveryRunHasEveryExpert) {
  Placing p = placing();
  for (unsigned s = 0; s < 6; ++s) {
    for (int layer = 0; layer < 2; ++layer) {
      const LayerDecision d = p.step(ids(2 * s + static_cast<unsigned>(layer)), layer);
      for (int rank = 0; rank < 4; ++rank) {
        for (int e = 0; e < experts; ++e) {
          const int gpu = d.assignment.gpu(GpuId(rank), ExpertId(e)).value;
          EXPECT_EQ(gpu / GetParam().ep, rank / GetParam().ep);
        }
      }
    }
  }
}

TEST_P(TrainingPlacements, SlotsDependOnEarlierStepsAloneUnlessTheyReact) {
  Placing a = placing(), b = placing();
  for (unsigned s = 0; s < 5; ++s) {
    a.step(ids(s)), b.step(ids(s));
  }
  const LayerDecision x = a.step(ids(100)), y = b.step(ids(200));
  if (a.placer().reacts()) {
    EXPECT_NE(table_of(x), table_of(y));
  } else {
    EXPECT_EQ(table_of(x), table_of(y));
  }
}

TEST_P(TrainingPlacements, EveryCopyIsGatheredAndReducedOnce) {
  Placing p = placing();
  std::int64_t copies = 0;
  for (unsigned s = 0; s < 6; ++s) {
    const LayerDecision d = p.step(ids(s));
    if (d.memory.empty()) continue;  // nothing is copied
    std::vector<std::int64_t> received(4), sent(4);
    for (const auto& e : flows_of(d.gather)) {
      for (const auto& [pair, bytes] : e) received[static_cast<std::size_t>(pair.second)] += bytes;
    }
    for (const auto& e : flows_of(d.reduce)) {
      for (const auto& [pair, bytes] : e) sent[static_cast<std::size_t>(pair.first)] += bytes;
    }
    for (std::size_t g = 0; g < 4; ++g) {
      EXPECT_EQ(received[g] + sent[g], d.memory[g].gathered.value);
      copies += d.memory[g].gathered.value / (2 * 288);
    }
  }
  const std::string name = GetParam().name;
  EXPECT_EQ(copies > 0, name != "swap" && name != "smartmoe");
}

INSTANTIATE_TEST_SUITE_P(
    All, TrainingPlacements,
    testing::Values(
        Property{"swap", "expert-swap", 4}, Property{"swap", "expert-swap", 2},
        Property{"smartmoe", "{kind: smart-moe, interval: 2}", 4},
        Property{"smartmoe", "{kind: smart-moe, interval: 2}", 2},
        Property{"shadowing", "{kind: shadowing, bandwidth: 1 GB/s, throughput: 0.3 GFLOP/s}", 4},
        Property{
            "shadowing",
            "{kind: shadowing, bandwidth: 1 GB/s, throughput: 0.3 GFLOP/s, broadcast: by-node}", 2},
        Property{"prophet", "{kind: pro-prophet, throughput: 1 GFLOP/s, balance: 0.5}", 4},
        Property{"prophet", "{kind: pro-prophet, throughput: 1 GFLOP/s, balance: 0.5}", 2},
        Property{"hecate",
                 "{kind: hecate, dense_time: 1 us, bandwidth: 1 GB/s, throughput: 1 TFLOP/s, "
                 "interval: 3}",
                 4},
        Property{"hecate",
                 "{kind: hecate, dense_time: 1 us, bandwidth: 1 GB/s, throughput: 1 TFLOP/s, "
                 "free_slots: 1, broadcast: chain}",
                 2},
        Property{"janus", "{kind: janus, centric: data}", 4},
        Property{"janus", "{kind: janus, centric: data}", 2}),
    [](const auto& one) {
      return std::string(one.param.name) + std::to_string(one.param.ep) + "_" +
             std::to_string(one.index);
    });

}  // namespace
}  // namespace moesim
