// SPDX-License-Identifier: Apache-2.0
// Tokens that may visit few groups of experts or few nodes, by enumeration and published counts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "tests/mechanism/routing/recorded_layer.h"
#include "tests/trace/synthesize.h"

namespace moesim {
namespace {

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

// 64 experts in 8 groups, two kept: a two-stage gate scores 8 groups, then 2 x 8 experts.
TEST(GroupLimited, ATwoStageGateScoresGroupsAndTheMembersOfTheKeptOnes) {
  std::mt19937 random(3);
  const Recorded r = random_layer(random, 4, 2, 64, 4, true);
  const std::string groups = "{kind: group-limited, groups: 8, kept: 2, score: sum, gate: ";
  EXPECT_EQ(make_routing(groups + "two-stage}", r)->gate_outputs(), 8 + 2 * 8);
  EXPECT_EQ(make_routing(groups + "full}", r)->gate_outputs(), 0);
  EXPECT_EQ(route(groups + "two-stage}", r).rows, route(groups + "full}", r).rows);
  // All groups kept is plain top-k.
  EXPECT_EQ(route("{kind: group-limited, groups: 8, kept: 8, gate: two-stage}", r).rows, r.rows());
  // Four GPUs of 16 experts; one holds a token's four choices.
  EXPECT_EQ(make_routing("{kind: gpu-limited, gate: two-stage}", r, {}, 4)->gate_outputs(), 4 + 16);
}

// 16 experts on four GPUs: by default a token with six choices uses the two GPUs that it takes.
TEST(GpuLimited, KeepsTheFewestGpusThatHoldTheChoices) {
  std::mt19937 random(4);
  const Recorded r = random_layer(random, 4, 30, 16, 6, true);
  const auto result = route("gpu-limited", r);
  EXPECT_GT(result.change.replaced_choices, 0);
  for (const auto& row : result.rows) {
    std::set<int> gpus;
    for (int e : row) gpus.insert(e / 4);
    EXPECT_EQ(gpus.size(), 2u);
    EXPECT_EQ(std::set<int>(row.begin(), row.end()).size(), 6u);
  }
  EXPECT_EQ(result.rows, route("{kind: group-limited, groups: 4, kept: 2}", r).rows);
  EXPECT_EQ(route("{kind: gpu-limited, gpus: 4}", r).rows, r.rows());
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

TEST(InTurn, TokensTakeTheExpertsAfterThoseOfTheTokenBefore) {
  const Recorded r(8, 2, 3, {0, 1, 2, 5, 4, 3, 7, 6, 0, 2, 1, 0});
  const auto result = route("in-turn", r);
  EXPECT_EQ(result.rows, (Rows{{0, 1, 2}, {3, 4, 5}, {6, 7, 0}, {1, 2, 3}}));
  EXPECT_EQ(result.change.replaced_choices, 1);  // the last token's 3; no expert is there twice
}

}  // namespace
}  // namespace moesim
