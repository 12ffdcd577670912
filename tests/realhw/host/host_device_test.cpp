// SPDX-License-Identifier: Apache-2.0
// The CPU as a device: every kind of call on numbers that can be checked by hand.
#include "realhw/host/host_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "realhw/core/numbers.h"
#include "realhw/core/row_format.h"

namespace moesim {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

constexpr float no_number = std::numeric_limits<float>::quiet_NaN();

/// Buffers of a few elements each.
class HostDeviceTest : public testing::Test {
 protected:
  Place buffer(std::int64_t elements, RowFormat format, std::vector<float> initial = {}) {
    const BufferId id(static_cast<std::int64_t>(program_.buffers.size()));
    const auto size = static_cast<std::int64_t>(size_of(format));
    program_.buffers.push_back({"test", elements * size, format});
    if (!initial.empty()) program_.initial.push_back({{id, 0}, std::move(initial)});
    return {id, 0};
  }
  Place floats(std::vector<float> values) {
    const auto count = static_cast<std::int64_t>(values.size());
    return buffer(count, RowFormat::float32, std::move(values));
  }
  Place room(std::int64_t elements) { return buffer(elements, RowFormat::float32); }

  void run(const Call& call) {
    device_.load(program_);
    device_.reset(true);
    device_.run(call, Stream::compute);
  }
  std::vector<float> read(Place at, std::int64_t elements) {
    return read_values(device_, program_, at, elements);
  }

