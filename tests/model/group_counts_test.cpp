// SPDX-License-Identifier: Apache-2.0
// Group counts against a stage-by-stage execution of the hierarchical dispatch of HierMoE.
#include "sim/model/group_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tests/model/one_token.h"

namespace moesim {
namespace {

using testing::ElementsAre;

struct Token {
  int source;
  std::vector<int> targets;  // GPU of each choice
};

GroupCounts count(const Nesting& nesting, CountReading reading, const std::vector<Token>& tokens) {
  GroupCounts counts(nesting, reading);
  for (const Token& token : tokens) {
    const std::vector<GpuId> targets(token.targets.begin(), token.targets.end());
    add_token(counts, GpuId(token.source), targets);
  }
  return counts;
}

/// What a dispatch moved, from executing it row by row.
struct Execution {
  struct Stage {
    std::map<std::pair<int, int>, std::int64_t> sent;  // (rank, group) -> rows, local ones too
    std::int64_t rows = 0, network = 0, across = 0;    // across: level-1 boundaries
  };
  std::vector<Stage> stages;
  std::set<std::pair<int, int>> delivered;  // (token, GPU)
};

/// A row on its way: a token and the choices that it still serves.
struct Row {
  int token;
  std::vector<int> targets;
};

Execution execute(const Nesting& u, int depth, const std::vector<Token>& tokens) {
  Execution result;
  std::vector<std::vector<Row>> held(static_cast<std::size_t>(u.gpus));
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    held[static_cast<std::size_t>(tokens[t].source)].push_back(
        {static_cast<int>(t), tokens[t].targets});
  }
  for (int stage = 1; stage <= depth; ++stage) {
    const int level = stage == depth ? u.depth() : stage;
    const int size = u.group_size(level);
    Execution::Stage& s = result.stages.emplace_back();
    std::vector<std::vector<Row>> next(held.size());
    for (int rank = 0; rank < u.gpus; ++rank) {
      for (const Row& row : held[static_cast<std::size_t>(rank)]) {
        std::map<int, std::vector<int>> parts;  // group -> targets in it
        for (const int target : row.targets) parts[target / size].push_back(target);
        for (const auto& [group, part] : parts) {
          const int to = group * size + rank % size;
          const int node = u.group_size(u.depth() > 1 ? 1 : 0);
          ++s.rows;
          ++s.sent[{rank, group}];
          s.network += to != rank;
          s.across += to / node != rank / node;
          next[static_cast<std::size_t>(to)].push_back({row.token, part});
        }
      }
    }
    held = std::move(next);
  }
  for (int rank = 0; rank < u.gpus; ++rank) {
    for (const Row& row : held[static_cast<std::size_t>(rank)]) {
      EXPECT_THAT(row.targets, testing::Each(rank));
      EXPECT_TRUE(result.delivered.insert({row.token, rank}).second);
    }
  }
  return result;
}

/// One token per choice: what the collective without deduplication moves.
std::vector<Token> split(const std::vector<Token>& tokens) {
  std::vector<Token> single;
  for (const Token& token : tokens) {
    for (const int target : token.targets) single.push_back({token.source, {target}});
  }
  return single;
}

std::vector<Token> random_tokens(std::mt19937& random, int gpus) {
  std::vector<Token> tokens;
  for (int i = 0; i < 10 * gpus; ++i) {
    Token token{static_cast<int>(random() % gpus), {}};
    const unsigned width = random() % 2 == 0 ? gpus : 1 + gpus / 4;  // some GPUs are popular
    for (auto k = 1 + random() % 8; k > 0; --k) {
      token.targets.push_back(static_cast<int>(random() % width));
    }
    tokens.push_back(token);
  }
  return tokens;
}

std::int64_t sum(const std::vector<std::int64_t>& values) {
  std::int64_t total = 0;
  for (const std::int64_t v : values) total += v;
  return total;
}

/// Every rank of a stage sends C[l][j] to the groups j of its own outer group, and nothing else.
void expect_sent(const Nesting& u, const Execution::Stage& stage, const GroupCounts& counts,
                 int within, int level, Copies copies) {
  const auto c = counts.by_index(within, level, copies);
  for (int rank = 0; rank < u.gpus; ++rank) {
    for (int group = 0; group < u.groups_at(level); ++group) {
      const bool own =
          group * u.group_size(level) / u.group_size(within) == rank / u.group_size(within);
      const auto found = stage.sent.find({rank, group});
      const auto l = static_cast<std::size_t>(rank % u.group_size(within));
      ASSERT_EQ(found == stage.sent.end() ? 0 : found->second,
                own ? c[l][static_cast<std::size_t>(group)] : 0)
          << "rank " << rank << " to group " << group;
    }
  }
}

class RandomRouting : public testing::TestWithParam<Nesting> {};

TEST_P(RandomRouting, ExecutionSendsTheCountsAndKeepsItsInvariants) {
  const Nesting& u = GetParam();
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    const std::vector<Token> tokens = random_tokens(random, u.gpus);
    const GroupCounts counts = count(u, CountReading::max, tokens);
    const Execution flat = execute(u, 1, tokens);
    std::int64_t across_before = flat.stages[0].across;
    for (int d = 1; d <= u.depth(); ++d) {
      SCOPED_TRACE(d);
      const Execution hd = execute(u, d, tokens);
      const Execution h = execute(u, d, split(tokens));
      std::int64_t across = 0;
      for (int stage = 1; stage <= d; ++stage) {
        const int level = stage == d ? u.depth() : stage;
        const Execution::Stage& moved = hd.stages[static_cast<std::size_t>(stage - 1)];
        expect_sent(u, moved, counts, stage - 1, level, Copies::per_group);
        expect_sent(u, h.stages[static_cast<std::size_t>(stage - 1)], counts, stage - 1, level,
                    Copies::per_choice);
        EXPECT_EQ(moved.rows, sum(totals(counts, level, Copies::per_group)));
        across += moved.across;
      }
      EXPECT_EQ(hd.delivered, flat.delivered);
      EXPECT_LE(across, across_before);
      across_before = across;
    }
  }
}

