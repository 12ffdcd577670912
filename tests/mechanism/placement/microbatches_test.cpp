// SPDX-License-Identifier: Apache-2.0
// The microbatches of an iteration are one step to every planner that looks back.
#include <gtest/gtest.h>

#include <ostream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/mechanism/placement/training/training_play.h"

namespace moesim {
namespace {

struct LooksBack {
  const char* name;
  const char* text;
  friend void PrintTo(const LooksBack& p, std::ostream* out) { *out << p.name; }
};

constexpr int experts = 16, top_k = 3, ranks = 4;

/// Choices of one rank's tokens.
std::vector<int> choices(std::mt19937& random, int tokens) {
  std::vector<int> result;
  for (int t = 0; t < tokens; ++t) {
    std::set<int> chosen;
    while (static_cast<int>(chosen.size()) < top_k) {
      const int e = static_cast<int>(std::min(random() % experts, random() % experts));
      if (chosen.insert(e).second) result.push_back(e);
    }
  }
  return result;
}

class Microbatches : public testing::TestWithParam<LooksBack> {};

TEST_P(Microbatches, AreOneStep) {
  const MoeModel model = toy_model(experts, top_k);
  TrainingPlay whole(GetParam().text, model, ranks, 2), parts(GetParam().text, model, ranks, 2);
  std::mt19937 random(5);
  const auto moved_and_held = [](const LayerDecision& d) {
    return std::pair(d.migrate.size(), experts_of(d));
  };
  int changes = 0;
  Experts last;
  for (int step = 0; step < 8; ++step) {
    std::vector<std::vector<int>> all(2), first(2), second(2);  // [layer]
    for (int layer = 0; layer < 2; ++layer) {
      for (int rank = 0; rank < ranks; ++rank) {
        const auto own = choices(random, 12), more = choices(random, 12);
        for (const auto& [list, part] :
             {std::pair(&all, &own), {&all, &more}, {&first, &own}, {&second, &more}}) {
          auto& ids = (*list)[static_cast<std::size_t>(layer)];
          ids.insert(ids.end(), part->begin(), part->end());
        }
      }
    }
    std::vector<std::pair<std::size_t, Experts>> of_whole, of_parts;
    for (int layer = 0; layer < 2; ++layer) {
      const auto l = static_cast<std::size_t>(layer);
      of_whole.push_back(moved_and_held(whole.show(all[l], layer)));
      of_parts.push_back(moved_and_held(parts.show(first[l], layer)));
    }
    for (int layer = 0; layer < 2; ++layer) {
      parts.show(second[static_cast<std::size_t>(layer)], layer, false);
    }
    EXPECT_EQ(of_whole, of_parts) << "step " << step;
    changes += of_whole[0].second == last ? 0 : 1;
    last = of_whole[0].second;
  }
  EXPECT_GE(changes, 2);
}

INSTANTIATE_TEST_SUITE_P(
    All, Microbatches,
    testing::Values(LooksBack{"eplb", "{kind: eplb, interval: 2, first: 2, window: 2}"},
                    LooksBack{"occult", "{kind: occult, profile: 2, interval: 2, window: 2}"},
                    LooksBack{"moetuner", "{kind: moetuner, profile: 2}"},
                    LooksBack{"exflow", "{kind: exflow, profile: 2}"},
                    LooksBack{"grouping", "{kind: dynamic-grouping, interval: 2, rate: 0.4}"},
                    LooksBack{"grace", "{kind: grace, profile: 2}"},
                    LooksBack{"last", "{kind: predictive-replication, predictor: last, lag: 2}"},
                    LooksBack{"ema", "{kind: predictive-replication, predictor: ema, beta: 0.5}"},
                    LooksBack{"old_ema", "{kind: predictive-replication, predictor: ema, lag: 2}"},
                    LooksBack{"trt_llm", "{kind: trt-llm, updates_per_iteration: 2, decay: 0.5}"}),
    [](const auto& info) { return info.param.name; });

/// Of several microbatches the last one decides which experts are swapped.
TEST(MicrobatchesOfSwaps, CountAsOneStep) {
  const MoeModel model = toy_model(experts, top_k);
  const std::string text = "{kind: expert-swap, depth: 2, interval: 2, pairs: 4}";
  TrainingPlay whole(text, model, ranks), parts(text, model, ranks);
  // Experts that tokens choose together are on both nodes, other ones in the first microbatch.
  std::vector<int> ids, before;
  for (int token = 0; token < 6 * ranks; ++token) {
    ids.insert(ids.end(), {0, 1, 8, 12, 13, 4});
    before.insert(before.end(), {2, 3, 10, 14, 15, 6});
  }
  Experts start;
  for (int step = 0; step < 6; ++step) {
    const Experts held = experts_of(whole.show(ids));
    EXPECT_EQ(held, experts_of(parts.show(before))) << "step " << step;
    parts.show(ids, 0, false);
    if (step == 0) start = held;
    EXPECT_EQ(held == start, step < 2) << "step " << step;
  }
}

}  // namespace
}  // namespace moesim
