// SPDX-License-Identifier: Apache-2.0
// Routing mechanisms against published capacities, hand examples and independent enumerations.
#include "sim/policy/routing.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "sim/policy/routing/capacity_rule.h"
#include "sim/trace/synth/synth.h"
#include "tests/policy/layer_tokens.h"

namespace moesim {
namespace {

using Rows = std::vector<std::vector<int>>;  // [token][k]; -1: dropped

/// One layer of tokens with or without gate weights, `per_rank` on each of `ranks` ranks.
struct Recorded {
  Recorded(int experts_, int ranks, int top_k_, const std::vector<int>& ids,
           const std::vector<float>& weights = {})
      : info{"t", "toy", experts_, top_k_, {0}, Phase::synthetic, ""} {
    StepArrays arrays;
    arrays.ids = IdArray(experts_, ids);
    const auto tokens = static_cast<std::int64_t>(ids.size()) / top_k_;
    arrays.sequence_lengths = {static_cast<std::int32_t>(tokens)};
    arrays.weights = weights;
    step = make_step(info, std::move(arrays));
    for (int r = 0; r < ranks; ++r) {
      batch.ranks.push_back({{r * (tokens / ranks), tokens / ranks}});
    }
  }
  int experts() const { return info.experts; }
  Rows rows() const { return rows_of(step->ids(0)); }
  static Rows rows_of(IdRows ids) {
    Rows rows;
    for (std::int64_t t = 0; t < ids.tokens(); ++t) {
      rows.emplace_back();
      for (int k = 0; k < ids.top_k(); ++k) {
        const int id = ids.at(t, k);
        rows.back().push_back(ids.width() == 2 && id == IdRows::dropped ? -1 : id);
      }
    }
    return rows;
  }

