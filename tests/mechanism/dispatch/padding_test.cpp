// SPDX-License-Identifier: Apache-2.0
// Capacity padding: parts of equal size on the wire and in the experts.
#include "sim/mechanism/dispatch/padding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "sim/planner/iteration/planner.h"
#include "tests/error_of.h"
#include "tests/mechanism/random_layers.h"

namespace moesim {
namespace {

using Wire = std::vector<std::uint32_t>;

/// The largest load of any (rank, slot), run by run.
std::vector<std::int64_t> largest_loads(const RandomLayer& layer) {
  std::map<std::pair<int, std::int64_t>, std::int64_t> loads;
  for (int t = 0; t < layer.token_count(); ++t) {
    for (int k = 0; k < layer.top_k; ++k) ++loads[{layer.source(t), layer.slot(t, k).value}];
  }
  std::vector<std::int64_t> largest(static_cast<std::size_t>(layer.shape.ranks() / layer.shape.ep));
  for (const auto& [key, load] : loads) {
    auto& of_run = largest[static_cast<std::size_t>(key.first / layer.shape.ep)];
    of_run = std::max(of_run, load);
  }
  return largest;
}

/// Where the rows of a (rank, slot) pass, phase by phase, by arithmetic.
std::vector<int> route(const std::string& kind, int source, int target, int node_size) {
  const auto in_node = [&](int node_of, int index_of) {
    return node_of / node_size * node_size + index_of % node_size;
  };
  if (kind == "padded") return {source, target};
  if (kind == "intra-first") return {source, in_node(source, target), target};
  return {source, in_node(target, source), target};
}

// Random layers, replicas and split assignments included: every rank sends every slot of its run
// as many rows as the fullest part has, on the way of the dispatch, and every slot computes them.
TEST(Padding, RandomCasesEqualAnIndependentEnumeration) {
  std::mt19937 random(21);
  int padded = 0;
  for (int trial = 0; trial < 600; ++trial) {
    const RandomLayer layer(random);
    const Shape& shape = layer.shape;
    const bool two_hops = shape.gpus > 1 && shape.ep > shape.gpus;
    const std::string kind =
        two_hops ? std::vector<std::string>{"padded", "intra-first", "inter-first"}[random() % 3]
                 : "padded";
    const auto dispatch = layer.dispatch(
        kind == "padded" ? kind : fmt::format("{{kind: two-hop, order: {}, padding: max}}", kind));
    const RowCounts counts = dispatch->count(layer.tokens.view());
    const auto rows = largest_loads(layer);
    const Placement& placement = layer.tokens.assignment.placement();
    const auto n = static_cast<std::size_t>(shape.ranks());
    std::vector<Wire> wire(kind == "padded" ? 1 : 2, Wire(n * n));
    std::vector<std::int64_t> computed(static_cast<std::size_t>(placement.slots()));
    for (int source = 0; source < shape.ranks(); ++source) {
      for (int s = 0; s < placement.slots(); ++s) {
        const int target = static_cast<int>(placement.gpu_of(SlotId(s)).value);
        if (target / shape.ep != source / shape.ep) continue;
        const auto part = rows[static_cast<std::size_t>(source / shape.ep)];
        const auto way = route(kind, source, target, shape.gpus);
        for (std::size_t p = 0; p + 1 < way.size(); ++p) {
          wire[p][static_cast<std::size_t>(way[p]) * n + static_cast<std::size_t>(way[p + 1])] +=
              static_cast<std::uint32_t>(part);
        }
        computed[static_cast<std::size_t>(s)] += part;
        padded += part > 0 ? 1 : 0;
      }
    }
    ASSERT_EQ(counts.padded_slots, computed) << "trial " << trial << " " << kind;
    ASSERT_EQ(counts.phases.size(), wire.size());
    ASSERT_EQ(counts.padded_phases.size(), wire.size());
    for (std::size_t p = 0; p < wire.size(); ++p) {
      ASSERT_EQ(counts.padded_phases[p], wire[p]) << "trial " << trial << " " << kind;
      for (std::size_t i = 0; i < n * n; ++i) ASSERT_LE(counts.phases[p][i], wire[p][i]);
    }
    if (layer.token_count() > 0 && trial % 6 == 0) prove(*dispatch, layer);
  }
  EXPECT_GT(padded, 10000);
}

// 4 ranks, 4 experts, 4 tokens a rank, top-1: a part has 1 x int(f x ceil(4 / 4)) rows.
Tokens four_each(const std::vector<int>& ids) { return Tokens(4, 4, 1, 4, ids, 4); }
const std::vector<int> balanced = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3};
const std::vector<int> many_to_one = {0, 0, 0, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3};

// Every pair of a communicator gets the rows of the fullest pair of its phase and EP group, all
// others none; exact rows, and what experts compute, stay.
TEST(Padding, PhasesOfEqualParts) {
  std::mt19937 random(22);
  int checked = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const RandomLayer layer(random);
    const Shape& shape = layer.shape;
    if (shape.gpus == 1 || shape.ep <= shape.gpus) continue;
    const RowCounts exact =
        layer.dispatch("{kind: hierarchical, depth: 2}")->count(layer.tokens.view());
    const auto padded = layer.dispatch("{kind: hierarchical, depth: 2, padding: max}");
    const RowCounts counts = padded->count(layer.tokens.view());
    EXPECT_EQ(counts.phases, exact.phases);
    EXPECT_EQ(counts.computed(), exact.computed());
    ASSERT_EQ(counts.padded_phases.size(), 2u);
    const auto n = static_cast<std::size_t>(shape.ranks()), ep = static_cast<std::size_t>(shape.ep),
               node = static_cast<std::size_t>(shape.gpus);
    for (std::size_t p = 0; p < 2; ++p) {
      std::vector<std::uint32_t> most(n / ep);
      for (std::size_t pair = 0; pair < n * n; ++pair) {
        std::uint32_t& of_group = most[pair / n / ep];
        of_group = std::max(of_group, exact.phases[p][pair]);
      }
      for (std::size_t pair = 0; pair < n * n; ++pair) {
        const std::size_t from = pair / n, to = pair % n;
        const bool among =
            from / ep == to / ep && (p == 0 ? from % node == to % node : from / node == to / node);
        EXPECT_EQ(counts.padded_phases[p][pair], among ? most[from / ep] : 0u);
      }
    }
    ++checked;
  }
  EXPECT_GT(checked, 20);
}