  RankProgram program_;
  HostDevice device_;
};

Place behind(Place at, std::int64_t bytes) { return {at.buffer, at.offset + bytes}; }

TEST_F(HostDeviceTest, AddsWeightedRowsOfAnyFormat) {
  const Place rows = floats({1, 2, 3, 4});
  const Place narrow = buffer(2, RowFormat::float8, {16, -0.5});
  const Place to = buffer(6, RowFormat::bfloat16);
  run(RowSums{2,
              {behind(to, 8), to, behind(to, 4)},
              {0, 3, 4, 4},
              {{rows, 2}, {behind(rows, 8), 0.5f}, {narrow}, {narrow}}});
  EXPECT_THAT(read(to, 6), ElementsAre(16, -0.5, 0, 0, 2 + 1.5 + 16, 4 + 2 - 0.5));
}

// Their memory is at null, which sanitizers let no bytes be copied from.
TEST_F(HostDeviceTest, ReadsBuffersOfNoElements) {
  const RowFormat formats[] = {RowFormat::float32, RowFormat::bfloat16, RowFormat::float8};
  std::vector<Place> empty;
  for (const RowFormat format : formats) empty.push_back(buffer(0, format));
  program_.zeroed.push_back(empty.front().buffer);
  run(RowSums{0, {}, {0}, {}});
  for (const Place place : empty) EXPECT_THAT(read(place, 0), testing::IsEmpty());
  for (const RowFormat format : formats) {
    EXPECT_NO_THROW(encode(format, {}, nullptr)) << size_of(format);
  }
}

TEST_F(HostDeviceTest, RoundsASumOnce) {
  // Halves of the last place: each by itself would be lost.
  const Place rows = floats({1, 1.0f / 256, 1.0f / 256});
  const Place to = buffer(1, RowFormat::bfloat16);
  run(RowSums{1, {to}, {0, 3}, {{rows}, {behind(rows, 4)}, {behind(rows, 8)}}});
  EXPECT_THAT(read(to, 1), ElementsAre(1 + 1.0f / 128));
}

TEST_F(HostDeviceTest, MultipliesGroupsOfAllKinds) {
  using Kind = GroupedProduct::Kind;
  for (const RowFormat format : {RowFormat::float32, RowFormat::bfloat16}) {
    program_ = {};
    const Place a = buffer(6, format, {1, 2, 3, 4, 5, 6}),
                b = buffer(6, format, {1, 0, 0, 1, 1, 1});
    const Place c = buffer(6, format), wide = room(9);
    program_.zeroed = {wide.buffer};
    const auto size = static_cast<std::int64_t>(size_of(format));
    // Rows (1 2 3) and (4 5 6) in two groups, times a 3 x 2 matrix.
    run(GroupedProduct{
        Kind::plain, 2, 3, {{1, a, b, c}, {1, behind(a, 3 * size), b, behind(c, 2 * size)}}});
    EXPECT_THAT(read(c, 4), ElementsAre(4, 5, 10, 11));
    run(GroupedProduct{Kind::transposed_b, 2, 3, {{2, a, b, c}}});  // b as 2 x 3
    EXPECT_THAT(read(c, 4), ElementsAre(1, 6, 4, 15));
    const GroupedProduct outer{Kind::outer, 3, 3, {{2, a, a, wide}}};
    run(outer);
    device_.run(outer, Stream::compute);
    EXPECT_THAT(read(wide, 9), ElementsAre(34, 44, 54, 44, 58, 72, 54, 72, 90));
  }
}

TEST_F(HostDeviceTest, ActivationsAndTheirGradientsAgree) {
  for (const bool gated : {false, true}) {
    program_ = {};
    const std::int64_t ffn = 3, up = gated ? 6 : 3;
    std::vector<float> values;
    for (std::int64_t i = 0; i < 2 * up; ++i) values.push_back(0.3f * static_cast<float>(i) - 0.7f);
    const Place h = floats(values), out = room(2 * ffn);
    run(Activation{false, ffn, gated, {{2, h, out, {}, {}}}});
    const auto silu = [](double x) { return x / (1 + std::exp(-x)); };
    const auto value = [&](std::int64_t row, std::int64_t column) {
      return static_cast<double>(values[static_cast<std::size_t>(row * up + column)]);
    };
    std::vector<float> expected, expected_gradient(static_cast<std::size_t>(2 * up));
    for (std::int64_t row = 0; row < 2; ++row) {
      for (std::int64_t f = 0; f < ffn; ++f) {
        const double g = value(row, f), u = gated ? value(row, ffn + f) : 1.0;
        expected.push_back(static_cast<float>(silu(g) * u));
        const double slope = (silu(g + 1e-5) - silu(g - 1e-5)) / 2e-5;
        expected_gradient[static_cast<std::size_t>(row * up + f)] =
            static_cast<float>(2 * slope * u);
        if (!gated) continue;
        expected_gradient[static_cast<std::size_t>(row * up + ffn + f)] =
            static_cast<float>(2 * silu(g));
      }
    }
    EXPECT_THAT(read(out, 2 * ffn), Pointwise(FloatNear(1e-6f), expected));
    const Place by_out = floats(std::vector<float>(static_cast<std::size_t>(2 * ffn), 2.0f));
    const Place by_h = room(2 * up);
    run(Activation{true, ffn, gated, {{2, h, {}, by_h, by_out}}});
    EXPECT_THAT(read(by_h, 2 * up), Pointwise(FloatNear(1e-4f), expected_gradient));
  }
}

TEST_F(HostDeviceTest, WritesAndComparesPatterns) {
  const Place at = room(8);
  Pattern pattern{false, OpId(4), {{GpuId(1), GpuId(2), 5, behind(at, 3), 20}}};
  run(pattern);
  pattern.compare = true;
  device_.run(pattern, Stream::compute);
  EXPECT_EQ(device_.findings().wrong_bytes, 0);
  device_.data(at.buffer)[10] ^= std::byte{1};
  device_.run(pattern, Stream::compute);
  EXPECT_EQ(device_.findings().wrong_bytes, 1);
  std::vector<std::byte> bytes(20);
  device_.data(at.buffer)[10] ^= std::byte{1};
  device_.read(behind(at, 3), bytes);
  EXPECT_EQ(count_wrong(OpId(4), GpuId(1), GpuId(2), 5, bytes), 0);
  device_.reset(false);
  EXPECT_EQ(device_.findings().wrong_bytes, 0) << "of the iteration that begins";
}

TEST_F(HostDeviceTest, CopiesBytes) {
  const Place from = floats({1, 2, 3}), to = room(3);
  run(LocalCopy{behind(from, 4), to, 8});
  EXPECT_THAT(read(to, 2), ElementsAre(2, 3));
}

TEST_F(HostDeviceTest, FindsTheFirstOpThatMadeWhatIsNotFinite) {
  for (const RowFormat format : {RowFormat::float32, RowFormat::bfloat16, RowFormat::float8}) {
    program_ = {};
    const Place good = buffer(3, format, {1, 2, 3}), bad = buffer(3, format, {1, 2, no_number});
    run(FiniteCheck{OpId(5), {{good, 3}, {bad, 2}}});
    EXPECT_FALSE(device_.findings().not_finite_in) << name_of(format);
    device_.run(FiniteCheck{OpId(6), {{good, 3}, {bad, 3}}}, Stream::compute);
    device_.run(FiniteCheck{OpId(2), {{bad, 3}}}, Stream::compute);
    EXPECT_EQ(device_.findings().not_finite_in, OpId(6)) << name_of(format);
    device_.reset(false);
    EXPECT_FALSE(device_.findings().not_finite_in);
  }
  const Place infinite = floats({std::numeric_limits<float>::infinity()});
  run(FiniteCheck{OpId(1), {{infinite, 1}}});
  EXPECT_EQ(device_.findings().not_finite_in, OpId(1));
}

TEST_F(HostDeviceTest, PoisonIsEverywhereButInWhatAStepStartsWith) {
  for (const RowFormat format : {RowFormat::float32, RowFormat::bfloat16, RowFormat::float8}) {
    program_ = {};
    const Place initial = buffer(2, format, {1, 2}), zeroed = buffer(2, format);
    const Place other = buffer(2, format);
    program_.zeroed = {zeroed.buffer};
    device_.load(program_);
    device_.reset(true);
    EXPECT_THAT(read(initial, 2), ElementsAre(1, 2));
    EXPECT_THAT(read(zeroed, 2), Each(0.0f));
    for (const float value : read(other, 2)) EXPECT_TRUE(std::isnan(value)) << name_of(format);
  }
}

TEST_F(HostDeviceTest, StartsWithItsInitialValuesEvenIfNothingIsPoisoned) {
  const Place at = floats({3, 4});
  device_.load(program_);
  device_.reset(false);
  EXPECT_THAT(read(at, 2), ElementsAre(3, 4));
}

TEST_F(HostDeviceTest, HostWorkTakesItsTime) {
  const auto start = std::chrono::steady_clock::now();
  run(HostWork{2'000'000});
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(2));
}

TEST_F(HostDeviceTest, ScratchWorkTouchesNoBuffer) {
  const Place at = floats({1, 2});
  run(Scratch{MemoryBound{Bytes(1000), Bytes(3000)}});
  device_.run(Scratch{GroupedGemm{{3, 0, 2}, 4, 5}}, Stream::copy);
  EXPECT_THAT(read(at, 2), ElementsAre(1, 2));
}

}  // namespace
}  // namespace moesim
