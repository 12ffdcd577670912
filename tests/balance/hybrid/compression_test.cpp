// SPDX-License-Identifier: Apache-2.0
#include "sim/balance/hybrid/compression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sim/base/error.h"
#include "sim/trace/synth/random.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;

std::vector<float> noise(std::uint64_t seed, std::size_t count) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& v : values) v = static_cast<float>(random.normal());
  return values;
}

TEST(ExpertCodecTest, FiftyTimesKeepsOnePercentOfFloats) {
  const ExpertCodec codec{.ratio = 50, .parameters = 2'100'000};
  EXPECT_DOUBLE_EQ(codec.kept_fraction(), 0.01);
  EXPECT_EQ(codec.kept(), 21'000);
  EXPECT_EQ(codec.message(), Bytes(168'000));
  EXPECT_EQ(codec.expert(), Bytes(8'400'000));
  EXPECT_DOUBLE_EQ(codec.expert() / codec.message(), 50);
}

TEST(ExpertCodecTest, HalfWidthValuesKeepFewer) {
  const ExpertCodec codec{.ratio = 50, .value_bytes = 2, .index_bytes = 4, .parameters = 3000};
  EXPECT_DOUBLE_EQ(codec.kept_fraction(), 2.0 / (50 * 6));
  EXPECT_EQ(codec.kept(), 20);
  EXPECT_EQ(codec.message(), Bytes(120));
}

TEST(ExpertCodecTest, RatioOneSendsTheExpertItself) {
  const ExpertCodec codec{.parameters = 1000};
  EXPECT_EQ(codec.message(), codec.expert());
  EXPECT_EQ(codec.kept(), 1000);
  EXPECT_EQ(encode_traffic(codec), KernelTraffic{});
  EXPECT_EQ(decode_traffic(codec), KernelTraffic{});
  EXPECT_EQ(shared_expert_payload(codec), Bytes(0));
  EXPECT_THROW((ExpertCodec{.ratio = 0.5, .parameters = 10}.kept()), Error);
}

TEST(ExpertCodecTest, MessagesNeverExceedTheirShare) {
  for (const double ratio : {1.5, 2.0, 3.0, 7.0, 50.0}) {
    const ExpertCodec codec{.ratio = ratio, .parameters = 12'345};
    EXPECT_LE(static_cast<double>(codec.message().value),
              static_cast<double>(codec.expert().value) / ratio + 1e-6);
    EXPECT_GT(static_cast<double>(codec.message().value) + 8,
              static_cast<double>(codec.expert().value) / ratio);
  }
}

TEST(ExpertCodecTest, KernelsReadAndWriteWholeExperts) {
  const ExpertCodec codec{.ratio = 50, .parameters = 10'000};
  EXPECT_EQ(encode_traffic(codec), (KernelTraffic{.read = Bytes(80'000), .written = Bytes(800)}));
  EXPECT_EQ(decode_traffic(codec),
            (KernelTraffic{.read = Bytes(40'800), .written = Bytes(40'000)}));
  EXPECT_EQ(shared_expert_payload(codec), Bytes(40'000));
}

TEST(ResidualTest, KeepsTheLargestDifferencesByIndex) {
  const std::vector<float> expert = {1, 5, -4, 2, 3}, shared = {1, 1, 1, 1, 1};
  const auto residual = encode_residual(expert, shared, 2);
  EXPECT_THAT(residual, ElementsAre(ResidualEntry{1, 4}, ResidualEntry{2, -5}));
  EXPECT_THAT(decode_residual(shared, residual), ElementsAre(1, 5, -4, 1, 1));
}

TEST(ResidualTest, EqualDifferencesKeepTheLowestIndex) {
  const std::vector<float> expert = {2, -2, 2, -2}, shared(4);
  EXPECT_THAT(encode_residual(expert, shared, 3),
              ElementsAre(ResidualEntry{0, 2}, ResidualEntry{1, -2}, ResidualEntry{2, 2}));
}

TEST(ResidualTest, MeanOfExperts) {
  const std::vector<std::vector<float>> experts = {{1, 2}, {3, 6}, {5, 1}};
  EXPECT_THAT(mean_expert(experts), ElementsAre(3, 3));
}

TEST(ResidualTest, ErrorFallsToRoundingAsMoreIsKept) {
  const auto expert = noise(1, 1000), shared = noise(2, 1000);
  double last = std::numeric_limits<double>::infinity();
  for (const std::int64_t kept : {0, 1, 10, 100, 500, 999, 1000}) {
    const auto decoded = decode_residual(shared, encode_residual(expert, shared, kept));
    const double error = relative_error(expert, decoded);
    EXPECT_LT(error, last);
    last = error;
  }
  EXPECT_LT(last, 1e-7);  // shared + (expert - shared) rounds
}

TEST(ResidualTest, NoOtherChoiceOfAsManyHasASmallerError) {
  const auto expert = noise(3, 10), shared = noise(4, 10);
  const double best =
      relative_error(expert, decode_residual(shared, encode_residual(expert, shared, 3)));
  for (std::uint32_t mask = 0; mask < 1024; ++mask) {
    if (__builtin_popcount(mask) != 3) continue;
    std::vector<ResidualEntry> choice;
    for (std::uint32_t i = 0; i < 10; ++i)
      if ((mask >> i & 1) != 0) choice.push_back({i, expert[i] - shared[i]});
    EXPECT_GE(relative_error(expert, decode_residual(shared, choice)), best * (1 - 1e-6));
  }
}

TEST(ResidualTest, RefusesWhatDoesNotFit) {
  const std::vector<float> four(4), five(5);
  EXPECT_THROW(encode_residual(four, five, 1), Error);
  EXPECT_THROW(encode_residual(four, four, 5), Error);
  EXPECT_THROW(decode_residual(four, std::vector<ResidualEntry>{{4, 1.0f}}), Error);
}

}  // namespace
}  // namespace moesim