  TraceInfo info;
  std::shared_ptr<const TraceStep> step;
  Batch batch;
};

std::unique_ptr<Routing> make_routing(const std::string& text, const Recorded& recorded,
                                      MoeModel model = {}, int ep = 0,
                                      const Topology& topology = any_topology()) {
  model.top_k = recorded.info.top_k;
  const SystemSpec system = parse_system(
      "{name: t, source: test, dispatch: dedup, placement: contiguous, schedule: sequential, "
      "routing: " +
          text + "}",
      "test");
  return system.routing.make({topology, model, recorded.experts(),
                              ep == 0 ? static_cast<int>(recorded.batch.ranks.size()) : ep});
}

struct Result {
  Rows rows;
  RoutingChange change;
};

Result route(Routing& routing, const Recorded& recorded) {
  Result result;
  result.rows =
      Recorded::rows_of(routing.apply({*recorded.step, 0, recorded.batch}, result.change));
  return result;
}

Result route(const std::string& text, const Recorded& recorded, const MoeModel& model = {},
             int ep = 0) {
  return route(*make_routing(text, recorded, model, ep), recorded);
}

Recorded random_layer(std::mt19937& random, int ranks, int per_rank, int experts, int top_k,
                      bool weights) {
  const auto ids = random_ids(random, ranks * per_rank, experts, top_k);
  std::vector<float> w;
  for (std::size_t i = 0; weights && i < ids.size(); ++i) {
    w.push_back(static_cast<float>(random() % 4 + 1) / 4);  // with ties
  }
  return Recorded(experts, ranks, top_k, ids, w);
}

/// A token's places by falling weight.
std::vector<int> order_of(const Recorded& r, std::int64_t token) {
  std::vector<std::pair<float, int>> keys;
  for (int k = 0; k < r.info.top_k; ++k) {
    keys.push_back({r.step->has_weights() ? -r.step->weight(0, token, k) : 0, k});
  }
  std::sort(keys.begin(), keys.end());
  std::vector<int> order;
  for (const auto& [weight, k] : keys) order.push_back(k);
  return order;
}

TEST(Capacity, FormulasGiveThePublishedTable) {
  struct Case {
    int experts, top_k;
    double factor;
    std::int64_t mesh, flaxformer, tutel, megatron;
  };
  for (const Case& c : {Case{64, 2, 1.25, 80, 80, 160, 160}, Case{128, 1, 1.25, 40, 40, 40, 40},
                        Case{60, 4, 1.2, 81, 82, 328, 328}}) {
    const auto rows = [&](CapacityRule rule) {
      return Capacity{rule, c.factor}.rows(4096, c.experts, c.top_k);
    };
    EXPECT_EQ(rows(CapacityRule::mesh), c.mesh);
    EXPECT_EQ(rows(CapacityRule::flaxformer), c.flaxformer);
    EXPECT_EQ(rows(CapacityRule::tutel), c.tutel);
    EXPECT_EQ(rows(CapacityRule::megatron), c.megatron);
  }
  const Capacity gshard{CapacityRule::fastmoe_gshard, 1.25};
  EXPECT_EQ(gshard.rows(4096, 64, 2), 160);
  EXPECT_EQ(gshard.rows(4096, 60, 4), 341);  // 5120 x 4 div 60
  const Capacity deepspeed{CapacityRule::deepspeed, 1};
  EXPECT_EQ(deepspeed.rows(4096, 60, 4), 274);  // ceil(68.27 x 4)
  EXPECT_EQ(deepspeed.rows(16, 64, 2), 4);      // min_capacity
  const Capacity capped{CapacityRule::tutel, -1.5};
  EXPECT_EQ(capped.rows(4096, 64, 2), 192);
}

// Tokens (0,1),(0,1),(0,1),(1,0) with two places at each expert keep t0 both, t1 first, t3 first.
TEST(Capacity, FirstChoicesAreServedFirst) {
  const Recorded four(2, 1, 2, {0, 1, 0, 1, 0, 1, 1, 0});
  const auto result = route("{kind: capacity, rule: tutel, factor: 0.5}", four);
  EXPECT_EQ(result.rows, (Rows{{0, 1}, {0, -1}, {-1, -1}, {1, -1}}));
  EXPECT_EQ(result.change.dropped_choices, 4);
  EXPECT_EQ(result.change.replaced_choices, 0);
}

// Megatron-LM goes token by token: t0 and t1 take both places of both experts.
TEST(Capacity, MegatronServesTokensInOrder) {
  const Recorded four(2, 1, 2, {0, 1, 0, 1, 0, 1, 1, 0});
  EXPECT_EQ(route("{kind: capacity, rule: megatron, factor: 0.5}", four).rows,
            (Rows{{0, 1}, {0, 1}, {-1, -1}, {-1, -1}}));
}

TEST(Capacity, WeightsDecideWhereAsked) {
  // Three tokens for expert 0 with two places (ceil(3 x 1 / 2 x 1) = 2): the lightest goes.
  const Recorded three(2, 1, 1, {0, 0, 0}, {0.3F, 0.2F, 0.9F});
  const std::string rule = "{kind: capacity, rule: megatron, factor: 1, drop: ";
  EXPECT_EQ(route(rule + "weights}", three).rows, (Rows{{0}, {-1}, {0}}));
  EXPECT_EQ(route(rule + "position}", three).rows, (Rows{{0}, {0}, {-1}}));
  const Recorded bare(2, 1, 1, {0, 0, 0});
  EXPECT_THROW(route(rule + "weights}", bare), Error);
}

// For every choice: it is kept when fewer than C of its rank's choices for that expert come before.
TEST(Capacity, RandomCasesEqualAnIndependentEnumeration) {
  std::mt19937 random(11);
  const std::vector<std::string> drops = {"position", "weights", "batch-priority"};
  const std::vector<std::string> rules = {"tutel", "megatron", "deepspeed", "fastmoe-gshard"};
  int dropped = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const int top_k = static_cast<int>(1 + random() % 3);
    const int experts = top_k + static_cast<int>(random() % 4);
    const int ranks = static_cast<int>(1 + random() % 3);
    const int per_rank = static_cast<int>(1 + random() % 20);
    const bool weights = random() % 2 == 0;
    const Recorded r = random_layer(random, ranks, per_rank, experts, top_k, weights);
    const std::string drop = drops[weights ? random() % 3 : 0];
    const std::size_t rule = random() % rules.size();
    const auto result = route(
        fmt::format("{{kind: capacity, rule: {}, factor: 0.6, drop: {}}}", rules[rule], drop), r);
    const bool by_choice = rule == 0 || rule == 3 || (rule == 2 && top_k < 3);
    const std::int64_t capacity =
        Capacity{std::vector{CapacityRule::tutel, CapacityRule::megatron, CapacityRule::deepspeed,
                             CapacityRule::fastmoe_gshard}[rule],
                 0.6}
            .rows(per_rank, experts, top_k);
    Rows expected = r.rows();
    for (int rank = 0; rank < ranks; ++rank) {
      for (int e = 0; e < experts; ++e) {
        std::vector<std::tuple<double, double, int, int>> asking;  // keys, token, place
        for (int t = rank * per_rank; t < (rank + 1) * per_rank; ++t) {
          const auto order = order_of(r, t);
          for (int i = 0; i < top_k; ++i) {
            const int k = order[static_cast<std::size_t>(i)];
            if (r.step->ids(0).at(t, k) != e) continue;
            const double best = weights ? r.step->weight(0, t, order[0]) : 0;
            const double own = weights ? r.step->weight(0, t, k) : 0;
            asking.push_back({drop == "weights" || !by_choice ? 0 : i,
                              drop == "weights"    ? -own
                              : drop == "position" ? 0
                                                   : -best,
                              t, k});
          }
        }
        std::sort(asking.begin(), asking.end());
        for (std::size_t i = static_cast<std::size_t>(capacity); i < asking.size(); ++i) {
          const auto& [a, b, t, k] = asking[i];
          expected[static_cast<std::size_t>(t)][static_cast<std::size_t>(k)] = -1;
          ++dropped;
        }
      }
    }
    ASSERT_EQ(result.rows, expected) << "trial " << trial << " " << rules[rule] << " " << drop;
  }
  EXPECT_GT(dropped, 1000);
}

TEST(Capacity, ATokenHeldTwiceIsDroppedForBoth) {
  Recorded r(2, 1, 1, {0, 0, 0});
  r.batch.ranks.push_back({{2, 1}});  // token 2 once more, alone on rank 1
  const auto result = route("{kind: capacity, rule: megatron, factor: 1}", r, {}, 1);
  EXPECT_EQ(result.rows, (Rows{{0}, {0}, {-1}}));
  EXPECT_EQ(result.change.dropped_choices, 2);
}

/// Group g of 8 experts in 4 groups.
int group(int expert) { return expert / 2; }

// The kept groups have the largest scores, choices there stay, the others become the most popular
// experts there: by trying all sets of groups and sorting all experts.
TEST(GroupLimited, RandomCasesEqualAnIndependentEnumeration) {
  std::mt19937 random(12);
  int replaced = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const int top_k = static_cast<int>(2 + random() % 3);
    const int kept = 2;
    const bool weights = random() % 2 == 0;
    const bool drop = random() % 2 == 0;
    const Recorded r = random_layer(random, 2, 6, 8, top_k, weights);
    const std::string score = std::vector<std::string>{"best", "max", "sum"}[random() % 3];
    const auto result =
        route(fmt::format("{{kind: group-limited, groups: 4, kept: 2, score: {}, outside: {}}}",
                          score, drop ? "drop" : "replace"),
              r);
    std::map<int, int> load;
    for (const auto& row : r.rows()) {
      for (int e : row) ++load[e];
    }
    Rows expected = r.rows();
    for (std::size_t t = 0; t < expected.size(); ++t) {
      const auto token = static_cast<std::int64_t>(t);
      std::map<int, std::vector<double>> of_group;
      for (int k = 0; k < top_k; ++k) {
        of_group[group(expected[t][static_cast<std::size_t>(k)])].push_back(
            weights ? r.step->weight(0, token, k) : 1);
      }
      if (of_group.size() <= static_cast<std::size_t>(kept)) continue;
      std::vector<std::pair<double, int>> ranked;
      for (auto& [g, w] : of_group) {
        std::sort(w.rbegin(), w.rend());
        std::size_t n = w.size();
        if (score == "best") n = std::min(n, static_cast<std::size_t>(std::max(1, top_k / kept)));
        if (score == "max") n = 1;
        ranked.push_back({-std::accumulate(w.begin(), w.begin() + static_cast<int>(n), 0.0), g});
      }
      std::sort(ranked.begin(), ranked.end());
      const std::set<int> groups = {ranked[0].second, ranked[1].second};
      std::set<std::pair<int, int>> free;  // by falling load
      for (int e = 0; e < 8; ++e) {
        if (groups.count(group(e)) > 0) free.insert({-load[e], e});
      }
      for (int e : expected[t]) free.erase({-load[e], e});
      for (int& e : expected[t]) {
        if (groups.count(group(e)) > 0) continue;
        e = drop ? -1 : free.begin()->second;
        if (!drop) free.erase(free.begin());
        ++replaced;
      }
    }
    ASSERT_EQ(result.rows, expected) << "trial " << trial << " " << score;
  }
  EXPECT_GT(replaced, 500);
}

