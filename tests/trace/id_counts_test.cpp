// SPDX-License-Identifier: Apache-2.0
// Counts of ids, of pairs and of touched classes against sets, row by row.
#include "sim/trace/id_counts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "sim/trace/verify.h"

namespace moesim {
namespace {

/// Rows of different ids below `ids`.
template <class Id>
std::vector<Id> random_rows(std::mt19937& random, int rows, int top_k, int ids) {
  std::vector<Id> result;
  for (int row = 0; row < rows; ++row) {
    std::set<int> chosen;
    while (static_cast<int>(chosen.size()) < top_k) {
      const int id = static_cast<int>(random() % static_cast<unsigned>(ids));
      if (chosen.insert(id).second) result.push_back(static_cast<Id>(id));
    }
  }
  return result;
}

TEST(BitCounts, AreThoseOfSingleBits) {
  std::mt19937_64 random(1);
  for (const std::size_t words : {0, 1, 15, 16, 17, 250, 4079, 4080, 4096, 9000}) {
    std::vector<std::uint64_t> data(words);
    for (std::uint64_t& word : data) word = random() | random();
    std::vector<std::uint32_t> expected(64, 3), counts(64, 3);
    for (const std::uint64_t word : data) {
      for (std::size_t bit = 0; bit < 64; ++bit) expected[bit] += word >> bit & 1;
    }
    BitCounts bits;
    const std::span all(data);
    bits.add(all.first(words / 3));
    bits.add(all.subspan(words / 3));
    bits.finish(counts);
    EXPECT_EQ(counts, expected) << words;
    bits.finish(counts);
    EXPECT_EQ(counts, expected) << "nothing since the end of " << words;
  }
}

/// Several classifications of one counter, each against a set per row.
template <class Id>
void expect_touched_classes(std::mt19937& random, int ids, int classes, int top_k) {
  TouchCounter counter(static_cast<std::size_t>(ids));
  for (int trial = 0; trial < 3; ++trial) {
    std::map<std::uint32_t, std::uint32_t> class_of;
    std::vector<TouchCounter::Member> members;
    for (std::uint32_t id = 0; id < static_cast<std::uint32_t>(ids); ++id) {
      if (random() % 5 == 0) continue;  // of no class
      class_of[id] = static_cast<std::uint32_t>(random() % static_cast<unsigned>(classes));
      members.push_back({id, class_of[id]});
    }
    counter.start(members, static_cast<std::size_t>(classes));
    std::vector<std::uint32_t> expected(static_cast<std::size_t>(classes));
    for (const int rows : {0, 7, 5000}) {
      const auto data = random_rows<Id>(random, rows, top_k, ids);
      for (std::size_t row = 0; row < data.size(); row += static_cast<std::size_t>(top_k)) {
        std::set<std::uint32_t> touched;
        for (std::size_t k = row; k < row + static_cast<std::size_t>(top_k); ++k) {
          const auto found = class_of.find(data[k]);
          if (found != class_of.end()) touched.insert(found->second);
        }
        for (const std::uint32_t c : touched) ++expected[c];
      }
      counter.add(std::span<const Id>(data), top_k);
    }
    const auto counts = counter.finish();
    ASSERT_EQ(std::vector(counts.begin(), counts.end()), expected)
        << ids << " ids, " << classes << " classes, top-" << top_k;
  }
}

TEST(TouchCounter, CountsRowsWithAnIdOfTheClass) {
  std::mt19937 random(2);
  for (const int classes : {1, 3, 63, 64, 65, 200}) {
    for (const int top_k : {1, 2, 3, 4, 6, 8, 9}) {
      expect_touched_classes<std::uint8_t>(random, 256, classes, top_k);
      expect_touched_classes<std::uint16_t>(random, 300, classes, top_k);
      expect_touched_classes<std::uint32_t>(random, 70, classes, top_k);
    }
  }
}

template <class Id>
void expect_counts(std::mt19937& random, int experts, int ids, int top_k, int rows = 1003) {
  const auto n = static_cast<std::size_t>(experts);
  const auto data = random_rows<Id>(random, rows, top_k, ids);
  std::vector<std::uint32_t> counts(n, 1), expected(n, 1), pairs(n * n), expected_pairs(n * n);
  for (std::size_t row = 0; row < data.size(); row += static_cast<std::size_t>(top_k)) {
    for (std::size_t a = row; a < row + static_cast<std::size_t>(top_k); ++a) {
      if (data[a] >= n) continue;
      ++expected[data[a]];
      for (std::size_t b = a + 1; b < row + static_cast<std::size_t>(top_k); ++b) {
        if (data[b] < n) ++expected_pairs[data[a] * n + data[b]];
      }
    }
  }
  count_ids(std::span<const Id>(data), counts);
  EXPECT_EQ(counts, expected);
  IdCounter counter(n);
  const std::span<const Id> all(data);
  const std::size_t cut = data.size() / 3;
  for (int round = 0; round < 2; ++round) {
    std::ranges::fill(counts, 1U);
    counter.add(all.first(cut), counts);
    counter.add(all.subspan(cut), counts);
    counter.finish(counts);
    EXPECT_EQ(counts, expected) << "run by run";
  }
  if constexpr (sizeof(Id) < 4) {
    PairCounter of_pairs(n);
    of_pairs.add(all, top_k, pairs);
    of_pairs.finish(pairs);
    EXPECT_EQ(pairs, expected_pairs);
  }
}

TEST(IdCounts, OfIdsAndPairsLeaveOutWhatIsBeyond) {
  std::mt19937 random(3);
  for (const int top_k : {1, 2, 3, 6, 8}) {
    expect_counts<std::uint8_t>(random, 256, 256, top_k);
    expect_counts<std::uint8_t>(random, 20, 20, top_k);
    for (const int rows : {1, 31, 32, 40, 256}) {  // fewer than tables are worth
      expect_counts<std::uint8_t>(random, 256, 256, top_k, rows);
      expect_counts<std::uint8_t>(random, 20, 20, top_k, rows);
    }
    expect_counts<std::uint8_t>(random, top_k, top_k, top_k, 140000);  // more than 16 bits count
    expect_counts<std::uint16_t>(random, 300, 300, top_k);
    expect_counts<std::uint16_t>(random, 20, 30, top_k);  // a third of the choices dropped
    expect_counts<std::uint32_t>(random, 20, 30, top_k);
  }
}

/// Problems of one row among sound ones are found wherever they are.
TEST(CheckIds, FindsOneBadRowOfAnyLength) {
  std::mt19937 random(4);
  for (int top_k = 1; top_k <= 9; ++top_k) {
    for (const int experts : {9, 100, 255, 256}) {
      for (int trial = 0; trial < 40; ++trial) {
        const auto k = static_cast<std::size_t>(top_k);
        const int rows = 1 + static_cast<int>(random() % 200);
        auto ids = random_rows<std::uint8_t>(random, rows, top_k, experts);
        const IdRows view(ids.data(), 1, top_k, rows);
        ASSERT_FALSE(check_ids(view, experts).any());
        const std::size_t row = random() % static_cast<unsigned>(rows);
        const std::size_t a = random() % k, b = random() % k;
        const auto bad = static_cast<std::int64_t>(row);
        if (a != b) {
          ids[row * k + a] = ids[row * k + b];
          const IdProblems twice = check_ids(view, experts);
          ASSERT_EQ(twice.repeated, 1) << "top-" << top_k << " of " << experts;
          EXPECT_EQ(twice.repeated_token, bad);
          EXPECT_EQ(twice.repeated_id, ids[row * k + a]);
        } else if (experts < 256) {
          ids[row * k + a] = static_cast<std::uint8_t>(experts);
          const IdProblems beyond = check_ids(view, experts);
          ASSERT_EQ(beyond.out_of_range, 1) << "top-" << top_k << " of " << experts;
          EXPECT_EQ(beyond.out_of_range_token, bad);
          EXPECT_EQ(beyond.out_of_range_id, experts);
        }
      }
    }
  }
}

}  // namespace
}  // namespace moesim
