// SPDX-License-Identifier: Apache-2.0
// Experts of four bits: no placement counts their bytes by whole bytes of an element.
#include <gtest/gtest.h>

#include <string>

#include "sim/base/unsuitable.h"
#include "sim/mechanism/mechanisms.h"
#include "tests/mechanism/placement/training/training_play.h"

namespace moesim {
namespace {

MoeModel of_four_bits() {
  MoeModel model = toy_model(8, 2);
  model.hidden = 64;
  model.expert_ffn = 32;
  model.weights = DataType::mxfp4;
  model.attention = Attention{4096, 64};
  return model;
}

TEST(FourBitWeights, EveryPlacementTakesThem) {
  int shown = 0;
  for (const PlacementMechanism& mechanism : placement_mechanisms()) {
    if (mechanism.read == nullptr || mechanism.for_dense_models) continue;
    try {
      TrainingPlay play(mechanism.name, of_four_bits(), 2);
      for (int step = 0; step < 3; ++step) play.show(ids_of({24, 12, 8, 4, 4, 4, 4, 4}));
      ++shown;
    } catch (const Unsuitable& e) {
      EXPECT_EQ(std::string(e.what()).find("four bits"), std::string::npos) << mechanism.name;
    }
  }
  EXPECT_GT(shown, 20);
}

// 3 x 64 x 32 = 6144 parameters: 3264 bytes, a scale of one for every 32.
TEST(FourBitWeights, ShardsAndMessagesHaveScales) {
  const auto weights = [](const std::string& placement) {
    return TrainingPlay(placement, of_four_bits(), 2).show(ids_of({24, 12, 8, 4, 4, 4, 4, 4}));
  };
  const LayerDecision fsdp = weights("fsdp-ep");  // four experts, in two EP groups
  EXPECT_EQ(fsdp.memory[0].weights, Bytes(4 * 3264 / 2));
  EXPECT_EQ(fsdp.memory[0].gathered, Bytes(2 * 4 * 3264));
  EXPECT_EQ(weights("fsep").memory[0].weights, Bytes(8 * 3264 / 2));
  const LayerDecision gathered = weights("{kind: hybridep, domains: 2, levels: flat}");
  EXPECT_EQ(gathered.gather.at(0).traffic.total(), 4 * Bytes(4 * 3264));
  EXPECT_EQ(gathered.memory[0].weights, Bytes(8 * 3264));
}

}  // namespace
}  // namespace moesim
