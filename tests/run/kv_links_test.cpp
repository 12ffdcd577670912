// SPDX-License-Identifier: Apache-2.0
// What carries keys and values between two pools of GPUs.
#include "sim/run/kv_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/run/scenarios.h"

namespace moesim {
namespace {

KvLink link_between(int prompt_gpus, int decode_gpus) {
  return kv_link(scenario_of("alltoall"), prompt_gpus, decode_gpus);
}

TEST(KvLinks, AreAsWideAsTheNarrowestOfTheirPorts) {
  // NVLink of 450 GB/s within a node of 8, else one NIC of 50 GB/s per GPU.
  EXPECT_NEAR(link_between(1, 1).bandwidth.value, 450e9, 1e3);
  EXPECT_NEAR(link_between(4, 4).bandwidth.value, 4 * 450e9, 1e3);
  EXPECT_NEAR(link_between(4, 1).bandwidth.value, 450e9, 1e3);
  EXPECT_NEAR(link_between(8, 8).bandwidth.value, 8 * 50e9, 1e3);
  EXPECT_NEAR(link_between(8, 1).bandwidth.value, 50e9, 1e3);
  // GPUs 8 and 9, on the other node, each get what two of seven send.
  EXPECT_NEAR(link_between(7, 3).bandwidth.value, 7 * 25e9, 1e3);
}

TEST(KvLinks, NeedAsManyNodesAsHoldBothPools) {
  const Scenario scenario = read_scenario("", {{"topology", "dragonfly", "t"},
                                               {"model", "tiny-moe", "m"},
                                               {"trace", "tiny-moe-train", "r"},
                                               {"policy", "alltoall", "p"}});
  EXPECT_NEAR(kv_link(scenario, 9, 7).bandwidth.value, 9 * 25e9, 1e3);
  EXPECT_THAT([&] { kv_link(scenario, 576, 1); },  // 72 nodes of 8
              testing::ThrowsMessage<Error>(testing::HasSubstr(
                  "'dragonfly' cannot be made larger, to hold pools that are apart")));
}

TEST(KvLinks, StartAfterTheExchangeAndItsHops) {
  // 12 us of an exchange and two hops of 0.5 us.
  EXPECT_NEAR(link_between(1, 1).latency.value, 13e-6, 1e-12);
}

}  // namespace
}  // namespace moesim
