// SPDX-License-Identifier: Apache-2.0
// When shared exchanges begin and end, on profiles whose times one can add up.
#include "sim/profile/clocks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sim/profile/profile_fit.h"
#include "sim/profile/profile_validation.h"
#include "tests/profile/files.h"

namespace moesim {
namespace {

/// An exchange on a rank, in microseconds.
struct Shown {
  int rank = 0, op = 0;
  double begin = 0, end = 0, waiting = 0;
};

/// A timeline as moesim-hw writes it, of two ranks.
std::string timeline_of(const std::vector<Shown>& exchanges) {
  std::string text = R"({"otherData":{"moesim":"0"},"traceEvents":[)";
  for (int r = 0; r < 2; ++r) {
    text += fmt::format(
        R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":"rank {} of a"}}}},)", r, r);
  }
  for (const Shown& e : exchanges) {
    text += fmt::format(
        R"({{"ph":"X","pid":{},"tid":0,"ts":{:.3f},"dur":{:.3f},"name":"x","cat":"exchange",)"
        R"("args":{{"op":"token-exchange","stage":"dispatch","ranks":2,"op_id":{},)"
        R"("link":"nic","link_bytes":1000,"waiting_us":{}}}}},)",
        e.rank, e.begin, e.end - e.begin, e.op, e.waiting);
  }
  text.back() = ']';
  return text + '}';
}

// Rank 1 joins both exchanges 5 us later; it leaves the first 20 us and the second 10 us earlier.
const std::vector<Shown> two_exchanges = {
    {0, 1, 0, 100, 5}, {1, 1, 5, 80, 0}, {0, 2, 200, 300, 5}, {1, 2, 205, 290, 0}};

TEST(Clocks, RanksOfOneTimelineHaveOneClock) {
  const ProfileFiles files;
  const ReadProfile read = read_files({files.write("t.json", timeline_of(two_exchanges))});
  EXPECT_EQ(read.clocks.matched, 2);
  EXPECT_EQ(read.clocks.largest_shift.value, 0);
  EXPECT_EQ(read.clocks.unaligned, 0);
  EXPECT_NEAR(read.clocks.residual_median.value, 10e-6, 1e-12);
  EXPECT_EQ(read.profile.ranks[1].kernels[0].start, 5 * us);
}

TEST(Clocks, ExchangesLastFromTheLastStartToTheLastEnd) {
  const ProfileFiles files;
  const ReadProfile read = read_files({files.write("t.json", timeline_of(two_exchanges))});
  EXPECT_EQ(lags_of(read.profile)[0], (std::vector<ProfileTicks>{0, 0}));
  EXPECT_EQ(lags_of(read.profile)[1], (std::vector<ProfileTicks>{20 * us, 10 * us}));
  const StepTimes times = step_times(read.profile, 1);
  EXPECT_NEAR(times.kinds[static_cast<std::size_t>(KernelKind::dispatch)], 190e-6, 1e-12);
  const auto samples = link_samples(read.profile, {});
  EXPECT_EQ(samples.at("nic").size(), 4U);
  for (const Sample& sample : samples.at("nic")) {
    EXPECT_NEAR(sample.time.value, 95e-6, 1e-12);
  }
}

TEST(Clocks, ExchangesAreMatchedByTheirNumbersOfWhichZeroIsOne) {
  const ProfileFiles files;
  const std::vector<Shown> exchanges = {{0, 1, 0, 100}, {0, 0, 200, 300}, {1, 0, 205, 290}};
  const ReadProfile read = read_files({files.write("t.json", timeline_of(exchanges))});
  EXPECT_EQ(read.clocks.matched, 1);
  EXPECT_EQ(lags_of(read.profile)[1], (std::vector<ProfileTicks>{10 * us}));
}

TEST(Clocks, ARankWithoutKernelsIsNone) {
  const ProfileFiles files;
  const ReadProfile read = read_files({files.write("t.json", timeline_of({{1, 1, 0, 100}}))});
  ASSERT_EQ(read.profile.ranks.size(), 1U);
  EXPECT_EQ(read.profile.ranks[0].rank, 1);
}

TEST(Clocks, ARankThatLeavesBeforeTheLastJoinsDoesNotLengthenAnExchange) {
  const ProfileFiles files;
  const ReadProfile read =
      read_files({files.write("t.json", timeline_of({{0, 1, 0, 10, 10}, {1, 1, 40, 100, 0}}))});
  const StepTimes times = step_times(read.profile, 1);
  EXPECT_NEAR(times.kinds[static_cast<std::size_t>(KernelKind::dispatch)], 60e-6, 1e-12);
}

}  // namespace
}  // namespace moesim
