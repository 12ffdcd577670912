// SPDX-License-Identifier: Apache-2.0
// Scenarios that plan alike share plans, and get what they would get by themselves.

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "sim/run/runs_on.h"
#include "sim/sweep/unit.h"

namespace moesim {
namespace {

SweepGrid bandwidths_of(const std::string& policies) {
  return SweepGrid::parse(
      "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\n"
      "layers: recorded\nsteps: 0:2\ntokens_per_rank: 16\naxes:\n"
      "  policy: " +
          policies +
          "\n"
          "  topology.nodes: [2, 4]\n"
          "  topology.node.nics.bandwidth: [10 GB/s, 50 GB/s, 100 GB/s]\n"
          "  topology.node.nics.latency: [1 us, 9 us]\n",
      "grid.yaml", {});
}

TEST(KeptPlans, GiveTheFiguresOfPlansOfTheirOwn) {
  const SweepGrid grid = bandwidths_of("[alltoall, eplb, hiermoe-hd, hybridep-exact]");
  UnitRunner all(grid, "v");
  for (std::int64_t unit = 0; unit < grid.units(); ++unit) {
    UnitRunner only(grid, "v");
    const auto shared = all.run(unit), own = only.run(unit);
    ASSERT_EQ(shared.size(), own.size());
    for (std::size_t r = 0; r < own.size(); ++r) {
      EXPECT_EQ(shared[r].state, own[r].state);
      ASSERT_EQ(shared[r].figures.size(), own[r].figures.size());
      for (std::size_t f = 0; f < own[r].figures.size(); ++f) {
        EXPECT_EQ(shared[r].figures[f].column, own[r].figures[f].column);
        EXPECT_EQ(shared[r].figures[f].value, own[r].figures[f].value)
            << unit << " " << own[r].figures[f].column;
      }
    }
  }
}

TEST(KeptPlans, AreOfEqualClustersButForRates) {
  const SweepGrid grid = bandwidths_of("[alltoall, dedup]");
  InputCache cache;
  const auto key = [&](std::int64_t unit) {
    const Scenario scenario = grid.unit(unit);
    return plan_key({scenario, open_shared_inputs(scenario, cache)});
  };
  EXPECT_EQ(key(0), key(5));   // another bandwidth and latency
  EXPECT_NE(key(0), key(6));   // more nodes
  EXPECT_NE(key(0), key(12));  // another policy
}

/// Two GPUs on hosts of their own, with a switch between them.
Topology::Parts two_hosts() {
  Topology::Parts parts;
  parts.name = "two";
  parts.vertices = {{"a", VertexKind::gpu, 0}, {"b", VertexKind::gpu, 1}, {"s", VertexKind::leaf}};
  for (const auto& [from, to] : {std::pair(0, 2), {2, 1}, {1, 2}, {2, 0}}) {
    parts.links.push_back({VertexId(from), VertexId(to), BytesPerSecond(1e9), Seconds(1e-6)});
  }
  parts.classes = {{"nic", Tier::fabric}, {"wan", Tier::wan}};
  parts.gpus = {VertexId(0), VertexId(1)};
  parts.gpu_model = {"h100", "h100"};
  parts.levels = {{"cluster", {0, 0}, 1}, {"node", {0, 1}, 2}};
  return parts;
}

TEST(KeptPlans, DependOnAllOfAClusterButItsRates) {
  const SweepGrid grid = bandwidths_of("[alltoall]");
  InputCache cache;
  const auto key = [&](const std::function<void(Topology::Parts&)>& change) {
    Topology::Parts parts = two_hosts();
    change(parts);
    OpenedScenario opened{grid.unit(0), open_shared_inputs(grid.unit(0), cache)};
    opened.inputs.clusters.clear();
    opened.inputs.clusters.push_back({{}, Topology(std::move(parts)), {}, {}, 0, {}, 0, {}});
    return plan_key(opened);
  };
  std::set<std::string> keys = {key([](auto&) {})};
  for (const auto& change : std::vector<std::function<void(Topology::Parts&)>>{
           [](auto& p) { p.links[0].bandwidth = BytesPerSecond(2e9); },
           [](auto& p) { p.links[0].latency = Seconds(2e-6); },
           [](auto& p) { p.exchange_overhead = Seconds(1); }}) {
    EXPECT_TRUE(keys.contains(key(change)));
  }
  for (const auto& change : std::vector<std::function<void(Topology::Parts&)>>{
           [](auto& p) { p.name = "three"; }, [](auto& p) { p.network = "efa"; },
           [](auto& p) { p.measured_with = "nccl"; }, [](auto& p) { p.vertices[0].name = "c"; },
           [](auto& p) { p.vertices[2].kind = VertexKind::spine; },
           [](auto& p) { p.vertices[2].host = 1; }, [](auto& p) { p.links[0].cost = 2; },
           [](auto& p) { p.links[0].link_class = 1; },
           [](auto& p) { p.links.push_back(p.links[0]); },
           [](auto& p) { p.classes[0].name = "ib"; },
           [](auto& p) { p.classes[0].tier = Tier::wan; },
           [](auto& p) { std::swap(p.gpus[0], p.gpus[1]); },
           [](auto& p) { p.gpu_model[1] = "h200"; }, [](auto& p) { p.levels[0].name = "all"; },
           [](auto& p) { p.levels.pop_back(); },
           [](auto& p) {
             p.levels[1] = {"node", {0, 0}, 1};
           }}) {
    EXPECT_TRUE(keys.insert(key(change)).second) << keys.size() - 1;
  }
}

TEST(KeptPlans, AreThoseOfWholeRunsWhosePlannersSawNoRates) {
  const auto opened_for = [](const std::string& policy) {
    InputCache cache;
    const Scenario scenario = bandwidths_of("[" + policy + "]").unit(0);
    return std::make_shared<const OpenedScenario>(
        OpenedScenario{scenario, open_shared_inputs(scenario, cache)});
  };
  const auto is_kept = [](const auto& opened, bool keeps, bool plans) {
    const std::vector<PolicyRun> runs = runs_on(opened->scenario, opened->inputs, 0);
    const auto steps = std::make_shared<PlannedSteps>(
        runs[0], PolicyPlanner::Options{.routing = runs[0].routing}, keeps);
    if (plans) steps->plan_all();
    KeptPlans plans_kept;
    plans_kept.keep(opened, steps);
    const KeptPlans::Steps found = plans_kept.find(*opened);
    EXPECT_TRUE(!found || found == steps);
    return found != nullptr;
  };
  const auto alltoall = opened_for("alltoall");
  EXPECT_TRUE(is_kept(alltoall, true, true));
  EXPECT_FALSE(is_kept(alltoall, true, false));
  EXPECT_FALSE(is_kept(alltoall, false, false));
  EXPECT_FALSE(is_kept(opened_for("hybridep-exact"), true, true));
  KeptPlans none;
  none.keep(alltoall, nullptr);
  EXPECT_EQ(none.find(*alltoall), nullptr);
}

}  // namespace
}  // namespace moesim
