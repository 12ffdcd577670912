// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/simulate/events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>
#include <vector>

namespace moesim {
namespace {

using testing::ElementsAre;

TEST(EventQueue, CallsInTheOrderOfTimesAndOfCalls) {
  EventQueue events;
  std::vector<std::pair<int, double>> called;
  const auto note = [&](int number) {
    return [&, number] { called.emplace_back(number, events.now().value); };
  };
  events.call(Seconds(2), note(1));
  events.call(Seconds(1), note(2));
  events.call(Seconds(2), note(3));
  events.call(Seconds(1), note(4));
  events.run();
  EXPECT_THAT(called, ElementsAre(std::pair(2, 1.0), std::pair(4, 1.0), std::pair(1, 2.0),
                                  std::pair(3, 2.0)));
}

TEST(EventQueue, CallsNowWhatComesTooLateButAfterWhatRuns) {
  EventQueue events;
  std::vector<std::pair<int, double>> called;
  events.call(Seconds(3), [&] {
    events.call(Seconds(1), [&] { called.emplace_back(2, events.now().value); });
    called.emplace_back(1, events.now().value);
  });
  events.run();
  EXPECT_THAT(called, ElementsAre(std::pair(1, 3.0), std::pair(2, 3.0)));
}

/// What runs calls others, now and later, until there were enough of them: few times, so that most
/// events have the time of others.
struct ManyEvents {
  void call_some(Seconds now) {
    for (auto i = random() % 3; i > 0 && made < 3000; --i, ++made) {
      const Seconds time(now.value + static_cast<double>(random() % 50));
      due.emplace(time, made);
      events.call(time, [this, number = made] {
        called.push_back(number);
        EXPECT_EQ(due.begin()->second, number);  // equal times: in the order of the calls
        EXPECT_EQ(due.begin()->first, events.now());
        due.erase(due.begin());
        call_some(events.now());
      });
    }
  }

  std::mt19937 random{3};
  EventQueue events;
  std::multimap<Seconds, int> due;
  std::vector<int> called;
  int made = 0;
};

TEST(EventQueue, CallsManyInTheOrderOfASortedList) {
  ManyEvents many;
  for (int i = 0; i < 300; ++i) many.call_some(Seconds(0));
  many.events.run();
  EXPECT_EQ(many.called.size(), 3000U);
  EXPECT_TRUE(many.due.empty());
}

}  // namespace
}  // namespace moesim
