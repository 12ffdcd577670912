// SPDX-License-Identifier: Apache-2.0
// Compares kernels of a model's dense parts on a GPU with the same on the CPU.
#include <gtest/gtest.h>

#include "tests/realhw/cuda/twins.h"

namespace moesim {
namespace {

constexpr double close_enough = 2e-5;  // sums of float32 in other orders
constexpr auto fp32 = RowFormat::float32;

std::vector<float> uniform(Random& random, std::int64_t count) {
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& v : values) v = value(random);
  return values;
}

struct DenseTwins : Twins {
  Place given(Random& random, std::int64_t count) {
    return add(fp32, count, 0, uniform(random, count));
  }
  Place made(std::int64_t count) { return add(fp32, count, 0); }
};

/// Two heads side by side share a gain, as queries do.
TEST(CudaDense, NormsAreThoseOfTheCpu) {
  Random random(1);
  for (const std::int64_t width : {3, 7, 64, 130, 1000}) {
    for (const bool gradient : {false, true}) {
      SCOPED_TRACE(width);
      DenseTwins twins;
      const std::int64_t rows = 1 + below(random, 6), count = rows * 2 * width;
      const Place x = twins.given(random, count), gain = twins.given(random, width);
      const Place dout = twins.given(random, count), out = twins.made(count);
      const Place dgain = twins.given(random, width);
      RowNorm norm{gradient, width, {}};
      for (const std::int64_t first : {std::int64_t{0}, width}) {
        const auto head = [&](Place at) { return Place{at.buffer, at.offset + first * 4}; };
        norm.ranges.push_back({rows, 2 * width, head(x), gain, gradient ? Place{} : head(out),
                               head(dout), gradient ? head(out) : Place{}, dgain});
      }
      twins.call(DenseCall(norm));
      twins.run();
      twins.expect_close(out, count, close_enough);
      twins.expect_close(dgain, width, close_enough);
    }
  }
}

TEST(CudaDense, RotaryIsThatOfTheCpu) {
  Random random(2);
  for (const HeadShape& heads : {HeadShape{4, 2, 16}, HeadShape{3, 1, 7}, HeadShape{1, 1, 130}}) {
    for (const int way : {1, -1}) {
      DenseTwins twins;
      const std::int64_t count = 6 * heads.width();
      const Place from = twins.given(random, count), to = twins.made(count);
      twins.call(DenseCall(Rotary{heads, 6, 3, way, from, to}));
      twins.run();
      twins.expect_close(to, count, close_enough);
    }
  }
}

TEST(CudaDense, AttentionIsThatOfTheCpu) {
  Random random(3);
  struct Shape {
    HeadShape heads;
    std::int64_t sequences, sequence;
  };
  for (const auto& [heads, sequences, sequence] :
       {Shape{{4, 2, 16}, 2, 5}, Shape{{3, 1, 7}, 1, 1}, Shape{{2, 2, 8}, 1, 150}}) {
    for (const bool gradient : {false, true}) {
      SCOPED_TRACE(sequence);
      DenseTwins twins;
      const std::int64_t rows = sequences * sequence;
      const Place in = twins.given(random, rows * heads.width());
      const Place dout = twins.given(random, rows * heads.out_width());
      const std::int64_t width = gradient ? heads.width() : heads.out_width();
      const Place made = twins.made(rows * width);
      twins.call(
          DenseCall(CausalAttention{gradient, heads, sequences, sequence, in,
                                    gradient ? Place{} : made, dout, gradient ? made : Place{}}));
      twins.run();
      twins.expect_close(made, rows * width, close_enough);
    }
  }
}

TEST(CudaDense, AttentionOfLongSequencesIsRefused) {
  Random random(4);
  DenseTwins twins;
  const Place at = twins.given(random, 4);
  twins.call(DenseCall(CausalAttention{false, {1, 1, 1}, 1, 20000, at, at, at, at}));
  EXPECT_THROW(twins.run(), std::runtime_error);
}

TEST(CudaDense, CrossEntropyIsThatOfTheCpu) {
  Random random(5);
  for (const std::int64_t words : {2, 40, 1000}) {
    DenseTwins twins;
    const Place logits = twins.given(random, 3 * words), shares = twins.made(3 * words);
    const Place losses = twins.made(3), gradient = twins.made(3 * words);
    const std::vector<std::int64_t> labels = {0, words - 1, words / 2};
    twins.call(DenseCall(CrossEntropy{false, words, labels, 1, logits, shares, losses, {}}));
    twins.call(DenseCall(CrossEntropy{true, words, labels, 0.25f, {}, shares, {}, gradient}));
    twins.run();
    for (const Place at : {shares, gradient}) twins.expect_close(at, 3 * words, close_enough);
    twins.expect_close(losses, 3, close_enough);
  }
}

/// Three ranks each hold a part of the vocabulary. The label of row r is a word of rank r.
TEST(CudaDense, DividedCrossEntropyIsThatOfTheCpu) {
  Random random(8);
  for (const std::int64_t words : {2, 40, 1000}) {
    DenseTwins twins;
    constexpr std::int64_t rows = 3, parts = 3, of_part = rows * entropy_sums;
    const Place shares = twins.made(rows * words), losses = twins.made(rows);
    const Place sums = twins.made(parts * of_part);
    Place logits;
    for (std::int64_t part = 0; part < parts; ++part) {
      logits = twins.given(random, rows * words);
      std::vector<std::int64_t> labels(rows, -1);
      labels[static_cast<std::size_t>(part)] = words - 1 - part % words;
      const Place own{sums.buffer, part * of_part * float_bytes};
      twins.call(DenseCall(DividedEntropy{false, words, labels, parts, logits, own, {}, {}}));
    }
    twins.call(DenseCall(DividedEntropy{true, words, std::vector<std::int64_t>(rows), parts, logits,
                                        sums, shares, losses}));
    twins.run();
    twins.expect_close(sums, parts * of_part, close_enough);
    twins.expect_close(shares, rows * words, close_enough);
    twins.expect_close(losses, rows, close_enough);
  }
}

/// Several rows are added to one target, as when a word occurs twice.
TEST(CudaDense, SumsAreThoseOfTheCpu) {
  Random random(6);
  DenseTwins twins;
  const Place one = twins.given(random, 700), two = twins.given(random, 700);
  const Place to = twins.given(random, 1400), second{to.buffer, 700 * 4};
  twins.call(DenseCall(
      AddValues{{{one, second, 700}, {two, to, 700}, {two, second, 700}, {one, to, 700}}}));
  twins.run();
  twins.expect_same();
}

TEST(CudaDense, SumsOfPartsOfOneTargetAreRefused) {
  Random random(7);
  DenseTwins twins;
  const Place one = twins.given(random, 8), to = twins.given(random, 8);
  twins.call(DenseCall(AddValues{{{one, to, 8}, {one, to, 4}}}));
  EXPECT_THROW(twins.run(), std::runtime_error);
}

TEST(CudaDense, AdamIsThatOfTheCpu) {
  Random random(8);
  DenseTwins twins;
  std::vector<AdamUpdate::Range> ranges;
  for (const std::int64_t count : {1, 300, 5000}) {
    const Place second = twins.add(fp32, count, 0, std::vector<float>(count, 0.5f));
    ranges.push_back({twins.given(random, count), twins.given(random, count), second,
                      twins.given(random, count), count});
  }
  twins.call(DenseCall(AdamUpdate{{}, ranges}));
  twins.run();
  for (const auto& range : ranges) {
    for (const Place at : {range.first, range.second, range.weights}) {
      twins.expect_close(at, range.elements, close_enough);
    }
  }
}

}  // namespace
}  // namespace moesim
