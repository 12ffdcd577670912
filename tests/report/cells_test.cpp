// SPDX-License-Identifier: Apache-2.0
// Small figures that tables and JSON share: costs of tokens, losses, tolerances, sums and ports.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "sim/base/error.h"
#include "sim/report/notes.h"
#include "sim/report/sums.h"
#include "sim/report/token_costs.h"
#include "sim/report/token_needs.h"
#include "sim/report/tolerance.h"
#include "tests/report/two_hosts.h"

namespace moesim {
namespace {

TEST(TokenCostsByHand, AreOfAllGpusOverAllTokens) {
  // 4 GPUs for 9 s are 0.01 GPU hours, of 2 tokens.
  const TokenCosts costs = TokenCosts::of({.dollars_per_hour = 3, .watts = 700}, 4, 9, 2);
  EXPECT_DOUBLE_EQ(costs.dollars_per_million.value(), 15000);
  EXPECT_DOUBLE_EQ(costs.joules.value(), 12600);
  const TokenCosts none = TokenCosts::of({.dollars_per_hour = 3, .watts = 700}, 4, 9, 0);
  EXPECT_FALSE(none.dollars_per_million || none.joules);
  const TokenCosts one = TokenCosts::of({.watts = 700}, 1, 1, 1);
  EXPECT_FALSE(one.dollars_per_million);
  EXPECT_EQ(one.joules, 700);
}

TEST(TokenCostsByHand, AreInJsonOnlyIfKnown) {
  const auto json = [](const TokenCosts& costs) {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    add_costs(object, costs);
    return object.dump();
  };
  EXPECT_EQ(json({}), "{}");
  EXPECT_EQ(json({.dollars_per_million = 2.5}), R"({"usd_per_million_tokens":2.5})");
  EXPECT_EQ(json({.joules = 1.5}), R"({"joules_per_token":1.5})");
}

TEST(Losses, NameEachPartOfThem) {
  const auto json = [](const Loss& loss) {
    nlohmann::ordered_json object;
    add_loss(object, loss);
    return object;
  };
  EXPECT_EQ(json({.choices = 4, .dropped = 1})["loss"].dump(), R"({"dropped_part":0.25})");
  EXPECT_EQ(json({.choices = 4, .replaced = 1})["loss"].dump(), R"({"replaced_part":0.25})");
  EXPECT_EQ(json({.compression = 1.5})["loss"].dump(), R"({"weight_compression":1.5})");
  Loss rounded;
  rounded.rows.bits = 8;
  EXPECT_EQ(json(rounded)["loss"].dump(), R"({"row_bits":8})");
}

TEST(Tolerances, ArePercentFromNothingUp) {
  EXPECT_DOUBLE_EQ(parse_tolerance("12%"), 0.12);
  EXPECT_DOUBLE_EQ(parse_tolerance("12 %"), 0.12);
  EXPECT_EQ(parse_tolerance("0%"), 0);
  for (const char* wrong : {"12", "12 us", "-1%", "%", ""}) {
    EXPECT_THROW(parse_tolerance(wrong), Error) << wrong;
  }
}

TEST(Sums, CountTheShorterSideAsZeros) {
  std::vector<int> sum = {1};
  add_to(sum, {2, 3});
  EXPECT_EQ(sum, (std::vector{3, 3}));
  add_to(sum, {4});
  EXPECT_EQ(sum, (std::vector{7, 3}));
  EXPECT_EQ(max_over_mean({0, 0}), 0);
  EXPECT_EQ(max_over_mean({}), 0);
  EXPECT_EQ(max_over_mean({1, 3, 2}), 1.5);
}

TEST(LinksOfPortsByHand, AreAllOfAGpuAndThoseThatLeaveAHost) {
  const Topology& topology = test::two_hosts();
  const LinksOfPorts links = links_of_ports(topology);
  const auto expect = [&](const std::vector<PortLinks>& ports, double rate) {
    EXPECT_EQ(ports.size(), 2u);
    for (const PortLinks& port : ports) {
      EXPECT_EQ(most_of_port(topology, port, Bytes(1)), BytesPerSecond(rate));
    }
  };
  expect(links.hosts.out, 1e9);
  expect(links.hosts.in, 1e9);
  expect(links.gpus.out, 2e9);
  expect(links.gpus.in, 2e9);
}

}  // namespace
}  // namespace moesim
