// SPDX-License-Identifier: Apache-2.0
// What every placement must keep to: slots, memory, bytes, no look into the future, no chance.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "sim/plan/text.h"
#include "sim/trace/memory_step.h"
#include "tests/scenario/traces.h"

namespace moesim {
namespace {

constexpr int steps = 7;
constexpr int perturbed_from = 5;

/// The first recorded steps of a trace; from one on every expert e is taken for e + 11.
RoutingTrace changed(const RoutingTrace& trace, int from) {
  const TraceInfo info = trace.info();
  std::vector<std::shared_ptr<const TraceStep>> copies;
  for (int s = 0; s < steps; ++s) {
    const TraceStep& step = trace.step(s);
    std::vector<int> ids;
    for (std::size_t layer = 0; layer < info.layers.size(); ++layer) {
      const IdRows rows = step.ids(static_cast<int>(layer));
      for (std::int64_t t = 0; t < rows.tokens(); ++t) {
        for (int k = 0; k < rows.top_k(); ++k) {
          ids.push_back(s < from ? rows.at(t, k) : (rows.at(t, k) + 11) % info.experts);
        }
      }
    }
    StepArrays arrays;
    arrays.number = step.number();
    arrays.ids = IdArray(info.experts, ids);
    const auto lengths = step.sequence_lengths();
    arrays.sequence_lengths.assign(lengths.begin(), lengths.end());
    copies.push_back(make_step(info, std::move(arrays)));
  }
  return RoutingTrace(info, std::move(copies));
}

/// One policy on one cluster: the plans of the first steps of a trace, without those of a warm-up.
struct PlannedRun {
  std::vector<PlannedStep> plans;
  bool suitable = false;
};

PlannedRun run(const std::string& policy, const std::string& cluster, const RoutingTrace& trace,
               int warmup = 0) {
  const Topology& topology = shipped_topology(cluster);
  static const MoeModel model = read_moe_model(data_file("models/moe", "gpt-oss-20b"));
  const int sequences = static_cast<int>(trace.step(0).sequence_lengths().size());
  const int repeat = (topology.gpu_count() + sequences - 1) / sequences;
  const Batches batches = make_batches(trace, {topology.gpu_count(), std::nullopt, repeat});
  PlannerOptions options;
  options.ep = default_ep(topology.gpu_count(), trace.info().experts);
  options.layers = {0, 1};
  options.warmup = std::span(batches.batches).first(static_cast<std::size_t>(warmup));
  options.batches = std::span(batches.batches).subspan(static_cast<std::size_t>(warmup));
  options.first_step = warmup;
  auto planner = make_planner(policy, topology, model, trace, options);
  PlannedRun result;
  if (!planner) return result;
  result.suitable = true;
  for (int s = warmup; s < steps; ++s) {
    auto planned = plan_step(*planner, batches.batches[static_cast<std::size_t>(s)], s);
    if (!planned) return {};
    result.plans.push_back(std::move(*planned));
  }
  return result;
}

/// The run of a committed trace without a warm-up, planned once for all tests.
const PlannedRun& recorded_run(const std::string& policy, const std::string& cluster) {
  static std::map<std::pair<std::string, std::string>, PlannedRun> kept;
  const auto known = kept.find({policy, cluster});
  if (known != kept.end()) return known->second;
  return kept[{policy, cluster}] = run(policy, cluster, *open_trace("tiny-moe-train"));
}

/// Whose texts are written only where they differ: that takes longer than planning.
void expect_same_plan(const PlannedStep& a, const PlannedStep& b, std::size_t step) {
  EXPECT_TRUE(a.plan == b.plan) << "step " << step << "\n"
                                << to_text(a.plan) << "\nis not\n"
                                << to_text(b.plan);
}

/// Whether slots depend on the routing of the very step.
bool reacts(const std::string& policy, const std::string& cluster) {
  const Topology& topology = shipped_topology(cluster);
  static const MoeModel model = read_moe_model(data_file("models/moe", "gpt-oss-20b"));
  const int ep = default_ep(topology.gpu_count(), model.experts);
  const auto none = [&](int, int) {
    return std::vector{LoadMatrix(topology.gpu_count(), model.experts)};
  };
  return read_system(data_file("models/system", policy))
      .placement
      .make({EpGroups(topology, ep), model, model.experts, 2, true, {}, 0, 1, none, {}, policy})
      ->reacts();
}

bool is_oracle(const std::string& policy) {
  return policy == "static-best" || policy == "clairvoyant";
}

std::vector<std::string> moving_policies() {
  std::vector<std::string> names = data_names("models/system");
  std::erase_if(names, is_static);
  return names;
}

class PlacementProperties : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  const std::string& policy() const { return std::get<0>(GetParam()); }
  const std::string& cluster() const { return std::get<1>(GetParam()); }
  static const RoutingTrace& trace() { return *open_trace("tiny-moe-train"); }
};

TEST_P(PlacementProperties, TheFutureChangesNothing) {
  if (is_oracle(policy())) GTEST_SKIP() << "an oracle knows the future";
  static const RoutingTrace same_steps = changed(trace(), steps),
                            others_later = changed(trace(), perturbed_from);
  const PlannedRun as_recorded = run(policy(), cluster(), same_steps);
  if (!as_recorded.suitable) GTEST_SKIP() << "the cluster does not suit the policy";
  const PlannedRun other = run(policy(), cluster(), others_later);
  // A planner that reacts within the step may differ in the first step that does.
  const int same = perturbed_from + (reacts(policy(), cluster()) ? 0 : 1);
  for (int s = 0; s < same; ++s) {
    const auto index = static_cast<std::size_t>(s);
    for (std::size_t layer = 0; layer < 2; ++layer) {
      const auto& a = as_recorded.plans[index].layers[layer].assignment().placement();
      const auto& b = other.plans[index].layers[layer].assignment().placement();
      EXPECT_EQ(a.table(), b.table()) << "step " << s << " layer " << layer;
    }
    if (s < perturbed_from) {
      expect_same_plan(as_recorded.plans[index], other.plans[index], index);
    }
  }
}

TEST_P(PlacementProperties, TheSameInputsGiveTheSamePlans) {
  const PlannedRun& first = recorded_run(policy(), cluster());
  if (!first.suitable) GTEST_SKIP() << "the cluster does not suit the policy";
  const PlannedRun second = run(policy(), cluster(), trace());
  for (std::size_t s = 0; s < steps; ++s) {
    expect_same_plan(first.plans[s], second.plans[s], s);
  }
}

TEST_P(PlacementProperties, AWarmUpLeavesPlannersAsIfItsStepsHadRun) {
  if (is_oracle(policy())) GTEST_SKIP() << "an oracle is of the counted steps";
  const PlannedRun& whole = recorded_run(policy(), cluster());
  if (!whole.suitable) GTEST_SKIP() << "the cluster does not suit the policy";
  const PlannedRun counted = run(policy(), cluster(), trace(), 3);
  for (std::size_t s = 3; s < steps; ++s) {
    expect_same_plan(whole.plans[s], counted.plans[s - 3], s);
  }
}

TEST_P(PlacementProperties, SlotsMemoryAndMovesAreSound) {
  const PlannedRun& result = recorded_run(policy(), cluster());
  if (!result.suitable) GTEST_SKIP() << "the cluster does not suit the policy";
  const auto gpus = static_cast<std::size_t>(shipped_topology(cluster()).gpu_count());
  for (const PlannedStep& step : result.plans) {
    ASSERT_EQ(step.memory.peaks.size(), gpus);
    for (const MemoryPeak& gpu : step.memory.peaks) {
      EXPECT_GE(gpu.use.of(MemoryPart::weights).value, 0);
      EXPECT_GE(gpu.use.of(MemoryPart::gathered).value, 0);
      EXPECT_GT(gpu.use.total().value, 0);
    }
    for (const LayerWork& layer : step.layers) {
      const Placement& placement = layer.assignment().placement();
      for (int e = 0; e < placement.experts(); ++e) {
        EXPECT_FALSE(placement.slots_of(ExpertId(e)).empty());
      }
      for (const auto* moves : {&layer.decision.migrate, &layer.decision.gather,
                                &layer.decision.regather, &layer.decision.reduce}) {
        for (const ParamExchange& move : *moves) {
          EXPECT_EQ(static_cast<std::size_t>(move.traffic.ranks()), gpus) << move.name;
          EXPECT_EQ(move.traffic.total(), move.traffic.transposed().total()) << move.name;
        }
      }
      // Every choice is computed once.
      std::int64_t choices = 0, computed = 0;
      for (const std::int64_t n : layer.counts.slots) computed += n;
      for (const std::int64_t n : layer.tokens_per_rank) choices += n * 4;
      if (step.change.dropped_choices == 0) {
        EXPECT_EQ(computed, choices);
      }
      EXPECT_LE(computed, choices);
    }
  }
}

/// Three of different kinds; with MOESIM_ALL_TOPOLOGIES set, all that are shipped.
std::vector<std::string> clusters() {
  if (std::getenv("MOESIM_ALL_TOPOLOGIES") != nullptr) return data_names("topologies");
  return {"h100-rail", "hiermoe-a6000", "laer-a100"};
}

INSTANTIATE_TEST_SUITE_P(All, PlacementProperties,
                         testing::Combine(testing::ValuesIn(moving_policies()),
                                          testing::ValuesIn(clusters())),
                         [](const auto& one) {
                           std::string name = std::get<0>(one.param) + "_" + std::get<1>(one.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace moesim
