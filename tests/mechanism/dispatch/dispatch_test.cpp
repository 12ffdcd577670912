// SPDX-License-Identifier: Apache-2.0
// Dispatch mechanisms against hand counts, closed forms and an independent enumeration.
#include "sim/mechanism/dispatch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "tests/mechanism/layer_tokens.h"

namespace moesim {
namespace {

std::uint64_t sum(const RowTable& counts, bool diagonal, int gpus) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto n = static_cast<std::size_t>(gpus);
    if (diagonal || i / n != i % n) total += counts[i];
  }
  return total;
}

// Reference oracle 4.3: 4 GPUs, one token per rank: {1,3} {1,3} {2,4} {1,2} (experts from 1).
TEST(Dispatch, FourGpuExampleOfHierMoE) {
  const Tokens tokens(4, 4, 2, 1, {0, 2, 0, 2, 1, 3, 0, 1}, 4);
  const auto dedup = make_dispatch("dedup")->count(tokens.view());
  EXPECT_EQ(sum(dedup.phases[0], false, 4), 7u);  // 7 network copies ...
  EXPECT_EQ(sum(dedup.phases[0], true, 4), 8u);   // ... and 1 local
  std::uint64_t between_nodes = 0;
  for (std::size_t from = 0; from < 4; ++from) {
    for (std::size_t to = 0; to < 4; ++to) {
      if (from / 2 != to / 2) between_nodes += dedup.phases[0][from * 4 + to];
    }
  }
  EXPECT_EQ(between_nodes, 5u);
  EXPECT_EQ(dedup.slots, (std::vector<std::int64_t>{3, 2, 2, 1}));
}

TEST(Dispatch, DeduplicationMergesChoicesOfOneGpu) {
  // Two GPUs of two experts; one token on GPU 0 with experts {2, 3}, one on GPU 1 with {0, 3}.
  const Tokens tokens(2, 4, 2, 1, {2, 3, 0, 3}, 2);
  EXPECT_EQ(make_dispatch("alltoall")->count(tokens.view()).phases[0],
            (std::vector<std::uint32_t>{0, 2, 1, 1}));
  EXPECT_EQ(make_dispatch("dedup")->count(tokens.view()).phases[0],
            (std::vector<std::uint32_t>{0, 1, 1, 1}));
  const auto rows = make_dispatch("dedup")->rows(tokens.view());
  EXPECT_EQ(rows[0][0], (RowMove{GpuId(0), GpuId(1), TokenId(0), 0b11}));
}

// Copies, loads and rows of random cases against a count that shares no code with the mechanisms.
TEST(Dispatch, RandomCasesEqualAnIndependentEnumeration) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 2000; ++trial) {
    const int ep = 1 << (random() % 4);
    const int gpus = ep << (random() % 2);
    const int experts = ep * static_cast<int>(1 + random() % 4);
    const int top_k = static_cast<int>(1 + random() % static_cast<unsigned>(std::min(experts, 8)));
    const auto per_rank = static_cast<std::int64_t>(random() % 5);
    const auto ids = random_ids(random, gpus * per_rank, experts, top_k);
    const Tokens tokens(gpus, experts, top_k, per_rank, ids, ep);
    std::map<std::pair<int, int>, std::uint32_t> copies, deduplicated;
    std::vector<std::int64_t> loads(static_cast<std::size_t>(experts * (gpus / ep)));
    for (int t = 0; t < gpus * per_rank; ++t) {
      const int source = t / static_cast<int>(per_rank);
      std::set<int> targets;
      for (int k = 0; k < top_k; ++k) {
        const int e = ids[static_cast<std::size_t>(t * top_k + k)];
        const int gpu = source / ep * ep + e / (experts / ep);
        ++copies[{source, gpu}];
        targets.insert(gpu);
        ++loads[static_cast<std::size_t>(gpu * (experts / ep) + e % (experts / ep))];
      }
      for (int gpu : targets) ++deduplicated[{source, gpu}];
    }
    for (const auto& [name, expected] :
         {std::pair("alltoall", copies), std::pair("dedup", deduplicated)}) {
      const auto counts = make_dispatch(name)->count(tokens.view());
      const auto rows = make_dispatch(name)->rows(tokens.view());
      std::map<std::pair<int, int>, std::uint32_t> listed;
      for (const RowMove& row : rows[0]) ++listed[{row.from.value, row.to.value}];
      EXPECT_EQ(listed, expected) << name;
      EXPECT_EQ(counts.slots, loads) << name;
      for (int from = 0; from < gpus; ++from) {
        for (int to = 0; to < gpus; ++to) {
          const auto it = expected.find({from, to});
          ASSERT_EQ(counts.phases[0][static_cast<std::size_t>(from * gpus + to)],
                    it == expected.end() ? 0 : it->second)
              << name << " " << from << " -> " << to;
        }
      }
    }
  }
}

double choose(int n, int k) {
  return std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1));
}

struct Uniform {
  int experts, top_k, ranks;
  double distinct;  // the table of reference oracle 4.1
};

class DuplicationRate : public testing::TestWithParam<Uniform> {};

// distinct(R) = R (1 - C(E - E/R, K) / C(E, K)) for uniform top-K without replacement.
TEST_P(DuplicationRate, OfUniformRoutingMatchesTheClosedForm) {
  const auto [experts, top_k, ranks, table] = GetParam();
  const double closed =
      ranks * (1 - choose(experts - experts / ranks, top_k) / choose(experts, top_k));
  EXPECT_NEAR(closed, table, 5e-5);
  std::mt19937 random(7);
  const std::int64_t per_rank = 40000 / ranks;
  const std::int64_t count = per_rank * ranks;
  const Tokens tokens(ranks, experts, top_k, per_rank, random_ids(random, count, experts, top_k),
                      ranks);
  const auto copies = make_dispatch("dedup")->count(tokens.view());
  const double distinct =
      static_cast<double>(sum(copies.phases[0], true, ranks)) / static_cast<double>(count);
  EXPECT_NEAR(distinct, closed, 0.02);  // more than 4 standard errors of 40,000 tokens
  const auto flat = make_dispatch("alltoall")->count(tokens.view());
  EXPECT_EQ(sum(flat.phases[0], true, ranks), static_cast<std::uint64_t>(count * top_k));
}
INSTANTIATE_TEST_SUITE_P(Oracle41, DuplicationRate,
                         testing::Values(Uniform{128, 8, 2, 1.9938}, Uniform{128, 8, 4, 3.6290},
                                         Uniform{128, 8, 8, 5.3394}, Uniform{128, 8, 16, 6.5965},
                                         Uniform{128, 8, 32, 7.3594}, Uniform{128, 10, 2, 1.9987},
                                         Uniform{128, 10, 4, 3.8011}, Uniform{128, 10, 8, 6.0041},
                                         Uniform{128, 10, 16, 7.8134}, Uniform{128, 10, 32, 8.9814},
                                         Uniform{64, 8, 4, 3.6590}, Uniform{64, 8, 32, 7.5556},
                                         Uniform{256, 8, 2, 1.9930}, Uniform{256, 8, 4, 3.6142},
                                         Uniform{256, 8, 8, 5.2947}, Uniform{256, 8, 16, 6.5233},
                                         Uniform{256, 8, 32, 7.2668}, Uniform{64, 8, 1, 1.0},
                                         Uniform{16, 4, 16, 4.0}));

}  // namespace
}  // namespace moesim
