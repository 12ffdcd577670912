// SPDX-License-Identifier: Apache-2.0
// The closed form of an exchange on three GPUs behind one switch, the last one farther away.
#include "sim/plan/exchange_time.h"

#include <gtest/gtest.h>

#include "sim/topology/reader.h"

namespace moesim {
namespace {

/// GPUs a, b, c of one host; every direction 50 GB/s and 2.5 us, but c's 102.5 us.
Topology star_of_three() {
  const char* const text = R"(source: test
vertices:
  - {name: a, kind: gpu, host: h, gpu: h100-sxm}
  - {name: b, kind: gpu, host: h, gpu: h100-sxm}
  - {name: c, kind: gpu, host: h, gpu: h100-sxm}
  - {name: s, kind: nvswitch, host: h}
links:
  - {from: a, to: s, class: nvlink, bandwidth: 50 GB/s, latency: 2.5 us}
  - {from: b, to: s, class: nvlink, bandwidth: 50 GB/s, latency: 2.5 us}
  - {from: c, to: s, class: nvlink, bandwidth: 50 GB/s, latency: 102.5 us}
)";
  return std::move(parse_topology(text, "star.yaml").topology);
}

double time_of(std::vector<std::int64_t> bytes) {
  return price(star_of_three(), ByteMatrix::from_dense(3, bytes))->alone.total().value;
}

constexpr std::int64_t mb = 1000000;

TEST(ExchangeTime, FiftyMegabytesThroughOnePort) {
  EXPECT_NEAR(time_of({0, 50 * mb, 0, 0, 0, 0, 0, 0, 0}), 1.005e-3, 1e-12);
}

TEST(ExchangeTime, ALinkStartsWithItsFirstRoute) {
  // b receives 25 MB from near and far: 5 us, then 1 ms; the far route's 105 us are hidden.
  EXPECT_NEAR(time_of({0, 25 * mb, 0, 0, 0, 0, 0, 25 * mb, 0}), 1.005e-3, 1e-12);
}

TEST(ExchangeTime, TheLongestRouteHasToDeliver) {
  // 50 kB from near take 6 us; one byte from far arrives after 105 us.
  EXPECT_NEAR(time_of({0, 50000, 0, 0, 0, 0, 0, 1, 0}), 105e-6, 1e-9);
}

TEST(ExchangeTime, NothingMovedTakesNoTransferOrLatency) {
  EXPECT_EQ(time_of({7, 0, 0, 0, 0, 0, 0, 0, 0}), 0);
}

TEST(ExchangeTime, SharedLinksServeAllEvenly) {
  const Topology topology = star_of_three();
  const auto moves = [&](std::vector<std::int64_t> bytes) {
    return price(topology, ByteMatrix::from_dense(3, bytes));
  };
  const auto times = shared_times({moves({0, 50 * mb, 0, 0, 0, 0, 0, 0, 0}),  // a to b
                                   moves({0, 25 * mb, 0, 0, 0, 0, 0, 0, 0}),  // a to b
                                   moves({0, 0, 0, 50 * mb, 0, 0, 0, 0, 0}),  // b to a
                                   moves({0, 0, 0, 0, 0, 0, 0, 0, 0})});
  ASSERT_EQ(times.size(), 4u);
  // The smaller one has its 0.5 ms at half speed, then the larger one has the link to itself.
  EXPECT_NEAR(times[1].value, 5e-6 + 1e-3, 1e-12);
  EXPECT_NEAR(times[0].value, 5e-6 + 1.5e-3, 1e-12);
  EXPECT_NEAR(times[2].value, 5e-6 + 1e-3, 1e-12);
  EXPECT_EQ(times[3].value, 0);
}

TEST(ExchangeTime, SharedLinksServeWhoBeganFirstAloneUntilTheNext) {
  const Topology topology = star_of_three();
  const auto moves = [&](std::vector<std::int64_t> bytes) {
    return price(topology, ByteMatrix::from_dense(3, bytes));
  };
  // Both leave a, only by its first link: from 105 us on they share it.
  const auto times = shared_times({moves({0, 50 * mb, 0, 0, 0, 0, 0, 0, 0}),    // a to b
                                   moves({0, 0, 25 * mb, 0, 0, 0, 0, 0, 0})});  // a to c
  ASSERT_EQ(times.size(), 2u);
  EXPECT_NEAR(times[0].value, 1.505e-3, 1e-12);
  EXPECT_NEAR(times[1].value, 1.105e-3, 1e-12);
}

}  // namespace
}  // namespace moesim
