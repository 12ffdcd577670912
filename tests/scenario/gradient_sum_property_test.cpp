// SPDX-License-Identifier: Apache-2.0
// Every training policy whose experts have replicas in several EP groups sums their gradients once
// per layer, all of them, by what a ring needs; FSDP, which reduces over the groups by itself,
// does not do it again.
#include <gtest/gtest.h>

#include <set>

#include "sim/base/data_files.h"
#include "tests/scenario/traces.h"

namespace moesim {
namespace {

/// Policies whose ranks keep a shard of every expert: an expert's parameters are padded to whole
/// ones on each of them.
const std::set<std::string> sharded = {"laer",         "laer-even",     "laer-no-comm-opt",
                                       "fsep-flexmoe", "fsep-smartmoe", "fsep-fsdp-ep"};

class GradientSums : public testing::TestWithParam<std::string> {};

TEST_P(GradientSums, MoveWhatARingAllReduceNeeds) {
  const Topology& topology = shipped_topology("h100-rail");
  const MoeModel model = read_moe_model(data_file("models/moe", "gpt-oss-20b"));
  const auto& trace = open_trace("tiny-moe-train");
  const int gpus = topology.gpu_count(), ep = 16, groups = gpus / ep;
  const Batches batches = make_batches(*trace, {gpus, std::nullopt, 1});
  PlannerOptions options{ep, {0, 1}, true, false};
  options.batches = batches.batches;
  auto planner = make_planner(GetParam(), topology, model, *trace, options);
  if (!planner) GTEST_SKIP() << "the cluster does not suit the policy";
  const PlannedStep planned = planner->plan(batches.batches[0], 0);
  std::int64_t bytes = 0;
  int sums = 0;
  for (const Op& op : planned.plan.ops) {
    if (op.stream != Stream::dp) continue;
    ++sums;
    bytes += op.exchange()->traffic.off_diagonal().value;
    EXPECT_EQ(op.key.stage, Stage::reduce);
    EXPECT_EQ(op.key.pass, Pass::backward);
  }
  if (GetParam() == "fsdp-ep") {
    EXPECT_EQ(sums, 0);
    return;
  }
  EXPECT_EQ(sums, 2);
  const auto up = [](std::int64_t value, std::int64_t by) { return (value + by - 1) / by; };
  const std::int64_t expert = model.expert_parameters();
  const bool of_shards = sharded.contains(GetParam());
  const std::int64_t parts = of_shards ? ep : trace->info().experts;
  const std::int64_t part = of_shards ? up(expert, ep) * trace->info().experts : expert;
  EXPECT_EQ(bytes, 2 * parts * groups * 2 * (groups - 1) * up(part, groups) * 2);
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, GradientSums, testing::ValuesIn(data_names("models/system")),
                         test_name);

}  // namespace
}  // namespace moesim