TEST(Padding, CapacityFixesTheParts) {
  const auto dispatch =
      make_dispatch("{kind: padded, padding: capacity, factor: 2}", any_topology(), 4);
  const auto counts = dispatch->count(four_each(balanced).view());
  EXPECT_EQ(counts.padded_phases[0], Wire(16, 2));
  EXPECT_EQ(counts.padded_slots, (std::vector<std::int64_t>(4, 8)));
  EXPECT_EQ(counts.phases[0], Wire(16, 1));
  EXPECT_EQ(counts.slots, (std::vector<std::int64_t>(4, 4)));
}

TEST(Padding, ANegativeFactorCapsTheLargestLoad) {
  const auto dispatch =
      make_dispatch("{kind: padded, padding: capacity, factor: -2}", any_topology(), 4);
  EXPECT_EQ(dispatch->count(four_each(balanced).view()).padded_phases[0], Wire(16, 1));
  EXPECT_THROW(dispatch->count(four_each(many_to_one).view()), Error);  // 3 choices, at most 2
}

TEST(Padding, ChoicesBeyondTheCapacityAreAnErrorThatNamesThem) {
  const auto dispatch =
      make_dispatch("{kind: padded, padding: capacity, factor: 2}", any_topology(), 4);
  try {
    dispatch->count(four_each(many_to_one).view());
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "error: rank 0 has 3 choices for expert 0, but the capacity is 2 rows\n"
                 "hint: routing: {kind: capacity} and the dispatch need the same rule and factor: "
                 "change policy.dispatch.factor as policy.routing.factor; or set "
                 "policy.dispatch.padding: max\n");
  }
  const auto dropless = make_dispatch("padded", any_topology(), 4);
  EXPECT_EQ(dropless->count(four_each(many_to_one).view()).padded_phases[0], Wire(16, 3));
}

TEST(Padding, ParametersWithoutEffectAreErrors) {
  EXPECT_THROW(make_dispatch("{kind: padded, factor: 1}"), Error);
  EXPECT_THROW(make_dispatch("{kind: padded, padding: none}"), Error);
  EXPECT_THROW(make_dispatch("{kind: padded, padding: capacity}"), Error);
  EXPECT_THAT(error_of([] { make_dispatch("{kind: padded, padding: capacity, factor: 0}"); }),
              testing::HasSubstr("'dispatch.factor' of 0 fixes no capacity\n"));
  EXPECT_THROW(make_dispatch("{kind: padded, padding: capacity, rule: mesh, factor: -1}"), Error);
  EXPECT_THROW(make_dispatch("{kind: two-hop, factor: 1}"), Error);
}

