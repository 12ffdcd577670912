// SPDX-License-Identifier: Apache-2.0
// What a dispatch is besides where its rows go: whole in every wrapper, the same in every EP group.
#include "sim/mechanism/dispatch_shape.h"

#include <gtest/gtest.h>

#include <map>

#include "sim/mechanism/dispatch/padding.h"
#include "sim/mechanism/mechanisms.h"
#include "tests/mechanism/random_layers.h"

namespace moesim {
namespace {

/// Every mechanism of the table, and parameters that give a part of the shape another value.
std::vector<std::string> all_dispatches() {
  std::vector<std::string> all;
  for (const auto& mechanism : dispatch_mechanisms()) all.emplace_back(mechanism.name);
  all.emplace_back("{kind: alltoall, metadata: {counts: true, host_wait: 5 us, probs: true}}");
  all.emplace_back("{kind: deepep-normal, chunk_time: 3 us, rounds: 3, channels: 1}");
  all.emplace_back("{kind: two-hop, padding: max}");
  return all;
}

/// Of all dispatches together, so that no part is tested only by its default.
struct Met {
  bool stream = false, minimum = false, sides = false, beside = false, choice = false, row = false;
  void add(const DispatchShape& shape) {
    for (const PhaseShape& phase : shape.phases) {
      stream |= phase.stream != Stream::ep;
      minimum |= phase.dispatch_minimum.per_turn.value > 0;
      beside |= &phase != &shape.phases[0] && phase.previous < 0;
    }
    for (const WireFormat& wire : shape.wires) {
      sides |= !wire.sides.empty();
      row |= wire.row != shape.wires[0].row;
    }
  }
};

TEST(DispatchShape, PaddingKeepsEveryPartOfEveryDispatch) {
  std::mt19937 random(61);
  Met met;
  for (const std::string& text : all_dispatches()) {
    for (int trial = 0; trial < 20; ++trial) {
      SCOPED_TRACE(text);
      const RandomLayer layer(random);
      const auto bare = layer.dispatch(text), padded = layer.dispatch(text);
      pad(*padded, {Padding::Kind::max, {}});
      ASSERT_EQ(bare->options().size(), padded->options().size());
      for (std::size_t i = 0; i < bare->options().size(); ++i) {
        ASSERT_EQ(bare->options()[i]->shape(), padded->options()[i]->shape());
      }
      const Dispatch& chosen = bare->choose(layer.tokens.view());
      ASSERT_EQ(chosen.shape(), padded->choose(layer.tokens.view()).shape());
      met.choice |= !bare->options().empty();
      met.add(chosen.shape());
    }
  }
  EXPECT_TRUE(met.stream && met.minimum && met.sides && met.beside && met.choice && met.row);
}

TEST(DispatchShape, EveryGpuIsInOneCommunicatorOfEveryPhase) {
  std::mt19937 random(62);
  for (int trial = 0; trial < 60; ++trial) {
    const RandomLayer layer(random);
    for (const char* text : {"alltoall", "{kind: hierarchical, depth: 1}", "allgather",
                             "schemoe-pipe", "hybridep", "deepep-normal", "fastmoe"}) {
      SCOPED_TRACE(text);
      const auto dispatch = layer.dispatch(text);
      for (const PhaseShape& phase : dispatch->choose(layer.tokens.view()).shape().phases) {
        std::set<std::int64_t> met;
        for (const auto& members : phase.communicators) {
          ASSERT_TRUE(std::is_sorted(members.begin(), members.end()));
          for (const GpuId gpu : members) {
            ASSERT_TRUE(met.insert(gpu.value).second);
            ASSERT_EQ(gpu.value / layer.shape.ep, members.front().value / layer.shape.ep);
          }
        }
        ASSERT_EQ(met.size(), static_cast<std::size_t>(layer.shape.ranks()));
      }
    }
  }
}

TEST(DispatchShape, TurnsThatAreBegunTakeTheirWholeTime) {
  const MinimumTime minimum{10, Seconds(3)};
  EXPECT_EQ(minimum.of(1), Seconds(3));
  EXPECT_EQ(minimum.of(10), Seconds(3));
  EXPECT_EQ(minimum.of(11), Seconds(6));
}

TEST(DispatchShape, ADispatchThatIsChosenForEveryLayerHasNoShapeOfItsOwn) {
  EXPECT_THROW(make_dispatch("tutel")->shape(), std::logic_error);
}

TEST(DispatchShape, ExchangesOfRowsMayTakeMultiprocessors) {
  std::mt19937 random(62);
  const RandomLayer layer(random);
  const auto taken = [&](const std::string& text) {
    std::map<std::string, int> sms;
    const auto dispatch = layer.dispatch(text);
    const Dispatch& chosen = dispatch->choose(layer.tokens.view());
    for (const Op& op : plan_of(chosen, layer.tokens, layer.model).ops) {
      if (op.exchange()) sms[name_of(op.key.kind)] = op.exchange()->sms;
    }
    return sms;
  };
  const std::map<std::string, int> none = {{"side-exchange", 0}, {"token-exchange", 0}};
  const std::map<std::string, int> some = {{"side-exchange", 0}, {"token-exchange", 20}};
  EXPECT_EQ(taken("{kind: alltoall, metadata: {probs: true}}"), none);
  EXPECT_EQ(taken("{kind: alltoall, metadata: {probs: true}, sms: 20}"), some);
  EXPECT_EQ(taken("{kind: hierarchical, depth: auto, sms: 20}").at("token-exchange"), 20);
}

}  // namespace
}  // namespace moesim
