// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/simulate/events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace moesim
