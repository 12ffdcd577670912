// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/hybrid/domains.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "sim/base/error.h"
#include "sim/mechanism/placement/hybrid/stream_model.h"
#include "tests/mechanism/placement/hybrid/token_exchanges.h"

namespace moesim {
namespace {

ExpertDomains flat(int gpus, int domain) { return ExpertDomains({{gpus, domain}}); }

SlotTable home_of(int experts, int gpus) {
  return contiguous_placement(experts, gpus, gpus).table();
}

/// Uneven loads without a pattern: every source and expert differ.
LoadMatrix uneven_loads(int gpus, int experts) {
  LoadMatrix loads(gpus, experts);
  for (int g = 0; g < gpus; ++g)
    for (int e = 0; e < experts; ++e) loads.at(GpuId(g), ExpertId(e)) = (g * 7 + e * 13) % 11;
  return loads;
}

Bytes sent_by(const ByteMatrix& matrix, GpuId gpu) {
  Bytes sum(0);
  for (const auto& entry : matrix.row(gpu))
    if (entry.to != gpu) sum += matrix.bytes(entry);
  return sum;
}

/// Ordered GPU pairs of one level.
struct DomainPairs {
  std::int64_t all_to_all = 0;
  std::int64_t all_gather = 0;
  bool operator==(const DomainPairs&) const = default;
};

DomainPairs pairs(const ExpertDomains& domains, int level) {
  DomainPairs count;
  for (int m = 0; m < domains.gpus(); ++m) {
    for (int n = 0; n < domains.gpus(); ++n) {
      const DomainRelation relation = domains.relation(GpuId(m), GpuId(n), level);
      count.all_gather += relation == DomainRelation::all_gather;
      count.all_to_all += relation == DomainRelation::all_to_all;
    }
  }
  return count;
}

TEST(ExpertDomainsTest, PairCountsOfThePublishedTable) {
  const std::map<int, std::vector<DomainPairs>> table = {
      {8, {{56, 0}, {24, 8}, {8, 24}, {0, 56}}},
      {16, {{240, 0}, {112, 16}, {48, 48}, {16, 112}, {0, 240}}},
      {32, {{992, 0}, {480, 32}, {224, 96}, {96, 224}, {32, 480}, {0, 992}}},
  };
  for (const auto& [gpus, rows] : table) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(pairs(flat(gpus, 1 << i), 0), rows[i]) << gpus << " GPUs, S " << (1 << i);
    }
  }
}

TEST(ExpertDomainsTest, PairsOfTwoLevels) {
  const ExpertDomains domains({{4, 2}, {4, 4}});
  EXPECT_EQ(pairs(domains, 0), (DomainPairs{.all_to_all = 16, .all_gather = 16}));
  EXPECT_EQ(pairs(domains, 1), (DomainPairs{.all_to_all = 0, .all_gather = 48}));
}

TEST(ExpertDomainsTest, PairsPerLevelFollowTheClosedForm) {
  for (const int s0 : {1, 3}) {
    for (const int s1 : {1, 2, 4}) {
      for (const int s2 : {1, 2}) {
        const std::vector<DomainLevel> levels = {{3, s0}, {4, s1}, {2, s2}};
        const ExpertDomains domains(levels);
        for (int l = 0; l < 3; ++l) {
          const auto [workers, size] = levels[static_cast<std::size_t>(l)];
          EXPECT_EQ(pairs(domains, l), (DomainPairs{.all_to_all = 24 * (workers / size - 1),
                                                    .all_gather = 24 * (size - 1)}));
        }
      }
    }
  }
}

// Algorithm 1 as printed compares the finer indices only: GPUs of all nodes meet at the level of
// GPUs, four times as many pairs.
TEST(ExpertDomainsTest, PairsOfTwoLevelsByThePrintedRule) {
  const ExpertDomains domains({{4, 2}, {4, 4}}, DomainMatch::finer);
  EXPECT_EQ(pairs(domains, 0), (DomainPairs{.all_to_all = 16, .all_gather = 16}));
  EXPECT_EQ(pairs(domains, 1), (DomainPairs{.all_to_all = 0, .all_gather = 192}));
  const ExpertDomains halves({{4, 2}, {4, 2}}, DomainMatch::finer);
  EXPECT_EQ(pairs(halves, 1), (DomainPairs{.all_to_all = 64, .all_gather = 64}));
}