TEST(GroupLimited, ChangesNothingWhereTheGateWasLimited) {
  SynthOptions options;
  options.experts = 64;
  options.top_k = 6;
  options.groups = 8;
  options.kept_groups = 3;
  options.tokens = 512;
  options.skew = 0.5;
  const RoutingTrace trace = synthesize(options);
  Recorded r(64, 4, 6, std::vector<int>(512 * 6));
  r.step = trace.shared_step(0);
  MoeModel model;  // the defaults are the model's
  model.gate_groups = 8;
  model.gate_kept_groups = 3;
  const auto limited = route("group-limited", r, model);
  EXPECT_EQ(limited.rows, r.rows());
  EXPECT_EQ(limited.change.replaced_choices, 0);
  const auto tighter = route("{kind: group-limited, kept: 2}", r, model);
  EXPECT_GT(tighter.change.replaced_choices, 0);
  EXPECT_EQ(tighter.change.dropped_choices, 0);
}

// Reference oracle 4.1: distinct groups per token under the gate of DeepSeek-V3 (sum of the best
// two of 8 groups, 4 kept), simulated with uniform scores.
TEST(GroupLimited, DistinctGroupsOfUniformScoresArePublished) {
  SynthOptions options;
  options.experts = 256;
  options.top_k = 8;
  options.groups = 8;
  options.kept_groups = 4;
  options.tokens = 16000;
  const RoutingTrace trace = synthesize(options);
  const IdRows ids = trace.step(0).ids(0);
  for (const auto& [groups, expected] :
       {std::pair(4, 3.117), std::pair(8, 3.954), std::pair(16, 5.728), std::pair(32, 6.855)}) {
    std::int64_t distinct = 0;
    for (std::int64_t t = 0; t < ids.tokens(); ++t) {
      std::set<int> touched;
      for (int k = 0; k < 8; ++k) touched.insert(ids.at(t, k) / (256 / groups));
      distinct += static_cast<std::int64_t>(touched.size());
    }
    // 4 standard errors of 16,000 tokens.
    EXPECT_NEAR(static_cast<double>(distinct) / 16000, expected, 0.03) << groups;
  }
}

