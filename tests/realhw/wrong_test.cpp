// SPDX-License-Identifier: Apache-2.0
// What goes wrong on the way is seen: a comparison that cannot fail proves nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "realhw/core/row_format.h"
#include "tests/realhw/real_case.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// The first op of a name that lists rows.
OpId find_op(const Plan& plan, const std::string& name) {
  for (OpId id(0); id.index() < plan.ops.size(); ++id.value) {
    if (plan[id].label == name) return id;
  }
  throw std::runtime_error("no op " + name);
}

/// Doubles one float32 of the first row that `name` sends to another GPU.
Tamper doubled_element(const Plan& plan, const std::string& name) {
  return [op = find_op(plan, name), done = false](OpId id, GpuId, GpuId,
                                                  std::span<std::byte> bytes) mutable {
    if (done || id != op) return;
    float value = 0;
    decode(RowFormat::float32, bytes.data() + 12, {&value, 1});
    value *= 2;
    encode(RowFormat::float32, {&value, 1}, bytes.data() + 12);
    done = true;
  };
}

TEST(RealWrong, AnElementOfAResultIsSeenAlone) {
  RealCase c(one_layer("megatron"));
  const Comparison result = c.run(doubled_element(c.planned->plan, "combine-alltoall"));
  EXPECT_EQ(result.wrong_outputs, 1);
  EXPECT_EQ(result.wrong(), 1);
}

TEST(RealWrong, AnElementOfATokenSpoilsWhatIsComputedFromIt) {
  RealCase c(one_layer("megatron"));
  const Comparison result = c.run(doubled_element(c.planned->plan, "dispatch-alltoall"));
  EXPECT_GT(result.wrong_outputs, 32);
  EXPECT_GT(result.wrong_weight_gradients, 32);
  EXPECT_EQ(result.wrong_bytes, 0);
}

TEST(RealWrong, AnElementOfAGradientIsSeen) {
  RealCase c(one_layer("megatron"));
  const Comparison out = c.run(doubled_element(c.planned->plan, "dispatch-alltoall-grad"));
  EXPECT_EQ(out.wrong_outputs, 0);
  EXPECT_GT(out.wrong_input_gradients, 32);
  EXPECT_GT(out.wrong_weight_gradients, 32);
  const Comparison back = c.run(doubled_element(c.planned->plan, "combine-alltoall-grad"));
  EXPECT_EQ(back.wrong_input_gradients, 1);
  EXPECT_EQ(back.wrong(), 1);
}

TEST(RealWrong, AByteWithoutNumbersIsSeen) {
  RealCase c(one_layer("laer"));
  int changed = 0;
  const Comparison result = c.run([&](OpId id, GpuId, GpuId, std::span<std::byte> bytes) {
    if (c.planned->plan[id].stream != Stream::param || changed > 0) return;
    bytes.back() ^= std::byte{1};
    ++changed;
  });
  EXPECT_EQ(changed, 1);
  EXPECT_EQ(result.wrong_bytes, 1);
  EXPECT_EQ(result.wrong(), 1);
}

TEST(RealWrong, TwoRowsThatChangePlacesAreSeen) {
  RealCase c(one_layer("megatron"));
  const OpId op = find_op(c.planned->plan, "combine-alltoall");
  bool done = false;
  const Comparison result = c.run([&](OpId id, GpuId, GpuId, std::span<std::byte> bytes) {
    const auto half = static_cast<std::ptrdiff_t>(c.model.hidden * sizeof(float));  // a row
    if (done || id != op || std::ssize(bytes) < 2 * half) return;
    std::swap_ranges(bytes.begin(), bytes.begin() + half, bytes.begin() + half);
    done = true;
  });
  ASSERT_TRUE(done);
  EXPECT_GT(result.wrong_outputs, 32);
}

