// SPDX-License-Identifier: Apache-2.0
// LLEP as a placement: the published case of spilling, its memory and its threshold.
#include <gtest/gtest.h>

#include "sim/base/unsuitable.h"
#include "tests/mechanism/placement/serving/serving_play.h"

namespace moesim {
namespace {

TEST(LlepPlacement, SpillsAsInThePublishedCase) {
  const std::vector<int> counts = {4000, 200, 300, 500, 600, 400, 700, 300};
  const std::string rest = ", alpha: 1.0, least_chunk: 100}";
  ServingPlay play("{kind: llep, lambda: 2.4" + rest, four_gpus, 8, 1, 1, true);
  const LayerDecision d = play.show_counts(counts);
  EXPECT_TRUE(play.reacts() && d.after_gate);
  EXPECT_EQ(experts_of(d), (Experts{{0, 1}, {2, 3, 0}, {4, 5, 0}, {6, 7, 0}}));
  EXPECT_EQ(served(d, play.loads()), (std::vector<std::int64_t>{1750, 1750, 1750, 1750}));
  for (int g = 1; g < 4; ++g) {
    EXPECT_EQ(bytes(d.gather, 0, g), expert);
    EXPECT_EQ(bytes(d.regather, 0, g), expert);
    EXPECT_EQ(bytes(d.reduce, g, 0), expert);
    EXPECT_EQ(d.memory[static_cast<std::size_t>(g)].gathered, Bytes(2 * expert));
    EXPECT_EQ(d.memory[static_cast<std::size_t>(g)].optimizer, Bytes(2 * 10 * 12));
  }
  EXPECT_EQ(d.memory[0].gathered, Bytes(0));
  EXPECT_EQ(d.gather[0].traffic.total(), Bytes(3 * expert));

  ServingPlay patient("{kind: llep, lambda: 2.5" + rest, four_gpus, 8);  // 4200 / 1750 is 2.4
  const LayerDecision native = patient.show_counts(counts);
  EXPECT_EQ(experts_of(native), (Experts{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(served(native, patient.loads()), (std::vector<std::int64_t>{4200, 800, 1000, 1000}));
  EXPECT_TRUE(native.gather.empty());

  ServingPlay keeping("{kind: llep, received: keep" + rest, four_gpus, 8, 1, 1, true);
  const LayerDecision kept = keeping.show_counts(counts);
  EXPECT_TRUE(kept.regather.empty());
  EXPECT_EQ(kept.memory[1].weights, Bytes(3 * expert));
  EXPECT_EQ(kept.memory[1].gathered, Bytes(expert));  // gradients
  EXPECT_THROW(ServingPlay("llep", four_gpus, 6), Unsuitable);
}

}  // namespace
}  // namespace moesim