TEST_P(RandomRouting, MaxIsAtLeastMean) {
  const Nesting& u = GetParam();
  std::mt19937 random(11);
  for (int round = 0; round < 20; ++round) {
    const std::vector<Token> tokens = random_tokens(random, u.gpus);
    for (const Copies copies : {Copies::per_group, Copies::per_choice}) {
      const StageRows mean = count(u, CountReading::mean, tokens).stage_rows(copies);
      const StageRows max = count(u, CountReading::max, tokens).stage_rows(copies);
      EXPECT_GE(max.flat, mean.flat);
      for (std::size_t i = 0; i < mean.inter.size(); ++i) {
        EXPECT_GE(max.inter[i], mean.inter[i]);
        EXPECT_GE(max.intra[i], mean.intra[i]);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Hierarchies, RandomRouting,
                         testing::Values(Nesting{16, {1, 2, 4, 8}}, Nesting{32, {1, 4, 8, 16}},
                                         Nesting{12, {1, 3, 6}}, Nesting{5, {1}}),
                         [](const auto& u) { return "G" + std::to_string(u.param.gpus); });

// Two nodes of two GPUs, expert e on GPU e.
const Nesting two_by_two{4, {1, 2}};
const std::vector<Token> four_tokens = {{0, {0, 2}}, {1, {0, 2}}, {2, {1, 3}}, {3, {0, 1}}};

TEST(FourGpus, CopiesOfEveryStage) {
  const Execution hd1 = execute(two_by_two, 1, four_tokens);
  EXPECT_EQ(hd1.stages[0].network, 7);
  EXPECT_EQ(hd1.stages[0].across, 5);
  EXPECT_EQ(hd1.stages[0].rows, 8);
  const Execution hd2 = execute(two_by_two, 2, four_tokens);
  EXPECT_EQ(hd2.stages[0].network, 4);
  EXPECT_EQ(hd2.stages[0].across, 4);
  EXPECT_EQ(hd2.stages[0].rows, 7);
  EXPECT_EQ(hd2.stages[1].network, 5);
  EXPECT_EQ(hd2.stages[1].across, 0);
  EXPECT_EQ(hd2.stages[1].rows, 8);
}

TEST(FourGpus, RowsUnderBothReadings) {
  const GroupCounts mean = count(two_by_two, CountReading::mean, four_tokens);
  EXPECT_THAT(totals(mean, 1, Copies::per_group), ElementsAre(4, 3));
  EXPECT_THAT(totals(mean, 2, Copies::per_group), ElementsAre(3, 2, 2, 1));
  EXPECT_THAT(totals(mean, 1, Copies::per_choice), ElementsAre(5, 3));
  StageRows rows = mean.stage_rows(Copies::per_group);
  EXPECT_EQ(rows.flat, 3);
  EXPECT_THAT(rows.inter, ElementsAre(2));
  EXPECT_THAT(rows.intra, ElementsAre(3));

  rows = count(two_by_two, CountReading::max, four_tokens).stage_rows(Copies::per_group);
  EXPECT_EQ(rows.flat, 4);
  EXPECT_THAT(rows.inter, ElementsAre(2));
  EXPECT_THAT(rows.intra, ElementsAre(4));
}

TEST(GroupCounts, CountsRanksFromItsFirst) {
  GroupCounts counts({2, {1}}, CountReading::max, GpuId(6));
  add_token(counts, GpuId(7), std::vector<GpuId>{GpuId(6), GpuId(6)});
  EXPECT_THAT(counts.by_index(0, 1, Copies::per_group),
              ElementsAre(ElementsAre(0, 0), ElementsAre(1, 0)));
  EXPECT_THAT(counts.by_index(0, 1, Copies::per_choice),
              ElementsAre(ElementsAre(0, 0), ElementsAre(2, 0)));
}

TEST(GroupCounts, MeanKeepsNoCountsPerIndex) {
  EXPECT_THROW(GroupCounts(two_by_two, CountReading::mean).by_index(0, 1, Copies::per_group),
               std::logic_error);
}

}  // namespace
}  // namespace moesim