TEST(ExpertDomainsTest, ThePrintedRuleServesEveryTokenWhereItsExpertsAre) {
  for (const int outer : {1, 2, 4}) {
    for (const int inner : {1, 2, 3, 6}) {
      const ExpertDomains domains({{4, outer}, {6, inner}}, DomainMatch::finer);
      const SlotTable home = home_of(48, 24);
      const SlotTable held = domains.gathered(home);
      std::int64_t gathered = 0, received = 0;
      for (const auto& level : domains.gather_exchanges(home, Bytes(10))) {
        received += level.total().value;
      }
      for (int m = 0; m < 24; ++m) {
        gathered += 10 * (std::ssize(held[m]) - std::ssize(home[m]));
        for (int h = 0; h < 24; ++h) {
          const GpuId serving = domains.serving(GpuId(m), GpuId(h));
          for (const ExpertId e : home[h]) {
            EXPECT_EQ(std::count(held[serving.index()].begin(), held[serving.index()].end(), e), 1);
          }
          if (serving == GpuId(m)) continue;
          bool meet = false;
          for (int l = 0; l < 2; ++l) {
            meet |= domains.relation(GpuId(m), serving, l) == DomainRelation::all_to_all;
          }
          EXPECT_TRUE(meet) << m << " to " << serving.value;
        }
      }
      EXPECT_EQ(received, gathered);
    }
  }
}

TEST(ExpertDomainsTest, CoordinatesCountTheFinestLevelFastest) {
  const ExpertDomains domains({{2, 1}, {3, 3}, {4, 2}});
  EXPECT_EQ(domains.gpus(), 24);
  const GpuId gpu(1 * 12 + 2 * 4 + 3);
  EXPECT_EQ(domains.coordinate(gpu, 0), 1);
  EXPECT_EQ(domains.coordinate(gpu, 1), 2);
  EXPECT_EQ(domains.coordinate(gpu, 2), 3);
}

TEST(ExpertDomainsTest, EveryHopMeetsAnAllToAllPartnerAndEndsWhereTheExpertsAre) {
  const ExpertDomains domains({{4, 2}, {6, 3}});
  const SlotTable home = home_of(48, 24);
  const SlotTable held = domains.gathered(home);
  for (int m = 0; m < 24; ++m) {
    for (int h = 0; h < 24; ++h) {
      GpuId at(m);
      for (int level = 0; level < 2; ++level) {
        const GpuId to = domains.hop(at, GpuId(h), level);
        if (to != at) {
          EXPECT_EQ(domains.relation(at, to, level), DomainRelation::all_to_all);
        }
        at = to;
      }
      EXPECT_EQ(at, domains.serving(GpuId(m), GpuId(h)));
      for (const ExpertId e : home[static_cast<std::size_t>(h)]) {
        EXPECT_EQ(std::count(held[at.index()].begin(), held[at.index()].end(), e), 1);
      }
    }
  }
}

TEST(ExpertDomainsTest, GathersDeliverExactlyTheExpertsThatAGpuLacks) {
  const ExpertDomains domains({{4, 2}, {4, 4}});
  const SlotTable home = home_of(32, 16), held = domains.gathered(home);
  const auto gathers = domains.gather_exchanges(home, Bytes(10));
  ASSERT_EQ(gathers.size(), 2u);
  for (int gpu = 0; gpu < 16; ++gpu) {
    EXPECT_EQ(held[static_cast<std::size_t>(gpu)].size(), 2u * 2 * 4);
    Bytes received(0);
    for (const auto& level : gathers) received += sent_by(level.transposed(), GpuId(gpu));
    EXPECT_EQ(received, Bytes(10 * (2 * 2 * 4 - 2)));
  }
  EXPECT_EQ(held[0],
            (std::vector<ExpertId>{ExpertId(0), ExpertId(1), ExpertId(2), ExpertId(3), ExpertId(4),
                                   ExpertId(5), ExpertId(6), ExpertId(7), ExpertId(8), ExpertId(9),
                                   ExpertId(10), ExpertId(11), ExpertId(12), ExpertId(13),
                                   ExpertId(14), ExpertId(15)}));
}

TEST(ExpertDomainsTest, GathersWithUnevenExpertsForwardWhatIsThere) {
  const ExpertDomains domains({{2, 2}, {2, 2}});
  const SlotTable home = {
      {ExpertId(0), ExpertId(1), ExpertId(2)}, {ExpertId(3)}, {}, {ExpertId(4)}};
  const auto gathers = domains.gather_exchanges(home, Bytes(1));
  EXPECT_EQ(gathers[0].at(GpuId(0), GpuId(2)), Bytes(3));
  EXPECT_EQ(gathers[0].at(GpuId(2), GpuId(0)), Bytes(0));
  EXPECT_EQ(gathers[1].at(GpuId(0), GpuId(1)), Bytes(3));
  EXPECT_EQ(gathers[1].at(GpuId(3), GpuId(2)), Bytes(2));
  for (const auto& experts : domains.gathered(home)) EXPECT_EQ(experts.size(), 5u);
}

