// SPDX-License-Identifier: Apache-2.0
// Limits hold whatever places the experts: no token reaches the experts of more GPUs, nodes or
// groups than its policy allows, on any placement, topology and trace, and every token and byte
// arrives.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "sim/scenario/proof.h"
#include "tests/scenario/link_bytes.h"
#include "tests/scenario/traces.h"
#include "tests/trace/synthesize.h"

namespace moesim {
namespace {

/// Where a choice is served, counted as its rule counts.
using PlaceOf = std::function<int(ExpertId, GpuId)>;

/// Most places that serve the choices of one token.
std::size_t most_visited(const LayerRouting& layer, const PlaceOf& place_of) {
  AssignmentWalk walk(*layer.assignment);
  std::size_t most = 0;
  for (std::size_t t = 0; t < layer.source.size(); ++t) {
    std::set<int> places;
    for (const ExpertId e : layer.chosen[t]) {
      if (e.value < 0) continue;
      const SlotId slot = walk.next(layer.source[t], e);
      places.insert(place_of(e, layer.assignment->placement().gpu_of(slot)));
    }
    most = std::max(most, places.size());
  }
  return most;
}

/// Traces of 32 experts, top-3 that a test draws: even, skewed, and with communities; two steps,
/// whose sequences are played several times.
const RoutingTrace& drawn(int kind) {
  static const std::vector<RoutingTrace> traces = [] {
    std::vector<RoutingTrace> all;
    for (int k = 0; k < 3; ++k) {
      SynthOptions options;
      options.experts = 32;
      options.top_k = 3;
      options.layers = {0, 1};
      options.tokens = 32;
      options.sequences = 8;
      options.steps = 2;
      options.skew = k == 1 ? 1.2 : 0;
      options.affinity = k == 2 ? 0.7 : 0;
      options.drift = 0.3;
      options.seed = static_cast<std::uint64_t>(k + 1);
      all.push_back(synthesize(options));
    }
    return all;
  }();
  return traces[static_cast<std::size_t>(kind)];
}

MoeModel small_model() {
  MoeModel model;
  model.hidden = 128;
  model.experts = 32;
  model.top_k = 3;
  model.expert_ffn = 64;
  model.layers = 2;
  model.moe_layers = {0, 1};
  return model;
}

/// A rule, what it allows, and whether of GPUs or of nodes.
struct Rule {
  std::string routing;
  std::size_t allowed;
  bool nodes;
};

const std::vector<Rule> rules = {
    {"{kind: occult-prune, gpus: 1}", 1, false},
    {"{kind: occult-prune, gpus: 2}", 2, false},
    {"{kind: occult-prune, gpus: 2, by: score}", 2, false},
    {"{kind: node-limited, nodes: 1}", 1, true},
    {"{kind: gpu-limited, gpus: 2}", 2, false},
};

/// Whether its placement decides from a profile, here of one step.
bool is_profiled(const std::string& policy) {
  const std::string kind = read_system(data_file("models/system", policy)).placement.name;
  return kind == "occult" || kind == "exflow" || kind == "moetuner";
}

class VisitedGpus : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(VisitedGpus, AreAtMostThoseAllowed) {
  const auto& [policy, cluster] = GetParam();
  const Topology& topology = shipped_topology(cluster);
  const MoeModel model = small_model();
  int planned_steps = 0;
  for (int kind = 0; kind < 3; ++kind) {
    const RoutingTrace& trace = drawn(kind);
    const Batches batches = make_batches(trace, {topology.gpu_count(), 8, 16});
    for (const Rule& rule : rules) {
      std::vector<Override> changes = {parse_override("routing=" + rule.routing)};
      if (is_profiled(policy)) changes.push_back(parse_override("placement.profile=1"));
      const SystemSpec system = read_system(data_file("models/system", policy), changes);
      PlannerOptions options{std::min(8, topology.gpu_count()), {0, 1}, true, true};
      options.batches = batches.batches;
      try {
        Planner planner(system, topology, model, trace, options);
        for (int s = 0; s < 2; ++s) {
          const Batch& batch = batches.batches[static_cast<std::size_t>(s)];
          const PlannedStep planned = planner.plan(batch, s);
          for (const LayerRouting& layer : routing_of(planned)) {
            const auto place_of = [&](ExpertId, GpuId gpu) {
              return rule.nodes ? topology.host_of(gpu) : gpu.value;
            };
            ASSERT_LE(most_visited(layer, place_of), rule.allowed) << rule.routing << " step " << s;
          }
          prove_delivery(planned);
          expect_links_carry(PricedPlan(planned.plan, topology), topology);
          ++planned_steps;
        }
      } catch (const Unsuitable& refusal) {
        EXPECT_FALSE(std::string(refusal.what()).empty());
      }
    }
  }
  if (planned_steps == 0) GTEST_SKIP() << "the cluster does not suit the policy";
}

INSTANTIATE_TEST_SUITE_P(All, VisitedGpus,
                         testing::Combine(testing::ValuesIn(data_names("models/system")),
                                          testing::Values("occult-a6000", "hybridep-s",
                                                          "hybridep-m")),
                         [](const auto& one) {
                           std::string name = std::get<0>(one.param) + "_" + std::get<1>(one.param);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

/// A shipped policy that keeps tokens to few places, and to how many; 0: the fewest GPUs that hold
/// as many experts as a token chooses. `groups`: of experts, if not GPUs are counted.
struct Pruned {
  std::string policy;
  std::size_t allowed;
  int groups;
  std::vector<std::string> changes;  // so that its placement decides before the second step
};

const std::vector<Pruned> pruned_policies = {
    {"occult-pruned", 2, 0, {"placement.profile=1"}},
    {"dynamic-grouping-interpretation", 0, 0, {"placement.interval=1"}},
    {"st-moe", 2, 8, {}},
};

TEST(PrunedPolicies, AreAllThatLimitPlaces) {
  const std::set<std::string> limits = {"occult-prune", "gpu-limited", "node-limited",
                                        "group-limited"};
  std::set<std::string> shipped, tested;
  for (const std::string& name : data_names("models/system")) {
    if (limits.count(read_system(data_file("models/system", name)).routing.name) != 0) {
      shipped.insert(name);
    }
  }
  for (const Pruned& pruned : pruned_policies) tested.insert(pruned.policy);
  EXPECT_EQ(shipped, tested);
}

/// What a policy is shown: a committed or public trace with its model, or a drawn one.
struct Shown {
  const RoutingTrace& trace;
  MoeModel model;
};

std::vector<Shown> all_shown() {
  std::vector<Shown> all;
  for (int kind = 0; kind < 3; ++kind) all.push_back({drawn(kind), small_model()});
  for (const TraceCase& known : trace_cases) {
    const auto& trace = open_trace(known.name);
    if (trace) all.push_back({*trace, read_moe_model(data_file("models/moe", known.model))});
  }
  return all;
}

/// The smallest repeat that gives every rank eight tokens.
Batches eight_tokens_each(const RoutingTrace& trace, int ranks) {
  for (int repeat = 1;; repeat *= 2) {
    try {
      return make_batches(trace, {ranks, 8, repeat});
    } catch (const Error&) {
      if (repeat > 4096) throw;
    }
  }
}

class PrunedEverywhere : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  /// Plans two steps, the second with what was learnt from the first; how many choices changed.
  std::int64_t check(const Pruned& pruned, const Topology& topology, const Shown& shown) {
    const bool large = topology.gpu_count() > 256;
    const int ep = default_ep(topology.gpu_count(), 8);
    const Batches batches = eight_tokens_each(shown.trace, topology.gpu_count());
    PlannerOptions options{ep, {0}, !large, true};
    options.batches = batches.batches;
    std::vector<Override> changes;
    for (const std::string& change : pruned.changes) changes.push_back(parse_override(change));
    Planner planner(read_system(data_file("models/system", pruned.policy), changes), topology,
                    shown.model, shown.trace, options);
    const int experts = shown.trace.info().experts;
    const int each = experts / ep;
    const int fewest = (shown.trace.info().top_k + each - 1) / each;
    const std::size_t allowed =
        pruned.allowed != 0 ? pruned.allowed : static_cast<std::size_t>(fewest);
    std::int64_t replaced = 0;
    for (int s = 0; s < 2; ++s) {
      const PlannedStep planned = planner.plan(batches.batches[static_cast<std::size_t>(s)], s);
      for (const LayerRouting& layer : routing_of(planned)) {
        EXPECT_LE(most_visited(layer,
                               [&](ExpertId e, GpuId gpu) {
                                 return pruned.groups != 0 ? e.value * pruned.groups / experts
                                                           : gpu.value;
                               }),
                  allowed);
      }
      replaced += planned.change.replaced_choices;
      prove_delivery(planned);
      expect_links_carry(PricedPlan(planned.plan, topology), topology);
    }
    return replaced;
  }
};

TEST_P(PrunedEverywhere, TokensVisitAtMostThePlacesAllowed) {
  const auto& [policy, cluster] = GetParam();
  const auto pruned = std::ranges::find(pruned_policies, policy, &Pruned::policy);
  for (const Shown& shown : all_shown()) {
    SCOPED_TRACE(shown.trace.info().name);
    try {
      EXPECT_GT(check(*pruned, shipped_topology(cluster), shown), 0);
    } catch (const Unsuitable& refusal) {
      GTEST_SKIP() << refusal.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, PrunedEverywhere,
    testing::Combine(testing::Values("occult-pruned", "dynamic-grouping-interpretation", "st-moe"),
                     testing::ValuesIn(data_names("topologies"))),
    [](const auto& one) {
      std::string name = std::get<0>(one.param) + "_" + std::get<1>(one.param);
      std::ranges::replace(name, '-', '_');
      return name;
    });

}  // namespace
}  // namespace moesim
