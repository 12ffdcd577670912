// SPDX-License-Identifier: Apache-2.0
// The parts of execution by themselves: numbers, rows on the wire, rows held, order of steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <future>
#include <random>
#include <set>

#include "realhw/core/gemm.h"
#include "realhw/core/kernel_thread.h"
#include "realhw/core/numbers.h"
#include "realhw/core/row_format.h"
#include "realhw/program/layer_program.h"
#include "realhw/program/step_order.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Numbers, TokensAreExactInEveryFormatAndNeverZero) {
  std::set<float> seen;
  for (int token = 0; token < 50; ++token) {
    std::vector<float> values(64), decoded(64);
    fill_token(3, TokenId(token), values);
    seen.insert(values.begin(), values.end());
    for (const RowFormat format : {RowFormat::float32, RowFormat::bfloat16, RowFormat::float8}) {
      std::vector<std::byte> row(64 * size_of(format));
      encode(format, values, row.data());
      decode(format, row.data(), decoded);
      EXPECT_EQ(decoded, values) << name_of(format);
    }
  }
  EXPECT_EQ(seen.size(), 30u);  // +-1/16 ... +-15/16
  EXPECT_EQ(seen.count(0), 0u);
}

TEST(Numbers, DependOnEverythingThatNamesThem) {
  const auto token = [](int layer, int t) {
    std::vector<float> values(64);
    fill_token(layer, TokenId(t), values);
    return values;
  };
  EXPECT_EQ(token(1, 2), token(1, 2));
  EXPECT_NE(token(1, 2), token(2, 1));
  EXPECT_NE(token(1, 2), token(1, 3));
  const auto parameters = [](int layer, int expert, int matrix, int row) {
    std::vector<float> values(64);
    fill_parameters(layer, ExpertId(expert), matrix, row, 12, values);
    return values;
  };
  const auto reference = parameters(1, 2, 0, 3);
  for (const auto& other : {parameters(2, 2, 0, 3), parameters(1, 3, 0, 3), parameters(1, 2, 1, 3),
                            parameters(1, 2, 0, 4)}) {
    EXPECT_NE(other, reference);
  }
  for (const float value : reference) EXPECT_LE(std::fabs(value), 0.5f);  // sqrt(3 / 12)
}

TEST(Numbers, PatternsTellEveryByteApart) {
  std::vector<std::byte> bytes(100);
  fill_pattern(OpId(3), GpuId(1), GpuId(2), 0, bytes);
  EXPECT_EQ(count_wrong(OpId(3), GpuId(1), GpuId(2), 0, bytes), 0);
  EXPECT_EQ(count_wrong(OpId(3), GpuId(1), GpuId(2), 13, std::span(bytes).subspan(13)), 0);
  EXPECT_GT(count_wrong(OpId(3), GpuId(2), GpuId(1), 0, bytes), 90);
  EXPECT_GT(count_wrong(OpId(4), GpuId(1), GpuId(2), 0, bytes), 90);
  EXPECT_GT(count_wrong(OpId(3), GpuId(1), GpuId(2), 1, bytes), 90);
  bytes[50] ^= std::byte{0x10};
  EXPECT_EQ(count_wrong(OpId(3), GpuId(1), GpuId(2), 0, bytes), 1);
}

float through(RowFormat format, float value) {
  std::byte row[4];
  float result = 0;
  encode(format, {&value, 1}, row);
  decode(format, row, {&result, 1});
  return result;
}

TEST(RowFormat, RoundsToTheNearest) {
  // bfloat16 keeps 8 significant bits: 1 + 1/128 is the neighbour of 1, ties go to even.
  EXPECT_EQ(through(RowFormat::bfloat16, 1.0f + 1.0f / 256), 1.0f);
  EXPECT_EQ(through(RowFormat::bfloat16, 1.0f + 3.0f / 256), 1.0f + 4.0f / 256);
  // e4m3 keeps 4: 1, 1.125, 1.25; subnormal steps of 2^-9; 448 is the largest.
  EXPECT_EQ(through(RowFormat::float8, 1.06f), 1.0f);
  EXPECT_EQ(through(RowFormat::float8, 1.0625f), 1.0f);
  EXPECT_EQ(through(RowFormat::float8, 1.1875f), 1.25f);
  EXPECT_EQ(through(RowFormat::float8, -1.97f), -2.0f);
  EXPECT_EQ(through(RowFormat::float8, 3 * 0x1p-9f), 3 * 0x1p-9f);
  EXPECT_EQ(through(RowFormat::float8, 0x1p-11f), 0.0f);
  EXPECT_EQ(through(RowFormat::float8, 1000.0f), 448.0f);
}