TEST(GroupLimited, NamesWhatCannotBe) {
  std::mt19937 random(1);
  const Recorded r = random_layer(random, 2, 2, 8, 3, false);
  EXPECT_THROW(route("group-limited", r), Error);  // the model has no groups
  EXPECT_THROW(route("{kind: group-limited, groups: 4, kept: 1}", r), Error);  // 2 experts for 3
  EXPECT_NO_THROW(route("{kind: group-limited, groups: 4, kept: 1, outside: drop}", r));
  EXPECT_THROW(route("{kind: group-limited, groups: 3, kept: 2}", r), Error);
}

// 32 experts on 32 GPUs of 4 nodes: nodes are groups of 8 consecutive experts.
TEST(NodeLimited, EqualsTheGroupLimitWhereNodesAreGroups) {
  const Topology& topology = any_topology();
  ASSERT_EQ(topology.gpu_count(), 32);
  ASSERT_EQ(topology.host_count(), 4);
  std::mt19937 random(13);
  const Recorded r = random_layer(random, 32, 8, 32, 6, true);
  const auto nodes = route("{kind: node-limited, nodes: 2}", r, {}, 32);
  const auto groups = route("{kind: group-limited, groups: 4, kept: 2}", r);
  EXPECT_EQ(nodes.rows, groups.rows);
  EXPECT_GT(nodes.change.replaced_choices, 0);
  EXPECT_EQ(route("{kind: node-limited, nodes: 4}", r, {}, 32).rows, r.rows());
}

// With ep = 16 every run spans two nodes: rank 0 may use node 0 or 1, rank 31 node 2 or 3.
TEST(NodeLimited, EveryRunHasItsOwnNodes) {
  std::mt19937 random(14);
  const Recorded r = random_layer(random, 32, 8, 32, 6, false);
  const auto result = route("{kind: node-limited, nodes: 1}", r, {}, 16);
  for (const auto& row : result.rows) {
    std::set<int> halves;
    for (int e : row) halves.insert(e / 16);
    EXPECT_EQ(halves.size(), 1u);
    EXPECT_EQ(std::set<int>(row.begin(), row.end()).size(), 6u);
  }
}

