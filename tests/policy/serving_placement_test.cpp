// SPDX-License-Identifier: Apache-2.0
// Balancers of serving systems as placement mechanisms: hand-checked cases of each, and what holds
// for all of them. The algorithms have tests of their own in tests/balance/serving.
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "sim/policy/step_plan.h"
#include "sim/policy/unsuitable.h"
#include "tests/policy/random_layers.h"

namespace moesim {
namespace {

std::vector<int> counts_to_ids(const std::vector<int>& counts) {
  std::vector<int> ids;
  for (std::size_t e = 0; e < counts.size(); ++e) {
    ids.insert(ids.end(), static_cast<std::size_t>(counts[e]), static_cast<int>(e));
  }
  return ids;
}

/// A placement of `text`, shown one routing after the other; 10 parameters of 2 bytes an expert.
class Play {
 public:
  Play(const std::string& text, const Shape& shape, int experts, int top_k = 1, int layers = 1,
       bool backward = false)
      : shape_(shape), experts_(experts), top_k_(top_k) {
    model_.hidden = 5;
    model_.expert_ffn = 1;
    model_.expert_matrices = 2;
    model_.experts = experts;
    model_.top_k = top_k;
    const SystemSpec system = parse_system(
        "{name: t, source: test, routing: identity, dispatch: alltoall, schedule: sequential, "
        "placement: " +
            text + "}",
        "test");
    PlacementContext context{topology_of(shape),
                             model_,
                             experts,
                             shape.ranks(),
                             shape.ep,
                             layers,
                             backward,
                             {},
                             0,
                             0,
                             {}};
    context.recorded = [this](int, int) { return coming_; };
    placer_ = system.placement.make(context);
  }

  LayerDecision show(const std::vector<int>& ids, int layer = 0) {
    const auto tokens = static_cast<std::int64_t>(ids.size()) / top_k_;
    const Tokens batch(shape_.ranks(), experts_, top_k_, tokens / shape_.ranks(), ids, 1);
    coming_ = count_loads(batch.batch, batch.step->ids(0), experts_);
    LayerDecision decision =
        placer_->decide({step_, layer, batch.batch, batch.step->ids(0), coming_});
    seen_.push_back(coming_);
    return decision;
  }
  LayerDecision show_counts(const std::vector<int>& counts) { return show(counts_to_ids(counts)); }
  const LoadMatrix& loads() const { return seen_.back(); }
  bool reacts() const { return placer_->reacts(); }