TEST(RowFormat, ErrorStaysWithinItsBound) {
  for (const RowFormat format : {RowFormat::bfloat16, RowFormat::float8}) {
    for (float value = 0.02f; value < 400; value *= 1.01f) {
      EXPECT_LE(std::fabs(through(format, value) - value),
                static_cast<float>(rounding_of(format)) * value)
          << name_of(format) << " " << value;
    }
  }
}

TEST(RowFormat, Float8IsTheNearestOfAll) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> exponent(-12.0f, 9.0f);
  for (int i = 0; i < 2000; ++i) {
    const float value = std::min(448.0f, std::exp2(exponent(random)));
    float nearest = 0;
    for (int code = 0; code < 0x7f; ++code) {
      const auto byte = static_cast<std::byte>(code);
      float candidate = 0;
      decode(RowFormat::float8, &byte, {&candidate, 1});
      if (std::fabs(candidate - value) < std::fabs(nearest - value)) nearest = candidate;
    }
    const float got = through(RowFormat::float8, value);
    EXPECT_EQ(std::fabs(got - value), std::fabs(nearest - value)) << value;
    EXPECT_EQ(through(RowFormat::float8, -value), -got);
  }
}

TEST(RowFormat, WhatIsNoNumberStaysSo) {
  for (const RowFormat format : {RowFormat::float32, RowFormat::bfloat16, RowFormat::float8}) {
    const float poison = std::bit_cast<float>(0xffffffffu);
    EXPECT_TRUE(std::isnan(through(format, poison))) << name_of(format);
    float read = 0;
    const std::array<std::byte, 4> ones{std::byte{0xff}, std::byte{0xff}, std::byte{0xff},
                                        std::byte{0xff}};
    decode(format, ones.data(), {&read, 1});
    EXPECT_TRUE(std::isnan(read)) << name_of(format);
  }
}

TEST(RowFormat, IsTheWidestThatFits) {
  EXPECT_EQ(format_for(256, 64), RowFormat::float32);
  EXPECT_EQ(format_for(254, 64), RowFormat::bfloat16);
  EXPECT_EQ(format_for(255, 64), RowFormat::float8);  // elements of two bytes would not be aligned
  EXPECT_EQ(format_for(80, 64), RowFormat::float8);
  EXPECT_THROW(format_for(63, 64), std::runtime_error);
}

RankStep rank_step(int op, Stream stream, std::vector<OpId> waits = {}) {
  return {OpId(op), stream, std::move(waits), {}, {}, {}, {}};
}

/// Two streams; the last op waits for one of the other stream.
RankProgram small_program() {
  RankProgram program;
  program.steps = {rank_step(2, Stream::compute), rank_step(3, Stream::compute),
                   rank_step(5, Stream::copy), rank_step(9, Stream::copy, {OpId(3)})};
  return program;
}

HeldRow held(Choices choices, std::int64_t offset, OpId made_by = OpId(-1)) {
  return {choices, {{BufferId(0), offset}}, made_by};
}

TEST(HeldRows, CopiesServeTheirChoicesOnce) {
  const RankProgram program = small_program();
  const Ancestors ancestors(program);
  HeldRows rows(ancestors, 1);
  rows.add(TokenId(0), held(0b111, 5));
  EXPECT_EQ(rows.take_copy(TokenId(0), 0b101, OpId(2)).offset, 5);
  EXPECT_THROW(rows.take_copy(TokenId(0), 0b001, OpId(2)), std::runtime_error);
  rows.take_copy(TokenId(0), 0, OpId(2));  // a copy that nobody needs
  rows.take_copy(TokenId(0), 0b010, OpId(2));
}

TEST(HeldRows, SumsAreWholeAndTakenOnce) {
  const RankProgram program = small_program();
  const Ancestors ancestors(program);
  HeldRows rows(ancestors, 1);
  rows.add(TokenId(0), held(0b0011, 1));
  rows.add(TokenId(0), held(0b0100, 2));
  rows.add(TokenId(0), held(0b1000, 4));
  std::vector<RowSums::Term> terms;
  EXPECT_THROW(rows.take_sum(TokenId(0), 0b0110, OpId(2), terms), std::runtime_error);
  terms.clear();
  rows.take_sum(TokenId(0), 0b0111, OpId(2), terms);
  ASSERT_EQ(terms.size(), 2u);
  EXPECT_EQ(terms[0].from.offset + terms[1].from.offset, 3);
  EXPECT_THROW(rows.take_sum(TokenId(0), 0b0100, OpId(2), terms), std::runtime_error);
  EXPECT_EQ(rows.rows(TokenId(0)).size(), 1u);
}

