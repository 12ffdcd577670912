// SPDX-License-Identifier: Apache-2.0
// The planner against vectors of LAER-MoE's released planner: every field of every case.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/mechanism/placement/fsep/lite_routing.h"
#include "sim/mechanism/placement/fsep/planner.h"
#include "tests/mechanism/placement/fsep/tiered_links.h"
#include "tests/oracles.h"

namespace moesim::fsep {
namespace {

using nlohmann::json;

json experts(const SlotTable& slots) {
  json rows = json::array();
  for (const auto& rank : slots) {
    rows.push_back(json::array());
    for (const ExpertId e : rank) rows.back().push_back(e.value);
  }
  return rows;
}

json numbers(const std::vector<ExpertId>& ids) {
  json row = json::array();
  for (const ExpertId e : ids) row.push_back(e.value);
  return row;
}

LoadMatrix loads_of(const json& rows) {
  LoadMatrix loads(static_cast<int>(rows.size()), static_cast<int>(rows[0].size()));
  for (int source = 0; source < loads.sources(); ++source) {
    for (int e = 0; e < loads.experts(); ++e) {
      loads.at(GpuId(source), ExpertId(e)) = rows[source][e].get<std::int64_t>();
    }
  }
  return loads;
}

PlannerOptions options_of(const json& input) {
  PlannerOptions options;
  options.cost.same_rank = BytesPerSecond(input["bw_same_device_GB_per_s"].get<double>() * 1e9);
  options.cost.same_node = BytesPerSecond(input["bw_intra_node_GB_per_s"].get<double>() * 1e9);
  options.cost.other_node = BytesPerSecond(input["bw_inter_node_GB_per_s"].get<double>() * 1e9);
  options.cost.per_token_slot = Seconds(input["v_comp_ms_per_token_slot"].get<double>() * 1e-3);
  options.cost.token = Bytes(input["token_bytes"].get<std::int64_t>());
  options.cost.activation_checkpointing = input["activation_checkpointing"].get<bool>();
  return options;
}

void expect_near(double value, const json& expected) {
  EXPECT_NEAR(value, expected.get<double>(), 1e-12 * expected.get<double>());
}

void check_routing(const LoadMatrix& loads, const Reach& reach, const json& expected) {
  const Spread sums = spread(loads, reach);
  const Placement& placement = reach.placement();
  json per_slot = json::array();
  for (int rank = 0; rank < placement.gpus(); ++rank) {
    const auto first = sums.slots.begin() + placement.first_slot(GpuId(rank)).value;
    per_slot.push_back(std::vector<std::int64_t>(first, first + placement.slots_on(GpuId(rank))));
  }
  EXPECT_EQ(per_slot, expected["received_token_slots_per_slot"]);
  const auto ranks = per_rank(placement, sums.slots);
  EXPECT_EQ(json(ranks), expected["received_token_slots_per_device"]);
  const auto most = static_cast<double>(*std::max_element(ranks.begin(), ranks.end()));
  const double mean = static_cast<double>(sums.distance.total()) / placement.gpus();
  expect_near(most / mean, expected["max_over_mean"]);
  EXPECT_EQ(sums.distance.same_rank, expected["same_device_token_slots"]);
  EXPECT_EQ(sums.distance.same_node, expected["same_node_other_device_token_slots"]);
  EXPECT_EQ(sums.distance.other_node, expected["inter_node_token_slots"]);
  // The assignment sends the same counts.
  const Assignment assignment(reach.placement(), lite_shares(loads, reach));
  std::vector<std::int64_t> slots(sums.slots.size());
  for (int source = 0; source < loads.sources(); ++source) {
    for (int e = 0; e < loads.experts(); ++e) {
      const std::int64_t choices = loads.at(GpuId(source), ExpertId(e));
      add_choices(assignment, GpuId(source), ExpertId(e), choices, slots);
    }
  }
  EXPECT_EQ(slots, sums.slots);
}

void check_case(const json& vector) {
  const json& input = vector["input"];
  const json& expected = vector["expected"];
  const LoadMatrix loads = loads_of(input["token_counts"]);
  const SlotGrid grid{input["devices"], input["devices_per_node"], input["slots_per_device"]};
  EXPECT_EQ(json(loads.per_expert()), expected["expert_load"]);

  const Replicas queue = queue_replicas(loads.per_expert(), grid);
  EXPECT_EQ(queue.base, expected["pq_base_replicas"]);
  EXPECT_EQ(json(queue.of), expected["pq_replicas"]);
  EXPECT_EQ(numbers(queue.frozen), expected["pq_frozen_experts"]);

  const PlannerOptions options = options_of(input);
  const Decision decision = plan(loads, grid, options);
  const json& candidates = expected["candidates"];
  ASSERT_EQ(decision.candidates.size(), candidates.size());
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    const Candidate& candidate = decision.candidates[c];
    EXPECT_EQ(candidate.name, candidates[c]["name"].get<std::string>());
    EXPECT_EQ(json(candidate.replicas.of), candidates[c]["replicas"]);
    expect_near(candidate.cost.communication.value, candidates[c]["cost_comm_s"]);
    expect_near(candidate.cost.computation.value, candidates[c]["cost_comp_s"]);
    expect_near(candidate.cost.total().value, candidates[c]["cost_s"]);
  }
  const Candidate& choice = decision.choice();
  EXPECT_EQ(choice.name, expected["chosen"].get<std::string>());
  EXPECT_EQ(json(choice.replicas.of), expected["replicas"]);
  EXPECT_EQ(experts(choice.placed.slots), expected["device_slots"]);
  EXPECT_EQ(choice.placed.fallbacks, expected["placement_fallbacks"]);
  expect_near(choice.cost.total().value, expected["cost_s"]);

  const Placement placement(loads.experts(), choice.placed.slots);
  const Reach reach(placement, grid.ranks_per_node);
  check_routing(loads, reach, expected["lite_routing"]);
  const Links links = tiered_links({{1, options.cost.same_rank},
                                    {grid.ranks_per_node, options.cost.same_node},
                                    {grid.ranks, options.cost.other_node}});
  expect_near(cost(loads, reach, options.cost, links).total().value, expected["cost_s"]);
}

TEST(LaerVectorsTest, PlannerReproducesThem) {
  const auto vectors = oracles_of("moesim.oracle.laer_planner/1");
  if (vectors.empty()) GTEST_SKIP() << "no vectors in " << oracle_folder();
  for (const auto& [file, vector] : vectors) {
    SCOPED_TRACE(file);
    check_case(vector);
  }
}

}  // namespace
}  // namespace moesim::fsep
