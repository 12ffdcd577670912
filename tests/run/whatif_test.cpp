// SPDX-License-Identifier: Apache-2.0
// Changed clusters: elasticities against clusters read with other figures, stragglers, failures.
#include "sim/run/whatif.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sim/run/elasticities.h"
#include "sim/run/simulate.h"
#include "sim/run/whatif_engines.h"
#include "tests/error_of.h"
#include "tests/run/scenarios.h"

namespace moesim {
namespace {

using testing::HasSubstr;

const Override on_two_nodes = {"set", "topology.nodes=2", "n"};
const Override one_step = {"steps", "5", "s"};
const Override bare_links = {"transport", "ideal", "l"};  // whose overheads the topology states

RunMetrics metrics_of(const std::vector<Override>& more, bool with_elasticities = false) {
  std::vector<Override> all = {on_two_nodes, one_step};
  all.insert(all.end(), more.begin(), more.end());
  const Scenario scenario = scenario_of("alltoall", all);
  const Inputs inputs = open_inputs(scenario);
  return simulate(scenario, inputs, {.workers = 1, .elasticities = with_elasticities})
      .cases.at(0)
      .metrics;
}

Seconds time_with(const std::vector<std::string>& changes, std::vector<Override> more = {}) {
  for (const std::string& change : changes) more.push_back({"set", change, change});
  return metrics_of(more).mean_step();
}

Elasticity found(const std::vector<Elasticity>& list, const std::string& resource) {
  for (const Elasticity& e : list) {
    if (e.resource == resource) return e;
  }
  ADD_FAILURE() << "no " << resource;
  return {};
}

TEST(Elasticities, AgreeWithClustersReadWithOtherFigures) {
  const std::vector<Elasticity> list = metrics_of({bare_links}, true).elasticities;
  const std::vector<std::pair<std::string, std::vector<std::string>>> oracles = {
      {"gpu.flops",
       {"gpu.peak.bf16=1088.34 TFLOP/s", "gpu.peak.fp8=2176.79 TFLOP/s",
        "gpu.peak.fp16=1088.34 TFLOP/s", "gpu.peak.fp32=73.59 TFLOP/s"}},
      {"gpu.memory_bandwidth", {"gpu.memory_bandwidth=3.685 TB/s"}},
      {"gpu.launch", {"gpu.launch_overhead=2.7272727 us"}},
      {"nic.bandwidth", {"topology.node.nics.bandwidth=55 GB/s"}},
      {"nvlink.bandwidth", {"topology.node.nvlink.bandwidth=495 GB/s"}},
      {"nvlink.latency", {"topology.node.nvlink.latency=0.454545 us"}},
      {"exchange.overhead", {"topology.exchange_overhead=10.909090909 us"}},
  };
  for (const auto& [resource, changes] : oracles) {
    const Elasticity e = found(list, resource);
    EXPECT_NEAR(e.after / time_with(changes, {bare_links}), 1, 0.002) << resource;
    EXPECT_LE(e.after, e.before * (1 + 1e-9)) << resource;
  }
  EXPECT_LT(found(list, "nic.bandwidth").change(), -0.005);
  // Classes that bind alike are worth something only together; latencies add up.
  EXPECT_LE(found(list, "network.bandwidth").change(), found(list, "nic.bandwidth").change());
  EXPECT_EQ(std::ranges::count(list, "network.latency", &Elasticity::resource), 0);
}

std::vector<WhatIfCase> cases_of(const Scenario& scenario, const WhatIf& what) {
  const Inputs before = open_inputs(scenario);
  return simulate_whatif(scenario, before, open_changed_inputs(scenario, what), 1);
}

TEST(WhatIf, ScalesAsTheFileOfTheTopologyWould) {
  const Scenario scenario = scenario_of("[alltoall, hiermoe-hd]", {on_two_nodes, one_step});
  const auto cases = cases_of(scenario, {.scale = {"nic.bandwidth=1.5"}});
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_EQ(cases[0].before.time, time_with({}));
  EXPECT_NEAR(cases[0].after.time / time_with({"topology.node.nics.bandwidth=75 GB/s"}), 1, 1e-9);
  EXPECT_LT(cases[0].after.time, cases[0].before.time);
  EXPECT_EQ(cases[0].after.tokens, cases[0].before.tokens);
}

TEST(WhatIf, WarnsOfNicsThatGetNarrowFronts) {
  const Scenario scenario = scenario_of("[alltoall]", {on_two_nodes, one_step});
  const auto warnings = [&](const std::vector<std::string>& scale) {
    std::string all;
    for (const Diagnostic& d : open_changed_inputs(scenario, {.scale = scale}).warnings) {
      all += d.message + "\n";
    }
    return all;
  };
  EXPECT_THAT(warnings({"nic.bandwidth=2"}),
              HasSubstr("a NIC of 100 GB/s gets no more than PCIe's 64 GB/s"));
  EXPECT_EQ(warnings({"nic.bandwidth=2", "pcie.bandwidth=2"}), warnings({"gpu.flops=2"}));
}

/// Each change begins with what was opened, as if the files were read again.
TEST(WhatIf, OpenInputsAreChangedAsOftenAsAsked) {
  const Scenario scenario = scenario_of("[alltoall, hiermoe-hd]", {on_two_nodes, one_step});
  const Inputs opened = open_inputs(scenario);
  const auto times = [&](const Inputs& inputs) {
    std::vector<Seconds> all;
    for (const CaseResult& c : simulate(scenario, inputs, {.workers = 1}).cases) {
      all.push_back(c.metrics.mean_step());
    }
    return all;
  };
  const auto before = times(opened);
  for (const std::string change : {"nic.bandwidth=2", "nic.bandwidth=0.5", "gpu.flops=2"}) {
    const WhatIf what{.scale = {change}};
    EXPECT_EQ(times(changed_inputs(scenario, opened, what)),
              times(open_changed_inputs(scenario, what)))
        << change;
  }
  EXPECT_EQ(times(opened), before);
}

TEST(WhatIf, AStragglerIsOnThePath) {
  const Scenario scenario = scenario_of("alltoall", {on_two_nodes, one_step});
  const WhatIfCase c = cases_of(scenario, {.slow = {"gpu:7=0.25"}}).at(0);
  EXPECT_GT(c.after.time, c.before.time);
  EXPECT_EQ(std::ranges::max_element(c.after.path.gpus) - c.after.path.gpus.begin(), 7);
  EXPECT_GT(c.after.path.waited[7], c.before.path.waited[7]);
}

TEST(WhatIf, RunsEnginesOnBothClusters) {
  const auto scenario_with = [](const std::string& more) {
    return parse_scenario(
        "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\npolicy: alltoall\n"
        "parallel: {tp: 1, ep: 8}\nset: [topology.nodes=1]\nsteps: 3:4\nserving:\n"
        "  engine: vllm\n  requests: {count: 8, concurrency: 8, input: 64, output: 4}\n" +
            more,
        "engine.yaml", {});
  };
  const Scenario scenario = scenario_with("");
  WhatIf faster;
  faster.scale = {"gpu.memory_bandwidth=2"};
  const Inputs before = open_inputs(scenario), after = open_changed_inputs(scenario, faster);
  const auto cases = run_whatif(scenario, before, after, 0);
  ASSERT_EQ(cases.size(), 1U);
  EXPECT_LT(cases[0].after.outcome.metrics.tpot.p50, cases[0].before.outcome.metrics.tpot.p50);
  EXPECT_THAT(whatif_table(scenario, cases).text(), HasSubstr("TPOT p50 change"));
  const auto document =
      nlohmann::json::parse(whatif_document(scenario, before, faster, cases, "1"));
  const auto& both = document["cases"][0];
  EXPECT_NEAR(
      both["change"]["tpot_p50"].get<double>(),
      both["after"]["tpot"]["p50_s"].get<double>() / both["before"]["tpot"]["p50_s"].get<double>() -
          1,
      1e-12);
  EXPECT_EQ(document["parallel"]["ep"], 8);
  EXPECT_EQ(document["steps"], "3:4");
  const Scenario reused = scenario_with("  prices: {exact_passes: 0, check_every: 1}\n");
  EXPECT_THAT(whatif_table(reused, run_whatif(reused, before, after, 0)).text(),
              HasSubstr("# prices of single passes are reused"));
  const Scenario pools = scenario_with("  instances: {prefill: 1, decode: 1}\n");
  EXPECT_THAT(error_of([&] { run_whatif(pools, before, after, 0); }),
              HasSubstr("'whatif' of pools that are apart"));
}

TEST(WhatIf, SaysWhyAPolicyIsNotRunOnEitherSide) {
  const Scenario scenario = scenario_of("[alltoall, moonep]", {on_two_nodes, one_step});
  const auto cases = cases_of(scenario, {.scale = {"nic.bandwidth=2"}});
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_EQ(cases[0].after.unsuitable, "");
  EXPECT_EQ(cases[1].before.unsuitable,
            "its ranks fetch experts over NVLink, an EP group has 2 hosts");
  EXPECT_EQ(cases[1].after.unsuitable, cases[1].before.unsuitable);
  EXPECT_EQ(cases[1].after.time, Seconds(0));
}

TEST(WhatIf, FailedHostsLeaveASmallerCluster) {
  const Scenario scenario = scenario_of("alltoall", {on_two_nodes, one_step, {"ep", "8", "e"}});
  const WhatIfCase c = cases_of(scenario, {.fail = {"host:1"}}).at(0);
  EXPECT_EQ(c.before.gpus, 16);
  EXPECT_EQ(c.after.gpus, 8);
  EXPECT_GT(c.after.tokens, 0);
  const Scenario small = scenario_of("alltoall", {one_step, {"ep", "8", "e"}});
  const Inputs inputs = open_inputs(small);
  EXPECT_EQ(c.after.time, simulate(small, inputs, {}).cases.at(0).metrics.mean_step());
}

std::string refused(const WhatIf& what, const std::vector<Override>& more = {}) {
  std::vector<Override> all = {on_two_nodes, one_step};
  all.insert(all.end(), more.begin(), more.end());
  return error_of([&] { open_changed_inputs(scenario_of("alltoall", all), what); });
}

TEST(WhatIf, SaysWhatWasMeant) {
  EXPECT_THAT(refused({.scale = {"nics.bandwidth=2"}}), HasSubstr("did you mean 'nic.bandwidth'?"));
  EXPECT_THAT(refused({.scale = {"nic.bandwidth"}}), HasSubstr("it needs NAME=FACTOR"));
  EXPECT_THAT(refused({.scale = {"nic.bandwidth=0"}}), HasSubstr("a factor from 0.001"));
  EXPECT_THAT(refused({.scale = {"nic.bandwidth=2x"}}),
              HasSubstr("hint: for example --scale nic.bandwidth=1.5"));
  EXPECT_THAT(refused({.scale = {"nic.bandwidth=1001"}}), HasSubstr("a factor from 0.001"));
  EXPECT_THAT(refused({.slow = {"gpu:3"}}), HasSubstr("for example --slow gpu:7=0.8"));
  EXPECT_THAT(refused({.slow = {"gpu:3=1.2"}}), HasSubstr("a factor from 0.001 to 1\n"));
  EXPECT_THAT(refused({.slow = {"gpu=0.5"}}), HasSubstr("it needs KIND:NAME"));
  EXPECT_THAT(refused({.slow = {"gpus:3=0.5"}}), HasSubstr("did you mean 'gpu'?"));
  for (const std::string kind : {"nic", "switch"}) {
    EXPECT_THAT(refused({.fail = {kind + ":0"}}),
                HasSubstr("'" + kind +
                          "' is not a kind of part\nhint: NICs and switches are devices: "
                          "device:NAME"));
  }
  EXPECT_THAT(refused({.fail = {"device:xyzzy"}}), HasSubstr("they are called node0.nic"));
  EXPECT_THAT(refused({.slow = {"gpu:16=0.5"}}), HasSubstr("ranks are 0 to 15"));
  EXPECT_THAT(refused({.fail = {"gpu:node1.gpu9"}}), HasSubstr("did you mean 'node1.gpu"));
  EXPECT_THAT(refused({.fail = {"host:2"}}), HasSubstr("hosts are 0 to 1"));
  EXPECT_THAT(refused({.fail = {"device:node0.nicc"}}), HasSubstr("did you mean 'node0.nic"));
  EXPECT_THAT(refused({.fail = {"device:node0.gpu3"}}), HasSubstr("say gpu:node0.gpu3"));
  EXPECT_THAT(refused({.fail = {"link:node0.gpu0--node0.nvswitc"}}),
              HasSubstr("did you mean 'node0.gpu0--node0.nvswitch'?"));
}

TEST(WhatIf, WhatFailsCannotBeSlow) {
  EXPECT_THAT(refused({.slow = {"gpu:3=0.5"}, .fail = {"gpu:3"}}),
              HasSubstr("--slow gpu:3=0.5: it fails\nhint: leave --slow or --fail out"));
  EXPECT_THAT(refused({.slow = {"gpu:3=0.5"}, .fail = {"host:0"}}), HasSubstr("it fails"));
  EXPECT_THAT(
      refused({.slow = {"link:node0.nic3--rail3.leaf0=0.5"}, .fail = {"device:node0.nic3"}}),
      HasSubstr("it fails"));
  EXPECT_EQ(refused({.slow = {"host:0=0.5"}, .fail = {"gpu:3"}}, {{"ep", "1", "e"}}), "");
}

// The NIC of a GPU and its rail: what they carried takes other rails, over NVLink at both ends.
TEST(WhatIf, ANicOfARailMayFail) {
  const Scenario scenario = scenario_of("alltoall", {on_two_nodes, one_step});
  const WhatIfCase c = cases_of(scenario, {.fail = {"device:node0.nic0"}}).at(0);
  EXPECT_GT(c.after.time, c.before.time);
  EXPECT_LT(c.after.time, c.before.time * 2.0);
}

TEST(WhatIf, FactorsMayBeAsSmallAndAsLargeAsIsSaid) {
  for (const char* least_and_most : {"nic.latency=0.001", "nic.latency=1000"}) {
    EXPECT_EQ(refused({.scale = {least_and_most}}), "") << least_and_most;
  }
  EXPECT_EQ(refused({.slow = {"gpu:0=0.5", "gpu:15=0.5", "gpu:node1.gpu7=0.5"}}), "");
}

TEST(WhatIf, RefusesWhatNothingRunsOn) {
  EXPECT_THAT(refused({.fail = {"link:node0.gpu0--node0.nvswitch", "device:node0.nic0"}}),
              HasSubstr("without the failed links"));
  EXPECT_THAT(refused({.fail = {"host:0", "host:1"}}), HasSubstr("all GPUs have failed"));
  EXPECT_THAT(refused({.fail = {"gpu:3"}}, {{"ep", "16", "e"}}), HasSubstr("after --fail: "));
}

}  // namespace
}  // namespace moesim