/// What another stream makes is not there for an op that does not wait for it.
TEST(HeldRows, GiveOnlyWhatEarlierOpsHaveMade) {
  const RankProgram program = small_program();
  const Ancestors ancestors(program);
  HeldRows rows(ancestors, 2);
  for (const TokenId token : {TokenId(0), TokenId(1)}) rows.add(token, held(0b1, 7, OpId(2)));
  std::vector<RowSums::Term> terms;
  EXPECT_THROW(rows.take_copy(TokenId(0), 0b1, OpId(5)), std::runtime_error);
  EXPECT_THROW(rows.take_sum(TokenId(1), 0b1, OpId(5), terms), std::runtime_error);
  EXPECT_EQ(rows.take_copy(TokenId(0), 0b1, OpId(9)).offset, 7);  // through op 3
  rows.take_sum(TokenId(1), 0b1, OpId(3), terms);
}

TEST(StepOrder, FollowsStreamsAndWaits) {
  const RankProgram program = small_program();
  StepOrder order(program.steps);
  EXPECT_THAT(order.take_ready(), ElementsAre(0, 2));
  EXPECT_THAT(order.take_ready(), IsEmpty());
  order.end(2);
  EXPECT_THAT(order.take_ready(), IsEmpty());
  order.end(0);
  EXPECT_THAT(order.take_ready(), ElementsAre(1));
  EXPECT_THAT(order.open(), ElementsAre(1, 3));
  order.end(1);
  EXPECT_THAT(order.take_ready(), ElementsAre(3));
  order.end(3);
  EXPECT_TRUE(order.done());
  order.reset();
  EXPECT_THAT(order.take_ready(), ElementsAre(0, 2));
}

TEST(Gemm, MultipliesRowMajorMatrices) {
  const float a[] = {1, 2, 3, 4, 5, 6};  // 2 x 3
  const float b[] = {1, 0, 0, 1, 1, 1};  // 3 x 2, or 2 x 3 turned
  float c[4] = {};
  multiply(2, 2, 3, a, b, c);
  EXPECT_THAT(c, ElementsAre(4, 5, 10, 11));
  multiply_transposed(2, 2, 3, a, b, c);
  EXPECT_THAT(c, ElementsAre(1, 6, 4, 15));
  float d[9] = {100};
  add_outer(3, 3, 2, a, a, d);
  EXPECT_THAT(d, ElementsAre(117, 22, 27, 22, 29, 36, 27, 36, 45));
}

TEST(KernelThread, RunsInOrderAndHandsErrorsBack) {
  KernelThread thread;
  std::vector<int> ran;
  thread.submit(OpId(4), [&] { ran.push_back(4); });
  thread.submit(OpId(2), [&] {
    ran.push_back(2);
    throw std::runtime_error("no");
  });
  std::vector<KernelThread::Ended> ended;
  while (ended.size() < 2) {
    for (const auto& e : thread.take_ended()) ended.push_back(e);
  }
  EXPECT_THAT(ran, ElementsAre(4, 2));
  EXPECT_EQ(ended[0].op, OpId(4));
  EXPECT_FALSE(ended[0].error);
  EXPECT_TRUE(ended[1].error);
  EXPECT_LE(ended[0].end, ended[1].start);
  EXPECT_FALSE(thread.busy());
}

TEST(KernelThread, IsBusyUntilItsLastKernelEnds) {
  std::promise<void> started, may_end;
  KernelThread thread;
  EXPECT_FALSE(thread.busy());
  thread.submit(OpId(0), [&] {
    started.set_value();
    may_end.get_future().wait();
  });
  started.get_future().wait();
  EXPECT_TRUE(thread.busy()) << "it runs, and none waits";
  thread.submit(OpId(1), [] {});
  may_end.set_value();
  while (thread.busy()) std::this_thread::yield();
  EXPECT_EQ(thread.take_ended().size(), 2U);
  EXPECT_THAT(thread.take_ended(), IsEmpty());
}

}  // namespace
}  // namespace moesim