/// A plan of one layer by routing and dispatch of the given texts, proven to deliver.
PlannedStep proven_plan(const std::string& routing, const std::string& dispatch,
                        const Topology& topology, const Tokens& tokens, const MoeModel& model) {
  const SystemSpec system = parse_system(
      fmt::format("{{name: t, source: test, routing: {}, placement: contiguous, schedule: "
                  "sequential, dispatch: {}}}",
                  routing, dispatch),
      "test");
  const RoutingTrace trace(tokens.info, {tokens.step});
  PlannerOptions options;
  options.ep = topology.gpu_count();
  options.layers = {0};
  options.explicit_rows = true;
  Planner planner(system, topology, model, trace, options);
  PlannedStep planned = planner.plan(tokens.batch, 0);
  LayerRouting layer{0, {}, planned.layers[0].chosen, &planned.layers[0].assignment()};
  for (std::size_t r = 0; r < tokens.batch.ranks.size(); ++r) {
    for (std::int64_t t = 0; t < tokens.batch.ranks[r][0].count; ++t) {
      layer.source.emplace_back(static_cast<std::int64_t>(r));
    }
  }
  check_delivery(planned.plan, {layer});
  return planned;
}

// Skewed tokens through a capacity of the dispatch's own rule: what is left is delivered, in parts
// that are all equal.
TEST(Padding, WhatACapacityLeavesIsDelivered) {
  const Topology topology = bare_nodes(2, 4);
  std::mt19937 random(22);
  MoeModel model;
  model.hidden = 64;
  model.experts = 16;
  model.top_k = 3;
  model.expert_ffn = 8;
  std::vector<int> ids;
  for (int t = 0; t < 8 * 12; ++t) {  // expert 0 for everybody
    const int a = static_cast<int>(1 + random() % 7), b = static_cast<int>(8 + random() % 8);
    ids.insert(ids.end(), {0, a, b});
  }
  const Tokens tokens(8, 16, 3, 12, ids, 8);
  for (const char* kind : {"padded", "two-hop", "two-hop, order: inter-first", "tutel"}) {
    for (const char* rule : {"tutel", "deepspeed", "megatron"}) {
      const PlannedStep planned = proven_plan(
          fmt::format("{{kind: capacity, rule: {}, factor: 1.5}}", rule),
          fmt::format("{{kind: {}, padding: capacity, rule: {}, factor: 1.5}}", kind, rule),
          topology, tokens, model);
      EXPECT_GT(planned.change.dropped_choices, 0) << kind << " " << rule;
      EXPECT_EQ(planned.change.replaced_choices, 0);
      const RowCounts& counts = planned.layers[0].counts;
      EXPECT_EQ(
          std::set<std::int64_t>(counts.padded_slots.begin(), counts.padded_slots.end()).size(),
          1u);
      EXPECT_EQ(std::accumulate(counts.slots.begin(), counts.slots.end(), std::int64_t{0}),
                8 * 12 * 3 - planned.change.dropped_choices);
    }
  }
}

// A gate of one choice: the capacity counts that, and not the choices that the trace has.
TEST(Padding, CapacityCountsTheChoicesOfTheGate) {
  const Topology topology = bare_nodes(1, 4);
  std::mt19937 random(23);
  MoeModel model;
  model.hidden = 64;
  model.experts = 8;
  model.top_k = 3;
  model.expert_ffn = 8;
  const Tokens tokens(4, 8, 3, 16, random_ids(random, 4 * 16, 8, 3), 4);
  for (const int choices : {1, 2, 3}) {
    const PlannedStep planned = proven_plan(
        fmt::format("{{kind: capacity, rule: tutel, factor: 1, choices: {}}}", choices),
        "{kind: padded, padding: capacity, rule: tutel, factor: 1}", topology, tokens, model);
    // k x ceil(16 / 8) rows from each of four ranks.
    EXPECT_THAT(planned.layers[0].counts.padded_slots, testing::Each(4 * choices * 2));
  }
}

// More slots than ids of two bytes tell apart.
TEST(Padding, CountsAnyNumberOfSlots) {
  constexpr int gpus = 4, per_gpu = 20'000, experts = 8;
  SlotTable table(gpus);
  for (int g = 0; g < gpus; ++g) {
    for (int s = 0; s < per_gpu; ++s) table[static_cast<std::size_t>(g)].emplace_back(s % experts);
  }
  Tokens tokens(gpus, experts, 1, 2, {0, 1, 2, 3, 4, 5, 6, 7}, gpus);
  tokens.assignment = Assignment(Placement(experts, table), gpus);
  const auto dispatch = make_dispatch("padded", bare_nodes(1, gpus), gpus);
  const RowCounts counts = dispatch->count(tokens.view());
  ASSERT_EQ(counts.padded_slots.size(), std::size_t{gpus} * per_gpu);
  EXPECT_THAT(counts.padded_slots, testing::Each(gpus));
  for (std::size_t pair = 0; pair < 16; ++pair) {
    EXPECT_EQ(counts.padded_phases.at(0)[pair], per_gpu) << pair;
  }
}

}  // namespace
}  // namespace moesim
