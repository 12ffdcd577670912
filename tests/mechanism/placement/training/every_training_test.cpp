// SPDX-License-Identifier: Apache-2.0
// What holds for every placement of a training system, on random routing of two layers.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <random>
#include <set>
#include <string>

#include "tests/mechanism/placement/training/training_play.h"

namespace moesim {
namespace {

// What holds for all of them, on random routing of two layers.
struct Property {
  const char* name;
  const char* text;
  int ep;
  friend void PrintTo(const Property& p, std::ostream* out) { *out << p.name << p.ep; }
};

class TrainingPlacements : public testing::TestWithParam<Property> {
 protected:
  static constexpr int experts = 16;
  static constexpr int top_k = 3;
  TrainingPlay play() const {
    return TrainingPlay(GetParam().text, toy_model(experts, top_k), GetParam().ep, 2);
  }
  /// More and more tokens of low experts.
  static std::vector<int> ids(unsigned seed) {
    std::mt19937 random(seed);
    std::vector<int> result;
    for (int t = 0; t < 4 * 32; ++t) {
      std::set<int> chosen;
      while (static_cast<int>(chosen.size()) < top_k) {
        const int e = static_cast<int>(std::min(random() % experts, random() % experts));
        if (chosen.insert(e).second) result.push_back(e);
      }
    }
    return result;
  }
};

TEST_P(TrainingPlacements, EveryRunHasEveryExpert) {
  TrainingPlay p = play();
  for (unsigned s = 0; s < 6; ++s) {
    for (int layer = 0; layer < 2; ++layer) {
      const LayerDecision d = p.show(ids(2 * s + static_cast<unsigned>(layer)), layer);
      for (int rank = 0; rank < 4; ++rank) {
        for (int e = 0; e < experts; ++e) {
          const int gpu = d.assignment.gpu(GpuId(rank), ExpertId(e)).value;
          EXPECT_EQ(gpu / GetParam().ep, rank / GetParam().ep);
        }
      }
    }
  }
}

TEST_P(TrainingPlacements, SlotsDependOnEarlierStepsAloneUnlessTheyReact) {
  TrainingPlay a = play(), b = play();
  for (unsigned s = 0; s < 5; ++s) {
    a.show(ids(s)), b.show(ids(s));
  }
  const LayerDecision x = a.show(ids(100)), y = b.show(ids(200));
  if (a.reacts()) {
    EXPECT_NE(experts_of(x), experts_of(y));
  } else {
    EXPECT_EQ(experts_of(x), experts_of(y));
  }
}

TEST_P(TrainingPlacements, EveryCopyIsGatheredAndReducedOnce) {
  TrainingPlay p = play();
  std::int64_t copies = 0;
  for (unsigned s = 0; s < 6; ++s) {
    const LayerDecision d = p.show(ids(s));
    if (d.memory.empty()) continue;  // nothing is copied
    std::vector<std::int64_t> received(4), sent(4);
    for (const auto& e : flows_of(d.gather)) {
      for (const auto& [pair, bytes] : e) received[static_cast<std::size_t>(pair.second)] += bytes;
    }
    for (const auto& e : flows_of(d.reduce)) {
      for (const auto& [pair, bytes] : e) sent[static_cast<std::size_t>(pair.first)] += bytes;
    }
    for (std::size_t g = 0; g < 4; ++g) {
      EXPECT_EQ(received[g] + sent[g], d.memory[g].gathered.value);
      copies += d.memory[g].gathered.value / (2 * 288);
    }
  }
  const std::string name = GetParam().name;
  EXPECT_EQ(copies > 0, name != "swap" && name != "smartmoe");
}

INSTANTIATE_TEST_SUITE_P(
    All, TrainingPlacements,
    testing::Values(
        Property{"swap", "expert-swap", 4}, Property{"swap", "expert-swap", 2},
        Property{"smartmoe", "{kind: smart-moe, interval: 2}", 4},
        Property{"smartmoe", "{kind: smart-moe, interval: 2}", 2},
        Property{"shadowing", "{kind: shadowing, bandwidth: 1 GB/s, throughput: 0.3 GFLOP/s}", 4},
        Property{
            "shadowing",
            "{kind: shadowing, bandwidth: 1 GB/s, throughput: 0.3 GFLOP/s, broadcast: by-node}", 2},
        Property{"prophet", "{kind: pro-prophet, throughput: 1 GFLOP/s, balance: 0.5}", 4},
        Property{"prophet", "{kind: pro-prophet, throughput: 1 GFLOP/s, balance: 0.5}", 2},
        Property{"hecate",
                 "{kind: hecate, dense_time: 1 us, bandwidth: 1 GB/s, throughput: 1 TFLOP/s, "
                 "interval: 3}",
                 4},
        Property{"hecate",
                 "{kind: hecate, dense_time: 1 us, bandwidth: 1 GB/s, throughput: 1 TFLOP/s, "
                 "free_slots: 1, broadcast: chain}",
                 2},
        Property{"janus", "{kind: janus, centric: data}", 4},
        Property{"janus", "{kind: janus, centric: data}", 2}),
    [](const auto& one) {
      return std::string(one.param.name) + std::to_string(one.param.ep) + "_" +
             std::to_string(one.index);
    });

}  // namespace
}  // namespace moesim
