// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/hybrid/compression.h"

#include <gtest/gtest.h>

#include "sim/base/error.h"

namespace moesim {
namespace {

TEST(ExpertCodecTest, FiftyTimesKeepsOnePercentOfFloats) {
  const ExpertCodec codec{.ratio = 50, .parameters = 2'100'000};
  EXPECT_DOUBLE_EQ(codec.kept_fraction(), 0.01);
  EXPECT_EQ(codec.kept(), 21'000);
  EXPECT_EQ(codec.message(), Bytes(168'000));
  EXPECT_EQ(codec.expert(), Bytes(8'400'000));
  EXPECT_DOUBLE_EQ(codec.expert() / codec.message(), 50);
}

TEST(ExpertCodecTest, HalfWidthValuesKeepFewer) {
  const ExpertCodec codec{
      .ratio = 50, .values = DataType::bf16, .index_bytes = 4, .parameters = 3000};
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

TEST(ExpertCodecTest, FusedKernelsSaveThePublishedParts) {
  const ExpertCodec codec{.ratio = 50, .parameters = 10'000, .fused = true};
  EXPECT_EQ(encode_traffic(codec), (KernelTraffic{.read = Bytes(56'000), .written = Bytes(560)}));
  EXPECT_EQ(decode_traffic(codec),
            (KernelTraffic{.read = Bytes(22'440), .written = Bytes(22'000)}));
  EXPECT_EQ(encode_traffic({.parameters = 10, .fused = true}), KernelTraffic{});
}

}  // namespace
}  // namespace moesim
