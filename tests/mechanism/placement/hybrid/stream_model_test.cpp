// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/hybrid/stream_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/base/error.h"

namespace moesim {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;

constexpr BytesPerSecond wan_link(16e9);  // 128 Gbps

StreamLayer layer_of(double token_mb, double expert_mb, double pre_expert_ms) {
  return {.tokens = Bytes(static_cast<std::int64_t>(token_mb * 1e6)),
          .experts = Bytes(static_cast<std::int64_t>(expert_mb * 1e6)),
          .pre_expert = Seconds(pre_expert_ms * 1e-3)};
}

// The closed forms of one level, in the share p of the outgoing chunks that is left to tokens.

/// Latency (Eq. 10).
Seconds stream_latency(const StreamLayer& layer, int gpus, BytesPerSecond bandwidth, double p) {
  const Seconds gather((1 - p) * (gpus - 1) * layer.gathered() / bandwidth.value);
  const double tokens = static_cast<double>(layer.tokens.value) * (gpus - 1) / gpus;
  return std::max(layer.pre_expert, gather) + Seconds(2 * p * tokens / bandwidth.value);
}

/// p0, the share at which the gather is exactly hidden by PE; below 0 when it always is, at most 1
/// (Eq. 11-12).
double hidden_token_share(const StreamLayer& layer, int gpus, BytesPerSecond bandwidth) {
  return 1 - bandwidth.value * layer.pre_expert.value / (layer.gathered() * (gpus - 1));
}

/// p*: max(p0, 0) while 2 D < G P_E, else 0, when the experts are all gathered.
double best_token_share(const StreamLayer& layer, int gpus, BytesPerSecond bandwidth) {
  if (2 * static_cast<double>(layer.tokens.value) >= gpus * layer.gathered()) return 0;
  return std::max(hidden_token_share(layer, gpus, bandwidth), 0.0);
}

/// p = (G - S) / (G - 1) of expert domains of S GPUs.
double token_share_of_domain(int gpus, int domain) {
  return static_cast<double>(gpus - domain) / (gpus - 1);
}

struct Case {
  const char* name;
  StreamLayer layer;
  std::vector<double> latency_ms;  // S = 1, 2, 4, 8
  int best;
};

TEST(StreamModelTest, LatenciesOfTheTableFourCases) {
  const std::vector<Case> cases = {
      {"Mix-1", layer_of(8, 4.7, 0.49), {1.3650, 1.2400, 1.3813, 2.0563}, 2},
      {"Mix-2", layer_of(8, 2.35, 0.49), {1.3650, 1.2400, 0.9900, 1.0281}, 4},
      {"Mix-1 as printed", layer_of(8, 4.7, 0.049), {0.9240, 1.0438, 1.3813, 2.0563}, 1},
      {"Mix-2 as printed", layer_of(8, 2.35, 0.049), {0.9240, 0.8969, 0.9406, 1.0281}, 2},
      {"AG-only-1", layer_of(3, 0.094, 0.099), {0.4271, 0.3803, 0.2865, 0.0990}, 8},
      {"AG-only-2", layer_of(3, 0.047, 0.099), {0.4271, 0.3803, 0.2865, 0.0990}, 8},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const auto costs = domain_costs(c.layer, {{8, wan_link}});
    ASSERT_EQ(costs.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(costs[i].latency.value * 1e3, c.latency_ms[i], 0.5001e-4);
      // The closed form in p at the p of these domains.
      const double p = token_share_of_domain(8, costs[i].domains[0]);
      EXPECT_NEAR(stream_latency(c.layer, 8, wan_link, p).value, costs[i].latency.value, 1e-15);
    }
    EXPECT_THAT(best_domains(c.layer, {{8, wan_link}}).domains, ElementsAre(c.best));
  }
}

TEST(StreamModelTest, ShareAtWhichTheGatherIsHidden) {
  EXPECT_NEAR(hidden_token_share(layer_of(8, 4.7, 0.49), 8, wan_link), 0.762, 5e-4);
  EXPECT_NEAR(hidden_token_share(layer_of(8, 2.35, 0.49), 8, wan_link), 0.523, 5e-4);
  EXPECT_NEAR(hidden_token_share(layer_of(8, 4.7, 0.049), 8, wan_link), 0.976, 5e-4);
  EXPECT_NEAR(hidden_token_share(layer_of(8, 2.35, 0.049), 8, wan_link), 0.952, 5e-4);
}

TEST(StreamModelTest, BestShareIsTheMinimumOverAllShares) {
  for (const double expert_mb : {0.05, 0.4, 1.0, 2.0, 2.35, 4.7, 20.0}) {
    for (const double pre_ms : {0.0, 0.049, 0.49, 4.0}) {
      const StreamLayer layer = layer_of(8, expert_mb, pre_ms);
      const double best = best_token_share(layer, 8, wan_link);
      ASSERT_GE(best, 0);
      ASSERT_LE(best, 1);
      const double least = stream_latency(layer, 8, wan_link, best).value;
      for (int i = 0; i <= 1000; ++i) {
        ASSERT_GE(stream_latency(layer, 8, wan_link, i / 1000.0).value, least - 1e-15)
            << expert_mb << " MB, PE " << pre_ms << " ms, p " << i / 1000.0;
      }
    }
  }
}

TEST(StreamModelTest, CompressionTurnsAMixIntoGatherOnly) {
  StreamLayer layer = layer_of(8, 4.7, 0.49);
  EXPECT_GT(best_token_share(layer, 8, wan_link), 0);
  layer.compression = 50;
  EXPECT_EQ(best_token_share(layer, 8, wan_link), 0);
  const DomainCost best = best_domains(layer, {{8, wan_link}});
  EXPECT_THAT(best.domains, ElementsAre(8));
  EXPECT_THAT(best.all_gather, ElementsAre(DoubleEq(7 * 4.7e6 / 50)));
  EXPECT_DOUBLE_EQ(best.gathered_memory, 7 * 4.7e6);  // decoded experts take their full size
  EXPECT_DOUBLE_EQ(best.latency.value, 0.49e-3);
}

TEST(StreamModelTest, LevelsRunInSeriesAndForwardWhatTheyGathered) {
  const StreamLayer layer{.tokens = Bytes(16), .experts = Bytes(3), .pre_expert = Seconds(1)};
  const std::vector<StreamLevel> levels = {{4, BytesPerSecond(2)}, {4, BytesPerSecond(8)}};
  const DomainCost cost = domain_cost(layer, levels, {2, 4});
  EXPECT_THAT(cost.all_gather, ElementsAre(3, 3 * 2 * 3));
  EXPECT_THAT(cost.all_to_all, ElementsAre(8, 0));
  EXPECT_DOUBLE_EQ(cost.gathered_memory, 7 * 3);
  EXPECT_DOUBLE_EQ(cost.latency.value, (3 / 2.0 + 18 / 8.0) + 2 * (8 / 2.0));
}

// Two levels of 2 and 8 bytes a second, domains of 2 and 4: gathers 3 / 2 + 18 / 8 = 3.75 s,
// all-to-alls 8 / 2 = 4 s each way.
TEST(StreamModelTest, TrainingCountsGradientsAndTheSharedExpert) {
  StreamLayer layer{.tokens = Bytes(16), .experts = Bytes(3), .pre_expert = Seconds(1)};
  std::vector<StreamLevel> levels = {{4, BytesPerSecond(2)}, {4, BytesPerSecond(8)}};
  const auto latency = [&](const std::vector<int>& domains) {
    return domain_cost(layer, levels, domains).latency.value;
  };
  layer.backward = {.gradients = Bytes(6), .shared = Seconds(2)};
  const double gradients = 6 / 2.0 + 36 / 8.0;
  EXPECT_DOUBLE_EQ(latency({2, 4}), (3.75 + 8) + (gradients + 2 + 8));
  layer.backward->regathers = true;
  EXPECT_DOUBLE_EQ(latency({2, 4}), (3.75 + 8) + (gradients + 2 + 3.75 + 8));
  layer.pre_expert = Seconds(10);  // hides both: twice as much of it backward
  EXPECT_DOUBLE_EQ(latency({2, 4}), (10 + 8) + (20 + 8));
  // Plain expert parallelism has none of it: 12 / 2 + 12 / 8 each way.
  EXPECT_DOUBLE_EQ(latency({1, 1}), (10 + 15) + (20 + 15));
  layer.backward.reset();
  layer.pre_expert = Seconds(1);
  layer.encode = Seconds(0.25);
  layer.decode = Seconds(0.125);  // of 7 other GPUs
  EXPECT_DOUBLE_EQ(latency({2, 4}), 3.75 + 0.25 + 7 * 0.125 + 8);
  levels[0].latency = Seconds(0.5);   // of the gather and of both all-to-alls
  levels[1].latency = Seconds(0.25);  // of the gather only: the level is one domain
  EXPECT_DOUBLE_EQ(latency({2, 4}), 3.75 + 0.25 + 7 * 0.125 + 8 + 3 * 0.5 + 0.25);
}

// Gathers of many layers hide behind the tokens and experts of all, as far as links have room.
TEST(StreamModelTest, GathersOfSeveralLayersHideBehindAllOfThem) {
  StreamLayer layer{.tokens = Bytes(16), .experts = Bytes(3), .pre_expert = Seconds(1)};
  const std::vector<StreamLevel> levels = {{4, BytesPerSecond(2)}, {4, BytesPerSecond(8)}};
  layer.layers = 4;
  layer.compute = Seconds(2);
  const auto latency = [&](const std::vector<int>& domains) {
    return domain_cost(layer, levels, domains).latency.value;
  };
  EXPECT_DOUBLE_EQ(latency({2, 4}), 1 + 2 + 8);  // gathers of 3.75 s hide
  layer.experts = Bytes(12);                     // level 0: 12 / 2 and twice 4 s
  EXPECT_DOUBLE_EQ(latency({2, 4}), 15 + (2 + 8) / 4.0);
  EXPECT_DOUBLE_EQ(latency({2, 1}), 6 + 2 * 4);  // links of level 0
  layer.backward = {.gradients = Bytes(12), .shared = Seconds(1)};
  EXPECT_DOUBLE_EQ(latency({2, 4}), (15 + 10 / 4.0) + (16 + 12 / 4.0));
}

// The shared expert by itself takes longer than all tokens: what Lat(S) as printed does not see.
TEST(StreamModelTest, ASharedExpertThatCostsMoreThanTokensKeepsExpertsAtHome) {
  StreamLayer layer = layer_of(3, 0.094, 0.099);
  EXPECT_THAT(best_domains(layer, {{8, wan_link}}).domains, ElementsAre(8));
  layer.backward = {.gradients = Bytes(94'000), .shared = Seconds(1e-3)};
  EXPECT_THAT(best_domains(layer, {{8, wan_link}}).domains, ElementsAre(1));
  layer.backward->shared = Seconds(1e-4);
  EXPECT_THAT(best_domains(layer, {{8, wan_link}}).domains, ElementsAre(8));
}

TEST(StreamModelTest, PlanIsTheLeastOfAllCombinationsAndTheLowestOnTies) {
  const StreamLayer layer{.tokens = Bytes(0), .experts = Bytes(0), .pre_expert = Seconds(1)};
  const std::vector<StreamLevel> levels = {{6, wan_link}, {4, wan_link}};
  EXPECT_EQ(domain_costs(layer, levels).size(), 4u * 3u);
  EXPECT_THAT(best_domains(layer, levels).domains, ElementsAre(1, 1));
  // A slow top level is worth gathering across; a fast bottom level is not.
  const StreamLayer real = layer_of(24, 0.36, 0.2);
  const auto best = best_domains(real, {{2, BytesPerSecond(1.25e9)}, {8, BytesPerSecond(1e12)}});
  EXPECT_EQ(best.domains[0], 2);
}

TEST(StreamModelTest, OneGpuMovesNothing) {
  const StreamLayer layer = layer_of(8, 4.7, 0.49);
  EXPECT_EQ(best_domains(layer, {{1, wan_link}}).latency, layer.pre_expert);
}

TEST(StreamModelTest, RefusesSizesThatDoNotDivide) {
  const StreamLayer layer = layer_of(8, 4.7, 0.49);
  EXPECT_THROW(domain_cost(layer, {{8, wan_link}}, {3}), Error);
  EXPECT_THROW(domain_cost(layer, {{8, wan_link}}, {2, 2}), Error);
  StreamLayer grows = layer;
  grows.compression = 0.5;
  EXPECT_THROW(domain_cost(grows, {{8, wan_link}}, {2}), Error);
}

}  // namespace
}  // namespace moesim