/// What is not a number ends the run where it was met first.
TEST(RealWrong, WhatIsNoNumberInAMessageNamesRankAndOp) {
  for (const char* name : {"dispatch-alltoall", "combine-alltoall", "dispatch-alltoall-grad"}) {
    RealCase c(one_layer("megatron"));
    const OpId op = find_op(c.planned->plan, name);
    GpuId receiver(-1);
    const Tamper tamper = [&](OpId id, GpuId, GpuId to, std::span<std::byte> bytes) {
      if (id != op || receiver.value >= 0) return;
      receiver = to;
      const float nothing = std::numeric_limits<float>::quiet_NaN();
      encode(RowFormat::float32, {&nothing, 1}, bytes.data() + 12);
    };
    try {
      c.run(tamper);
      ADD_FAILURE() << name;
    } catch (const std::runtime_error& e) {
      EXPECT_EQ(e.what(), fmt::format("rank {}, op {} '{}' of layer 1: a number in its results is "
                                      "not finite",
                                      receiver.value, op.value, name));
    }
  }
}

/// A rank whose plan lists another token in a row takes the vector of one token for another's.
TEST(RealWrong, AWrongRowIndexIsSeen) {
  RealCase c(one_layer("megatron"));
  Plan other = c.planned->plan;
  const OpId op = find_op(other, "combine-alltoall");
  auto& rows = std::get<Exchange>(other.ops[op.index()].work).rows;
  const auto first =
      std::find_if(rows.begin(), rows.end(), [](const RowMove& r) { return r.from != r.to; });
  ASSERT_NE(first, rows.end());
  const GpuId receiver = first->to;
  const auto second = std::find_if(first + 1, rows.end(), [&](const RowMove& r) {
    return r.to == receiver && r.from == first->from && r.token != first->token;
  });
  ASSERT_NE(second, rows.end());
  std::swap(first->token, second->token);
  std::swap(first->choices, second->choices);
  const RealStep misled(other, c.model, c.routing);
  c.ranks()[receiver.index()] = std::make_unique<LocalRank>(misled, receiver);
  EXPECT_GT(c.run().wrong_outputs, 32);
}

TEST(RealWrong, ARankThatLacksWhatItMustSendNamesOpAndToken) {
  RealCase c(one_layer("megatron"));
  auto& op = c.planned->plan.ops[find_op(c.planned->plan, "dispatch-alltoall").index()];
  auto& rows = std::get<Exchange>(op.work).rows;
  const auto row =
      std::find_if(rows.begin(), rows.end(), [](const RowMove& r) { return r.from == GpuId(0); });
  row->token = TokenId(c.routing[0].source.size() - 1);  // of the last rank
  EXPECT_THAT([&] { c.run(); },
              ThrowsMessage<std::runtime_error>(testing::AllOf(
                  HasSubstr("rank 0, op"), HasSubstr("'dispatch-alltoall' of layer 1: "),
                  HasSubstr(fmt::format("there is no row of token {}", row->token.value)))));
}

TEST(RealWrong, ARowThatNeverComesBackIsMissed) {
  RealCase c(one_layer("megatron"));
  auto& op = c.planned->plan.ops[find_op(c.planned->plan, "combine-alltoall").index()];
  auto& rows = std::get<Exchange>(op.work).rows;
  const auto row =
      std::find_if(rows.begin(), rows.end(), [](const RowMove& r) { return r.from != r.to; });
  row->choices = 0;
  EXPECT_EQ(c.run().wrong_outputs, c.model.hidden);
}

TEST(RealWrong, APlanWithoutRowsIsRefused) {
  RealCase c(one_layer("megatron"));
  for (Op& op : c.planned->plan.ops) {
    if (auto* exchange = std::get_if<Exchange>(&op.work)) exchange->rows.clear();
  }
  EXPECT_THAT([&] { all_ranks(*c.real); },
              ThrowsMessage<std::runtime_error>(HasSubstr("the plan lists no rows")));
}

TEST(RealWrong, AnExchangeThatARankNeverJoinsIsNamed) {
  RealCase c(one_layer("megatron"));
  const OpId op = find_op(c.planned->plan, "dispatch-alltoall");
  Plan shorter = c.planned->plan;  // ends before it
  shorter.ops.resize(op.index());
  const RealStep misled(shorter, c.model, c.routing);
  c.ranks()[1] = std::make_unique<LocalRank>(misled, GpuId(1));
  EXPECT_THAT([&] { c.run(); }, ThrowsMessage<std::runtime_error>(HasSubstr(fmt::format(
                                    "rank 0 never ends op {} 'dispatch-alltoall'", op.value))));
}

}  // namespace
}  // namespace moesim