TEST(ExpertDomainsTest, GradientsTakeTheWayOfTheExpertsBackwards) {
  const ExpertDomains domains({{4, 2}, {4, 4}});
  const SlotTable home = home_of(16, 16);
  const auto gathers = domains.gather_exchanges(home, Bytes(6));
  const auto reduces = domains.reduce_exchanges(home, Bytes(6));
  ASSERT_EQ(reduces.size(), 2u);
  EXPECT_EQ(reduces[0], gathers[1].transposed());
  EXPECT_EQ(reduces[1], gathers[0].transposed());
  // Two experts against one: GPU 1 returns two gradients to GPU 0 and gets one back.
  const ExpertDomains pair({{2, 2}});
  const SlotTable uneven = {{ExpertId(0), ExpertId(1)}, {ExpertId(2)}};
  const auto back = pair.reduce_exchanges(uneven, Bytes(6));
  EXPECT_EQ(back[0].at(GpuId(1), GpuId(0)), Bytes(12));
  EXPECT_EQ(back[0].at(GpuId(0), GpuId(1)), Bytes(6));
}

TEST(ExpertDomainsTest, BytesMatchTheModelWhenRoutingIsEven) {
  const std::vector<DomainLevel> levels = {{4, 2}, {6, 3}};
  const ExpertDomains domains(levels);
  LoadMatrix loads(24, 48);
  for (int g = 0; g < 24; ++g)
    for (int e = 0; e < 48; ++e) loads.at(GpuId(g), ExpertId(e)) = 5;
  const StreamLayer layer{
      .tokens = Bytes(48 * 5 * 100), .experts = Bytes(2 * 10), .pre_expert = {}};
  const DomainCost cost =
      domain_cost(layer, {{4, BytesPerSecond(1)}, {6, BytesPerSecond(1)}}, {2, 3});
  const auto tokens = token_exchanges(domains, loads, home_of(48, 24), Bytes(100));
  const auto gathers = domains.gather_exchanges(home_of(48, 24), Bytes(10));
  for (int gpu = 0; gpu < 24; ++gpu) {
    for (std::size_t l = 0; l < 2; ++l) {
      EXPECT_EQ(static_cast<double>(sent_by(tokens[l], GpuId(gpu)).value), cost.all_to_all[l]);
      EXPECT_EQ(static_cast<double>(sent_by(gathers[l].transposed(), GpuId(gpu)).value),
                cost.all_gather[l]);
    }
  }
}

TEST(ExpertDomainsTest, DomainsOfOneArePlainExpertParallelismByteForByte) {
  const LoadMatrix loads = uneven_loads(8, 16);
  const auto exchanges = token_exchanges(flat(8, 1), loads, home_of(16, 8), Bytes(7));
  ASSERT_EQ(exchanges.size(), 1u);
  for (int from = 0; from < 8; ++from) {
    for (int to = 0; to < 8; ++to) {
      const std::int64_t choices =
          loads.at(GpuId(from), ExpertId(2 * to)) + loads.at(GpuId(from), ExpertId(2 * to + 1));
      EXPECT_EQ(exchanges[0].at(GpuId(from), GpuId(to)), Bytes(7 * choices));
    }
  }
  EXPECT_EQ(flat(8, 1).gathered(home_of(16, 8)), home_of(16, 8));
  EXPECT_EQ(flat(8, 1).gather_exchanges(home_of(16, 8), Bytes(5))[0].total(), Bytes(0));
}

TEST(ExpertDomainsTest, TokenBytesAndBytesReplacedByGathersAddUpToPlainExpertParallelism) {
  const LoadMatrix loads = uneven_loads(8, 16);
  const SlotTable home = home_of(16, 8);
  const ByteMatrix plain = token_exchanges(flat(8, 1), loads, home, Bytes(7))[0];
  for (const int size : {1, 2, 4, 8}) {
    const ExpertDomains domains = flat(8, size);
    const ByteMatrix tokens = token_exchanges(domains, loads, home, Bytes(7))[0];
    EXPECT_EQ(tokens.total(), plain.total());
    for (int gpu = 0; gpu < 8; ++gpu) {
      Bytes replaced(0);  // what plain expert parallelism sends to the GPUs of the own domain
      for (int to = 0; to < 8; ++to) {
        if (domains.relation(GpuId(gpu), GpuId(to), 0) == DomainRelation::all_gather)
          replaced += plain.at(GpuId(gpu), GpuId(to));
      }
      EXPECT_EQ(sent_by(tokens, GpuId(gpu)) + replaced, sent_by(plain, GpuId(gpu))) << size;
    }
  }
}

TEST(ExpertDomainsTest, RefusesWhatDoesNotFit) {
  EXPECT_THROW(ExpertDomains({}), Error);
  EXPECT_THROW(flat(8, 3), Error);
  EXPECT_THROW(flat(8, 2).gathered(home_of(16, 4)), Error);
}

}  // namespace
}  // namespace moesim