 private:
  Shape shape_;
  int experts_, top_k_;
  int step_ = 0;
  MoeModel model_;
  LoadMatrix coming_;
  std::vector<LoadMatrix> seen_;
  std::unique_ptr<Placer> placer_;
};

using Experts = std::vector<std::vector<int>>;

Experts experts_of(const LayerDecision& decision) {
  Experts table;
  for (const auto& slots : decision.assignment.placement().table()) {
    auto& row = table.emplace_back();
    for (const ExpertId e : slots) row.push_back(e.value);
  }
  return table;
}

/// Choices that every GPU serves.
std::vector<std::int64_t> served(const LayerDecision& decision, const LoadMatrix& loads) {
  const Placement& placement = decision.assignment.placement();
  std::vector<std::int64_t> slots(static_cast<std::size_t>(placement.slots()));
  for (int s = 0; s < loads.sources(); ++s) {
    for (int e = 0; e < loads.experts(); ++e) {
      add_choices(decision.assignment, GpuId(s), ExpertId(e), loads.at(GpuId(s), ExpertId(e)),
                  slots);
    }
  }
  std::vector<std::int64_t> gpus(static_cast<std::size_t>(placement.gpus()));
  for (std::size_t s = 0; s < slots.size(); ++s) {
    gpus[placement.gpu_of(SlotId(static_cast<std::int64_t>(s))).index()] += slots[s];
  }
  return gpus;
}

std::int64_t bytes(const std::vector<ParamExchange>& list, int from, int to) {
  std::int64_t sum = 0;
  for (const ParamExchange& move : list) sum += move.traffic.at(GpuId(from), GpuId(to)).value;
  return sum;
}

constexpr Shape pair_of_gpus{1, 2, 2}, four_gpus{1, 4, 4};
constexpr std::int64_t expert = 20;  // bytes of the weights of one

TEST(EplbPlacement, ReplicatesAfterTheStepThatShowedTheLoad) {
  Play play("{kind: eplb, slots_per_gpu: 3}", pair_of_gpus, 4);
  EXPECT_EQ(experts_of(play.show_counts({2, 2, 2, 10})), (Experts{{2, 0, 0}, {3, 1, 1}}));
  const LayerDecision next = play.show_counts({2, 2, 2, 10});
  EXPECT_EQ(experts_of(next), (Experts{{3, 3, 2}, {3, 0, 1}}));
  ASSERT_EQ(next.migrate.size(), 1u);
  EXPECT_EQ(bytes(next.migrate, 0, 1), expert);  // expert 0
  EXPECT_EQ(bytes(next.migrate, 1, 0), expert);  // expert 3
  EXPECT_EQ(next.migrate[0].traffic.total(), Bytes(2 * expert));
  EXPECT_EQ(next.memory[0].weights, Bytes(3 * expert));
  EXPECT_EQ(next.memory[0].resident(), Bytes(3 * expert));
}

TEST(EplbPlacement, WaitsForItsIntervalAndSumsItsWindow) {
  Play play("{kind: eplb, slots_per_gpu: 3, first: 2, interval: 3, window: 2, planning_time: 1 ms}",
            pair_of_gpus, 4);
  const auto quiet = experts_of(play.show_counts({4, 4, 4, 4}));
  const LayerDecision second = play.show_counts({0, 0, 0, 16});
  EXPECT_EQ(experts_of(second), quiet);
  EXPECT_EQ(second.planning, Seconds(0));
  const LayerDecision third = play.show_counts({4, 4, 4, 4});
  EXPECT_EQ(third.planning, Seconds(1e-3));
  // 4, 4, 4, 20: three copies of expert 3.
  EXPECT_EQ(experts_of(third), (Experts{{3, 3, 2}, {3, 0, 1}}));
  EXPECT_EQ(experts_of(play.show_counts({16, 0, 0, 0})), experts_of(third));
  EXPECT_EQ(experts_of(play.show_counts({16, 0, 0, 0})), experts_of(third));
  EXPECT_NE(experts_of(play.show_counts({16, 0, 0, 0})), experts_of(third));
}

TEST(EplbPlacement, KeepsCopiesAlikeInTraining) {
  // Experts 0 and 1 have two copies each on one GPU; expert 3 has copies on both after a step.
  Play weights("{kind: eplb, slots_per_gpu: 3}", pair_of_gpus, 4, 1, 1, true);
  weights.show_counts({2, 2, 2, 10});
  const LayerDecision w = weights.show_counts({2, 2, 2, 10});  // 3 3 2 | 3 0 1
  // Homes: GPU 0 has 0 and 1, GPU 1 has 2 and 3.
  EXPECT_TRUE(w.migrate.empty());
  EXPECT_EQ(bytes(w.gather, 0, 1), 2 * expert);
  EXPECT_EQ(bytes(w.gather, 1, 0), 2 * expert);
  EXPECT_EQ(bytes(w.reduce, 0, 1), 2 * expert);
  EXPECT_EQ(bytes(w.reduce, 1, 0), 2 * expert);
  EXPECT_EQ(w.memory[0].weights, Bytes(3 * expert));
  EXPECT_EQ(w.memory[0].gradients, Bytes(3 * expert));
  EXPECT_EQ(w.memory[0].optimizer, Bytes(2 * 10 * 12));

  Play state("{kind: eplb, slots_per_gpu: 3, payload: state}", pair_of_gpus, 4, 1, 1, true);
  state.show_counts({2, 2, 2, 10});
  const LayerDecision s = state.show_counts({2, 2, 2, 10});
  EXPECT_EQ(bytes(s.migrate, 1, 0), expert + 10 * 12);
  EXPECT_TRUE(s.gather.empty());
  ASSERT_EQ(s.reduce.size(), 2u);  // expert 3 alone is on two GPUs
  EXPECT_EQ(s.reduce[0].traffic.at(GpuId(1), GpuId(0)), Bytes(expert));
  EXPECT_EQ(s.reduce[1].traffic.at(GpuId(0), GpuId(1)), Bytes(expert));
  EXPECT_EQ(s.reduce[0].traffic.total(), Bytes(expert));
  EXPECT_TRUE(s.memory.empty());  // whole experts in all slots
}

TEST(LplbPlacement, SplitsTheVeryBatchButKeepsItsSlots) {
  const std::string text = "{kind: lplb, topology: ring, group: 2}";
  Play even(text, pair_of_gpus, 4), skewed(text, pair_of_gpus, 4);
  for (Play* play : {&even, &skewed}) play->show_counts({4, 4, 4, 4});
  const LayerDecision a = even.show_counts({4, 4, 4, 4});
  const LayerDecision b = skewed.show_counts({400, 100, 100, 100});
  EXPECT_EQ(experts_of(a), experts_of(b));
  EXPECT_FALSE(skewed.reacts());
  EXPECT_EQ(a.planning, Seconds(100e-6));
  EXPECT_TRUE(a.planning_blocks && a.after_gate);
  const auto loads = served(b, skewed.loads());
  EXPECT_EQ(loads[0] + loads[1], 700);
  // Own experts 0 and 2 against 1 and 3, 500 to 200, were it not for the replica of expert 0.
  EXPECT_NEAR(static_cast<double>(loads[0]), 350, 4);
}

TEST(LplbPlacement, CubeNeedsEightRanksAndTwoExperts) {
  EXPECT_NO_THROW(Play("{kind: lplb}", {1, 8, 8}, 16));
  EXPECT_THROW(Play("{kind: lplb}", {1, 8, 8}, 8), Unsuitable);
  EXPECT_THROW(Play("{kind: lplb}", four_gpus, 16), Unsuitable);
  EXPECT_NO_THROW(Play("{kind: lplb, topology: torus}", {1, 8, 8}, 16));
  EXPECT_NO_THROW(Play("{kind: lplb, topology: hypercube}", {2, 8, 16}, 32));
}

TEST(TrtLlmPlacement, PlacesLikeThePublishedCaseAndLoadsFromTheHost) {
  Play play("{kind: trt-llm, slots_per_gpu: 2, updates_per_iteration: 1, host_bandwidth: 1 GB/s}",
            four_gpus, 6);
  const std::vector<int> counts = {100, 60, 50, 40, 30, 20};
  EXPECT_EQ(experts_of(play.show_counts(counts)), (Experts{{0, 1}, {1, 2}, {3, 4}, {4, 5}}));
  const LayerDecision next = play.show_counts(counts);
  EXPECT_EQ(experts_of(next), (Experts{{0, 1}, {0, 4}, {2, 5}, {3, 1}}));
  ASSERT_EQ(next.migrate.size(), 1u);
  EXPECT_EQ(next.migrate[0].traffic.off_diagonal(), Bytes(0));
  const std::vector<std::int64_t> filled = {0, 2, 2, 2};  // slots that change
  for (std::size_t g = 0; g < 4; ++g) {
    EXPECT_EQ(next.migrate[0].decode[g].written, Bytes(filled[g] * expert)) << "GPU " << g;
  }
  EXPECT_DOUBLE_EQ(next.planning.value, 40e-9);
  EXPECT_FALSE(next.planning_blocks || next.migrate_blocks);
}

TEST(TrtLlmPlacement, UpdatesLayersInRotation) {
  const auto changes = [](const std::string& more) {
    Play play("{kind: trt-llm, slots_per_gpu: 2" + more + "}", four_gpus, 6, 1, 2);
    std::string seen;
    for (int step = 0; step < 5; ++step) {
      for (int layer = 0; layer < 2; ++layer) {
        // Loads that want another placement every step.
        std::vector<int> counts(6, 8);
        counts[static_cast<std::size_t>(step)] = 1000;
        if (!play.show(counts_to_ids(counts), layer).migrate.empty()) {
          seen += std::to_string(step) + char('a' + layer) + " ";
        }
      }
    }
    return seen;
  };
  EXPECT_EQ(changes(", decay: 0"), "");  // static
  // Two sets of one layer and an iteration without: 0, 1, none.
  EXPECT_EQ(changes(", decay: 0, updates_per_iteration: 1"), "1a 2b 4a ");
  EXPECT_EQ(changes(", decay: 0, updates_per_iteration: 1, warm_up: 2"), "3a 4b ");
}

TEST(TrtLlmPlacement, DealsReplicasOutInTurn) {
  Play play("{kind: trt-llm, slots_per_gpu: 1, offset: none}", four_gpus, 2);
  const LayerDecision d = play.show(std::vector<int>(16, 0));
  EXPECT_EQ(experts_of(d), (Experts{{0}, {0}, {1}, {1}}));
  EXPECT_EQ(served(d, play.loads()), (std::vector<std::int64_t>{8, 8, 0, 0}));
  EXPECT_EQ(d.assignment.slot(GpuId(1), ExpertId(0)), SlotId(0));
  Play shifted("{kind: trt-llm, slots_per_gpu: 1}", four_gpus, 2);
  EXPECT_EQ(shifted.show(std::vector<int>(16, 0)).assignment.slot(GpuId(1), ExpertId(0)),
            SlotId(1));
}

TEST(VllmPlacement, RebalancesAfterAQuarterAndKeepsSlots) {
  Play play("{kind: vllm, slots_per_gpu: 3, interval: 4}", pair_of_gpus, 4);
  EXPECT_EQ(experts_of(play.show_counts({2, 2, 2, 10})), (Experts{{0, 1, 2}, {3, 0, 1}}));
  const LayerDecision next = play.show_counts({16, 0, 0, 0});
  EXPECT_EQ(experts_of(next),
            (Experts{{3, 3, 2}, {3, 0, 1}}));  // EPLB's, 2 and 3 0 1 where they were
  for (int step = 2; step < 5; ++step) {
    EXPECT_EQ(experts_of(play.show_counts({16, 0, 0, 0})), experts_of(next));
  }
  EXPECT_NE(experts_of(play.show_counts({16, 0, 0, 0})), experts_of(next));
}

TEST(VllmPlacement, PicksReplicasByThePlaceOfAChoice) {
  // Expert 0 is on both GPUs and always the first of two choices: always at even places.
  const std::vector<int> ids = {0, 2, 0, 3, 0, 2, 0, 3};
  Play place("{kind: vllm, slots_per_gpu: 3}", pair_of_gpus, 4, 2);
  const LayerDecision d = place.show(ids);
  EXPECT_EQ(experts_of(d), (Experts{{0, 1, 2}, {3, 0, 1}}));
  EXPECT_EQ(served(d, place.loads()), (std::vector<std::int64_t>{6, 2}));
  // By the token's index alone: 0 and 2654435769, even and odd.
  Play hash("{kind: vllm, slots_per_gpu: 3, rule: token-hash}", pair_of_gpus, 4, 2);
  const LayerDecision by_token = hash.show(ids);
  EXPECT_EQ(served(by_token, hash.loads()), (std::vector<std::int64_t>{4, 4}));
}

TEST(SglangPlacement, MovesLayersInChunksUnlessEvenlyUsed) {
  const auto moved = [](const std::string& more, const std::vector<int>& counts) {
    Play play("{kind: sglang, slots_per_gpu: 3, interval: 2" + more + "}", pair_of_gpus, 4, 1, 2);
    std::string seen;
    for (int step = 0; step < 4; ++step) {
      for (int layer = 0; layer < 2; ++layer) {
        const LayerDecision d = play.show(counts_to_ids(counts), layer);
        if (!d.migrate.empty()) seen += std::to_string(step) + char('a' + layer) + " ";
      }
    }
    return seen;
  };
  EXPECT_EQ(moved("", {2, 2, 2, 10}), "2a 2b ");
  EXPECT_EQ(moved(", layers_per_chunk: 1", {2, 2, 2, 10}), "2a 3b ");
  // 0 1 2 | 3 0 1 with 2 2 2 10: loads 4 and 12, utilisation 8 / 12.
  EXPECT_EQ(moved(", threshold: 0.6", {2, 2, 2, 10}), "");
  EXPECT_EQ(moved(", threshold: 0.7", {2, 2, 2, 10}), "2a 2b ");
}

TEST(SglangPlacement, PrefersTheOwnCopyOrDraws) {
  Play fixed("{kind: sglang, slots_per_gpu: 3}", pair_of_gpus, 4);
  const LayerDecision d = fixed.show(std::vector<int>(200, 0));  // 0 1 2 | 3 0 1
  EXPECT_EQ(served(d, fixed.loads()), (std::vector<std::int64_t>{100, 100}));
  EXPECT_EQ(d.assignment.slot(GpuId(0), ExpertId(0)), SlotId(0));
  EXPECT_EQ(d.assignment.slot(GpuId(1), ExpertId(0)), SlotId(4));
  EXPECT_FALSE(d.assignment.split());
  Play drawn("{kind: sglang, slots_per_gpu: 3, replicas: dynamic}", pair_of_gpus, 4);
  const LayerDecision random = drawn.show(std::vector<int>(200, 0));
  EXPECT_TRUE(random.assignment.split());
  const auto loads = served(random, drawn.loads());
  EXPECT_EQ(loads[0] + loads[1], 200);
  EXPECT_GT(std::min(loads[0], loads[1]), 60);
}

TEST(LlepPlacement, SpillsAsInThePublishedCase) {
  const std::vector<int> counts = {4000, 200, 300, 500, 600, 400, 700, 300};
  const std::string rest = ", alpha: 1.0, least_chunk: 100}";
  Play play("{kind: llep, lambda: 2.4" + rest, four_gpus, 8, 1, 1, true);
  const LayerDecision d = play.show_counts(counts);
  EXPECT_TRUE(play.reacts() && d.after_gate);
  EXPECT_EQ(experts_of(d), (Experts{{0, 1}, {2, 3, 0}, {4, 5, 0}, {6, 7, 0}}));
  EXPECT_EQ(served(d, play.loads()), (std::vector<std::int64_t>{1750, 1750, 1750, 1750}));
  for (int g = 1; g < 4; ++g) {
    EXPECT_EQ(bytes(d.gather, 0, g), expert);
    EXPECT_EQ(bytes(d.regather, 0, g), expert);
    EXPECT_EQ(bytes(d.reduce, g, 0), expert);
    EXPECT_EQ(d.memory[static_cast<std::size_t>(g)].gathered, Bytes(2 * expert));
    EXPECT_EQ(d.memory[static_cast<std::size_t>(g)].optimizer, Bytes(2 * 10 * 12));
  }
  EXPECT_EQ(d.memory[0].gathered, Bytes(0));
  EXPECT_EQ(d.gather[0].traffic.total(), Bytes(3 * expert));

  Play patient("{kind: llep, lambda: 2.5" + rest, four_gpus, 8);  // 4200 / 1750 is 2.4
  const LayerDecision native = patient.show_counts(counts);
  EXPECT_EQ(experts_of(native), (Experts{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(served(native, patient.loads()), (std::vector<std::int64_t>{4200, 800, 1000, 1000}));
  EXPECT_TRUE(native.gather.empty());

  Play keeping("{kind: llep, received: keep" + rest, four_gpus, 8, 1, 1, true);
  const LayerDecision kept = keeping.show_counts(counts);
  EXPECT_TRUE(kept.regather.empty());
  EXPECT_EQ(kept.memory[1].weights, Bytes(3 * expert));
  EXPECT_EQ(kept.memory[1].gathered, Bytes(expert));  // gradients
  EXPECT_THROW(Play("llep", four_gpus, 6), Unsuitable);
}

TEST(PredictivePlacement, CopiesByLoadsThatAreOldEnough) {
  const std::vector<int> hot = {8, 1, 1, 2};
  const Experts base = {{0, 1}, {2, 3}}, copied = {{0, 1, 3}, {2, 3, 0}};
  const auto play_of = [&](const std::string& more) {
    Play play("{kind: predictive-replication" + more + "}", pair_of_gpus, 4);
    std::vector<bool> seen;
    for (int step = 0; step < 3; ++step) {
      const Experts table = experts_of(play.show_counts(step == 0 ? hot : std::vector{3, 3, 3, 3}));
      EXPECT_TRUE(table == copied || table == base);
      seen.push_back(table == copied);
    }
    return seen;
  };
  // 9 and 3 become 5 and 7 with a copy of expert 0, then 6 and 6; even loads want no copy.
  EXPECT_EQ(play_of(", predictor: last"), (std::vector{false, true, false}));
  EXPECT_EQ(play_of(", predictor: last, lag: 2"), (std::vector{false, false, true}));
  EXPECT_EQ(play_of(", beta: 0.9"), (std::vector{false, true, true}));
  EXPECT_EQ(play_of(", beta: 0"), (std::vector{false, true, false}));
  EXPECT_EQ(play_of(", predictor: adjacent"), (std::vector{false, true, false}));
}

TEST(PredictivePlacement, OracleReactsAndCopiesComeOverlapped) {
  Play play("{kind: predictive-replication, predictor: oracle}", pair_of_gpus, 4);
  EXPECT_TRUE(play.reacts());
  play.show_counts({3, 3, 3, 3});
  const LayerDecision d = play.show_counts({8, 1, 1, 2});
  EXPECT_EQ(experts_of(d), (Experts{{0, 1, 3}, {2, 3, 0}}));
  EXPECT_EQ(bytes(d.migrate, 0, 1), expert);
  EXPECT_FALSE(d.migrate_blocks);
  EXPECT_FALSE(Play("predictive-replication", pair_of_gpus, 4).reacts());
}

TEST(PredictivePlacement, AdjacentLayerForetellsTheNext) {
  Play play("{kind: predictive-replication, predictor: adjacent}", pair_of_gpus, 4, 1, 2);
  // Tokens with expert 0 go on to expert 2.
  play.show({0, 0, 0, 0, 0, 0, 1, 3}, 0);
  play.show({2, 2, 2, 2, 2, 2, 3, 1}, 1);
  play.show({0, 0, 0, 0, 0, 0, 1, 3}, 0);
  const Experts second = experts_of(play.show({0, 1, 2, 3, 0, 1, 2, 3}, 1));
  EXPECT_EQ(second, (Experts{{0, 1, 2}, {2, 3}}));
}

TEST(LazarusPlacement, ReplicatesByLoadWithTwoOfEach) {
  Play play("{kind: lazarus, interval: 1, first: 1, window: 1, slots_per_gpu: 3}", four_gpus, 4);
  play.show_counts({40, 8, 8, 8});
  const LayerDecision d = play.show_counts({40, 8, 8, 8});
  std::vector<std::set<int>> holders(4);
  const Experts table = experts_of(d);
  for (std::size_t g = 0; g < 4; ++g) {
    for (const int e : table[g]) holders[static_cast<std::size_t>(e)].insert(static_cast<int>(g));
  }
  EXPECT_EQ(holders[0].size(), 4u);
  for (int e = 1; e < 4; ++e) EXPECT_GE(holders[static_cast<std::size_t>(e)].size(), 2u);
  EXPECT_THROW(Play("{kind: lazarus, slots_per_gpu: 1}", four_gpus, 4), Unsuitable);
}

TEST(GracePlacement, GroupsWhatGoesTogetherAndCopiesTheHot) {
  // 6 tokens with 0 and 3, 2 with 1 and 2.
  const std::vector<int> ids = {0, 3, 3, 0, 0, 3, 1, 2, 0, 3, 0, 3, 2, 1, 3, 0};
  Play play("grace", pair_of_gpus, 4, 2);
  EXPECT_EQ(experts_of(play.show(ids)), (Experts{{0, 1}, {2, 3}}));
  const LayerDecision d = play.show(ids);
  Experts table = experts_of(d);
  if (table[0].size() > table[1].size()) std::swap(table[0], table[1]);
  // 12 against 4: one copy each of 0 and 3, whose 6 do not exceed the half.
  EXPECT_EQ(table, (Experts{{0, 3}, {1, 2, 0, 3}}));
  EXPECT_FALSE(d.migrate.empty());
  EXPECT_EQ(experts_of(play.show({0, 1, 0, 1, 0, 1, 0, 1})), experts_of(d));  // it stays
}

struct Kind {
  const char* text;
  const char* name;
  bool moves = true;
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class AnyServingPlacement : public testing::TestWithParam<Kind> {
 protected:
  static constexpr int experts = 16, top_k = 3, layers = 2, steps = 6;
  static constexpr Shape shape{2, 4, 4};

  /// Skewed towards one expert, another for every seed.
  static std::vector<int> skewed(unsigned seed) {
    std::mt19937 random(seed);
    std::vector<int> ids = random_ids(random, shape.ranks() * 40, experts, top_k);
    const int hot = static_cast<int>(seed * 5 % experts);
    for (std::size_t t = 0; t < ids.size(); t += top_k) {
      const auto of_token = std::span(ids).subspan(t, top_k);
      if (random() % 4 != 0 && std::find(of_token.begin(), of_token.end(), hot) == of_token.end()) {
        of_token[0] = hot;
      }
    }
    return ids;
  }
  static Play play(bool backward = false) {
    return Play(GetParam().text, shape, experts, top_k, layers, backward);
  }
};

TEST_P(AnyServingPlacement, ServesEveryChoiceInItsRun) {
  Play play = this->play();
  for (unsigned step = 0; step < steps; ++step) {
    for (int layer = 0; layer < layers; ++layer) {
      const LayerDecision d = play.show(skewed(step * 2 + static_cast<unsigned>(layer)), layer);
      const Placement& placement = d.assignment.placement();
      for (int e = 0; e < experts; ++e) {
        std::set<int> runs;
        for (const SlotId s : placement.slots_of(ExpertId(e))) {
          runs.insert(placement.gpu_of(s).value / shape.ep);
        }
        EXPECT_EQ(runs.size(), 2u) << "expert " << e;
        for (int rank = 0; rank < shape.ranks(); ++rank) {
          if (!d.assignment.split()) {
            EXPECT_EQ(d.assignment.gpu(GpuId(rank), ExpertId(e)).value / shape.ep, rank / shape.ep);
            continue;
          }
          for (const Share& share : d.assignment.shares(GpuId(rank), ExpertId(e))) {
            EXPECT_EQ(placement.gpu_of(share.slot).value / shape.ep, rank / shape.ep);
            EXPECT_EQ(placement.expert_in(share.slot), ExpertId(e));
          }
        }
      }
      const auto gpus = served(d, play.loads());
      EXPECT_EQ(std::accumulate(gpus.begin(), gpus.end(), std::int64_t{0}),
                shape.ranks() * 40 * top_k);
      ASSERT_EQ(d.memory.size(), 8u);
      const SlotTable now = placement.table();
      for (std::size_t g = 0; g < now.size(); ++g) {
        const ExpertMemory& m = d.memory[g];
        EXPECT_EQ(m.weights + m.gathered, Bytes(static_cast<std::int64_t>(now[g].size()) * expert));
        EXPECT_EQ(m.gradients + m.optimizer, Bytes(0));
      }
    }
  }
}

TEST_P(AnyServingPlacement, MovesWhatIsNewToAGpuOnce) {
  if (!GetParam().moves) GTEST_SKIP() << "slots are filled otherwise";
  Play play = this->play();
  SlotTable before;
  std::int64_t moved = 0;
  for (unsigned step = 0; step < steps; ++step) {
    const LayerDecision d = play.show(skewed(step));
    play.show(skewed(step + 50), 1);
    const SlotTable now = d.assignment.placement().table();
    for (std::size_t g = 0; g < now.size(); ++g) {
      std::set<ExpertId> fresh(now[g].begin(), now[g].end());
      if (!before.empty()) {
        for (const ExpertId e : before[g]) fresh.erase(e);
      }
      std::int64_t arrived = 0;
      for (int from = 0; from < shape.ranks(); ++from) {
        arrived += bytes(d.migrate, from, static_cast<int>(g));
      }
      if (!before.empty()) {
        EXPECT_EQ(arrived, static_cast<std::int64_t>(fresh.size()) * expert);
      }
      moved += arrived;
    }
    before = now;
  }
  EXPECT_GT(moved, 0);
}

TEST_P(AnyServingPlacement, SlotsFollowEarlierStepsAlone) {
  for (int perturbed = 0; perturbed < steps - 1; ++perturbed) {
    Play a = play(), b = play();
    bool later = false;
    for (int step = 0; step < steps; ++step) {
      for (int layer = 0; layer < layers; ++layer) {
        const auto seed = static_cast<unsigned>(2 * step + layer);
        const auto ta = experts_of(a.show(skewed(seed), layer));
        const auto tb = experts_of(b.show(skewed(seed + (step == perturbed ? 7 : 0)), layer));
        if (step <= perturbed && !a.reacts()) {
          EXPECT_EQ(ta, tb) << "step " << step;
        }
        later = later || ta != tb;
      }
    }
    // Profiles of one step know nothing of later ones.
    EXPECT_TRUE(later || perturbed > 0);
  }
}

TEST_P(AnyServingPlacement, TrainsWithPlansThatHold) {
  Play play = this->play(true);
  for (unsigned step = 0; step < 3; ++step) {
    for (int layer = 0; layer < layers; ++layer) {
      const LayerDecision d = play.show(skewed(step), layer);
      ASSERT_EQ(d.memory.size(), 8u);
      Bytes optimizer;
      for (const ExpertMemory& m : d.memory) optimizer += m.optimizer;
      EXPECT_EQ(optimizer, Bytes(2 * experts * 10 * 12));  // every expert once per run
      // What weights come from home, gradients go back.
      for (int from = 0; from < shape.ranks(); ++from) {
        for (int to = 0; to < shape.ranks(); ++to) {
          EXPECT_EQ(bytes(d.gather, from, to), bytes(d.reduce, to, from));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, AnyServingPlacement,
    testing::Values(
        Kind{"eplb", "eplb"},
        Kind{"{kind: eplb, slots_per_gpu: 6, replicas: node-first}", "eplb_node_first"},
        Kind{"{kind: lplb, topology: ring}", "lplb"},
        Kind{"{kind: trt-llm, updates_per_iteration: 1}", "trt_llm", false},
        Kind{"{kind: vllm, interval: 2, window: 2}", "vllm"},
        Kind{"{kind: sglang, interval: 1}", "sglang"},
        Kind{"{kind: sglang, interval: 2, replicas: dynamic, layers_per_chunk: 1}",
             "sglang_chunks"},
        Kind{"{kind: llep, least_chunk: 1}", "llep", false},
        Kind{"predictive-replication", "predictive"},
        Kind{"{kind: predictive-replication, predictor: adjacent, extra_slots: 2}", "adjacent"},
        Kind{"{kind: lazarus, interval: 1, first: 1, window: 3, payload: weights}", "lazarus"},
        Kind{"grace", "grace"}),
    [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace moesim
