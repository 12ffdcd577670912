// SPDX-License-Identifier: Apache-2.0
// Figures and words that advise derives from its table.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "sim/base/units.h"
#include "sim/sweep/advise.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::Not;

struct AdviceParts {
  std::string text;
  Table table{"none", 0, {}};
};

/// Advice for 16 GPUs and one layer of a small trace; all candidates are simulated at port.
AdviceParts advice_parts(
    const std::string& more, int finals = 0, double budget = 600,
    const std::function<bool()>& stop = [] { return false; }) {
  const SweepGrid grid = SweepGrid::parse(
      "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\nset: [topology.nodes=2]\n"
      "steps: 0\nlayers: [1]\n" +
          more,
      "advice.yaml", {});
  AdviseOptions options;
  options.version = "v";
  options.finals = finals;
  options.most_part = 1;
  options.lossy = true;
  options.budget = budget;
  options.stop = stop;
  AdviceParts parts;
  const Printout printout = advise(grid, options);
  for (const auto& part : printout.parts()) {
    if (const auto* line = std::get_if<std::string>(&part)) parts.text += *line;
    if (const auto* table = std::get_if<Table>(&part)) parts.table = *table;
  }
  return parts;
}

TEST(AdviceWords, SayHowMuchLongerTheNextTakes) {
  for (const int finals : {0, 2}) {
    const AdviceParts parts = advice_parts("policy: [alltoall, dedup]\n", finals);
    const auto time = static_cast<std::size_t>(
        std::ranges::find(parts.table.columns, finals > 0 ? "flow" : "time", &TableColumn::name) -
        parts.table.columns.begin());
    const double first = *parts.table.rows.at(0).at(time).value;
    const double missing = *parts.table.rows.at(1).at(time).value - first;
    ASSERT_GT(missing, 0);
    EXPECT_THAT(parts.text,
                HasSubstr(fmt::format("# the next takes {} ({:.1f} %) longer",
                                      to_string(Seconds(missing)), 100 * missing / first)));
  }
}

TEST(AdviceWords, TellWhichOfTheShownLoseAnything) {
  const auto lossy = [](const std::string& policies) {
    const Table table = advice_parts("policy: " + policies + "\n").table;
    return std::ranges::find(table.columns, "lossy", &TableColumn::name)->telling;
  };
  EXPECT_FALSE(lossy("[alltoall, dedup]"));
  EXPECT_TRUE(lossy("[alltoall, switch]"));
}

/// A `stop` that never stops, but sleeps once when so many child processes have ended.
class SleepsAfterChildren {
 public:
  SleepsAfterChildren(int children, std::chrono::milliseconds time)
      : left_(children), time_(time) {}
  bool operator()() {
    const long before = std::exchange(faults_, faults());
    if (before != faults_ && --left_ == 0) std::this_thread::sleep_for(time_);
    return false;
  }
  /// Whether these children have ended.
  bool done() {
    (*this)();
    return left_ <= 0;
  }

 private:
  static long faults() {
    struct rusage usage = {};
    ::getrusage(RUSAGE_CHILDREN, &usage);
    return usage.ru_minflt;
  }
  int left_;
  std::chrono::milliseconds time_;
  long faults_ = faults();
};

TEST(AdviceWords, SayThatTheTimeWasOver) {
  const std::string two = "policy: [alltoall, dedup]\n", over = "# the time was over\n";
  EXPECT_THAT(advice_parts(two).text, Not(HasSubstr("the time was over")));
  // Two children: the workers of both fidelities.
  const SleepsAfterChildren sleeps(2, std::chrono::milliseconds(2050));
  EXPECT_THAT(advice_parts(two, 0, 2, sleeps).text, HasSubstr(over));
}

TEST(AdviceWords, TellAnInterruptionFromTheEndOfTheTime) {
  bool pressed = false;
  const SleepsAfterChildren first_fidelity(1, std::chrono::milliseconds(0));
  const auto after_analytic = [&pressed, waits = first_fidelity]() mutable {
    pressed = pressed || waits.done();
    return pressed;
  };
  const std::string text = advice_parts("policy: [alltoall, dedup]\n", 0, 600, after_analytic).text;
  EXPECT_THAT(text, HasSubstr("# interrupted: 2 of 2 candidates are known\n"));
  EXPECT_THAT(text, Not(HasSubstr("the time was over")));
}

}  // namespace
}  // namespace moesim
