// SPDX-License-Identifier: Apache-2.0
// Hosts of one and of three GPUs: balancers that spread experts over GPUs do not mind.
#include <gtest/gtest.h>

#include "sim/base/unsuitable.h"
#include "sim/topology/reader.h"
#include "tests/error_of.h"
#include "tests/mechanism/placement/play.h"

namespace moesim {
namespace {

Topology unequal_hosts() {
  const auto host = [](const std::string& gpus) {
    return "  - nodes: 1\n    node: {gpu: h100-sxm, gpus: " + gpus +
           ", nics: {count: 1, bandwidth: 50 GB/s, latency: 0 us}}\n";
  };
  return parse_topology("name: t\nsource: test\ngroups:\n" +
                            host("1, pcie: {bandwidth: 50 GB/s, latency: 0 us}") +
                            host("3, pcie: {bandwidth: 50 GB/s, latency: 0 us}, nvlink: {kind: "
                                 "switch, bandwidth: 400 GB/s, latency: 0 us}") +
                            "fabric: {kind: switch}\n",
                        "t.yaml")
      .topology;
}

MoeModel model_of(int gate_groups = 1) {
  MoeModel model;
  model.hidden = 5;
  model.expert_ffn = 1;
  model.expert_matrices = 2;
  model.experts = 8;
  model.top_k = 1;
  model.gate_groups = gate_groups;
  return model;
}

TEST(UnequalHosts, SuitBalancersThatSpreadOverGpus) {
  const Topology cluster = unequal_hosts();
  for (const std::string text :
       {"eplb", "{kind: eplb, replicas: node-first}", "{kind: trt-llm, updates_per_iteration: 1}",
        "{kind: vllm, interval: 2, window: 2}",
        "{kind: vllm, policy: swift-balancer, window: 1, lag: 1}",
        "{kind: vllm, policy: flash-lb, window: 1, lag: 1}", "{kind: sglang, interval: 1}",
        "{kind: lazarus, interval: 1, first: 1}", "predictive-replication", "smart-moe"}) {
    SCOPED_TRACE(text);
    const MoeModel model = model_of();
    Play play(text, cluster, model, 4, 1, false);
    for (int step = 0; step < 4; ++step) {
      play.show(ids_of({40, 30, 4, 4, 4, 6, 4, 4}));
    }
  }
}

TEST(UnequalHosts, DoNotSuitGroupsOnNodes) {
  const MoeModel model = model_of(2);
  EXPECT_EQ(error_of([&] { Play("eplb", unequal_hosts(), model, 4, 1, false); }),
            "error: 'placement' needs hosts of equally many consecutive GPUs, which 't' has not\n");
  Play("{kind: eplb, groups: 1}", unequal_hosts(), model, 4, 1, false);
}

TEST(UnequalHosts, NvlinkDomainsAreWhatOneHostHas) {
  const MoeModel model = model_of();
  EXPECT_EQ(error_of([&] { Play("moon-ep", unequal_hosts(), model, 4, 1, false); }),
            "error: its ranks fetch experts over NVLink, an EP group has 2 hosts\nhint: ep: 1 or "
            "less\n");
}

}  // namespace
}  // namespace moesim