// 16 experts on 4 GPUs: the tokens visit the first GPUs of their choices by weight, keep what they
// chose there, and stay as they are where few enough are visited.
TEST(OccultPrune, TokensVisitTheFirstGpusOfTheirChoices) {
  std::mt19937 random(15);
  for (const char* by : {"similarity", "score"}) {
    const Recorded r = random_layer(random, 4, 30, 16, 4, true);
    for (int allowed = 1; allowed <= 4; ++allowed) {
      const auto result =
          route(fmt::format("{{kind: occult-prune, gpus: {}, by: {}}}", allowed, by), r);
      std::int64_t replaced = 0;
      for (std::size_t t = 0; t < result.rows.size(); ++t) {
        const auto recorded = r.rows()[t];
        std::vector<int> first;
        for (int k : order_of(r, static_cast<std::int64_t>(t))) {
          const int gpu = recorded[static_cast<std::size_t>(k)] / 4;
          if (std::find(first.begin(), first.end(), gpu) == first.end()) first.push_back(gpu);
        }
        const std::size_t visited = std::min(first.size(), static_cast<std::size_t>(allowed));
        first.resize(visited);
        const std::set<int> gpus(first.begin(), first.end());
        const std::set<int> experts(result.rows[t].begin(), result.rows[t].end());
        EXPECT_EQ(experts.size(), 4u);
        for (int e : experts) EXPECT_EQ(gpus.count(e / 4), 1u);
        for (int e : recorded) {
          if (gpus.count(e / 4) > 0) {
            EXPECT_EQ(experts.count(e), 1u);
          } else {
            ++replaced;
          }
        }
      }
      EXPECT_EQ(result.change.replaced_choices, replaced);
      EXPECT_EQ(replaced == 0, allowed == 4);
    }
  }
}

// Experts 1 and 2 (GPU 0) go with expert 4 (GPU 1): 2 oftener. Pruned to GPU 0, token {0, 4} takes
// 2 by similarity, and by score 3, which most tokens choose.
TEST(OccultPrune, SimilarityAndScoreReplaceByDifferentExperts) {
  const std::vector<int> ids = {0, 4, 2, 4, 2, 4, 1, 4, 3, 5, 3, 6, 3, 7, 3, 5};
  const Recorded r(8, 2, 2, ids);
  EXPECT_EQ(route("{kind: occult-prune, gpus: 1, by: similarity}", r).rows[0],
            (std::vector<int>{0, 2}));
  EXPECT_EQ(route("{kind: occult-prune, gpus: 1, by: score}", r).rows[0], (std::vector<int>{0, 3}));
}

// Expert 0 goes with 1 (three times), 2 (twice), then 3. With two partners, {0, 3, ...} changes.
TEST(C2R, OtherChoicesComeFromThePartnersOfTheBest) {
  const std::vector<int> ids = {0, 1, 0, 1, 0, 1, 0, 2, 0, 2, 0, 3};
  const Recorded r(4, 1, 2, ids);
  EXPECT_EQ(route("{kind: c2r, partners: 2}", r).rows,
            (Rows{{0, 1}, {0, 1}, {0, 1}, {0, 2}, {0, 2}, {0, 1}}));
  EXPECT_EQ(route("{kind: c2r, partners: 3}", r).rows, r.rows());
}

TEST(C2R, TheBestExpertNeverChangesAndAllPartnersChangeNothing) {
  std::mt19937 random(16);
  const Recorded r = random_layer(random, 4, 50, 12, 4, true);
  EXPECT_EQ(route("{kind: c2r, partners: 11}", r).rows, r.rows());
  const auto result = route("{kind: c2r, partners: 3}", r);
  EXPECT_GT(result.change.replaced_choices, 0);
  for (std::size_t t = 0; t < result.rows.size(); ++t) {
    const auto best = static_cast<std::size_t>(order_of(r, static_cast<std::int64_t>(t))[0]);
    EXPECT_EQ(result.rows[t][best], r.rows()[t][best]);
    EXPECT_EQ(std::set<int>(result.rows[t].begin(), result.rows[t].end()).size(), 4u);
  }
  EXPECT_THROW(route("{kind: c2r, partners: 2}", r), Error);  // top-4 needs three
}

// Layers keep their own profile, whatever order they come in.
TEST(C2R, AProfileIsTheFirstStepsAlone) {
  const Recorded first(3, 1, 2, {0, 1, 0, 1, 0, 2});
  const Recorded second(3, 1, 2, {0, 2, 0, 2, 0, 1});
  const auto c2r = make_routing("{kind: c2r, partners: 1}", first);
  EXPECT_EQ(route(*c2r, first).rows, (Rows{{0, 1}, {0, 1}, {0, 1}}));
  EXPECT_EQ(route(*c2r, second).rows, (Rows{{0, 1}, {0, 1}, {0, 1}}));
}

}  // namespace
}  // namespace moesim
