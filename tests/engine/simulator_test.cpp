// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "sim/engine/child_process.h"

namespace moesim {
namespace {

constexpr Seconds precision(1e-12);

/// What `function(simulator)` returns in a process of its own, where it may run the simulator.
template <class Function>
double simulated(Function function) {
  return std::stod(run_in_child([&] {
    const auto simulator = make_simulator(precision);
    return std::to_string(function(*simulator));
  }));
}

TEST(Simulator, CallsAtTheTimes) {
  EXPECT_EQ(simulated([](Simulator& s) {
              double first = 0;
              s.call(Seconds(3), [&] { s.call(Seconds(1), [&] { first += s.now().value; }); });
              s.call(Seconds(2), [&] { first += 10 * s.now().value; });
              s.run();
              return first;
            }),
            23);
}

TEST(Simulator, SleepsAndSpawnsWhileItRuns) {
  EXPECT_EQ(simulated([](Simulator& s) {
              s.spawn([&] {
                s.sleep_until(Seconds(2));
                s.spawn([&] { s.sleep_until(Seconds(5)); });
              });
              s.run();
              return s.now().value;
            }),
            5);
}

/// What several ask for at one time may not change what the first of them is about to look at.
TEST(Simulator, EndsAFunctionBeforeTheNextOne) {
  EXPECT_EQ(simulated([](Simulator& s) {
              int inside = 0, most = 0, calls = 0;
              std::function<void(int)> ask = [&](int depth) {
                most = std::max(most, ++inside);
                ++calls;
                for (int i = 0; i < 3 && depth > 0; ++i) {
                  s.call(s.now(), [&ask, depth] { ask(depth - 1); });
                }
                --inside;
              };
              for (int i = 0; i < 3; ++i) s.call(Seconds(1), [&] { ask(3); });
              s.run();
              return 1000.0 * most + calls;
            }),
            1000 + 3 * (1 + 3 + 9 + 27));
}

TEST(Simulator, StartsWhatIsAskedForBeforeItWaits) {
  EXPECT_EQ(simulated([](Simulator& s) {
              double started = 0;
              s.spawn([&] {
                s.spawn([&] { started = 1 + s.now().value; });
                s.sleep_until(Seconds(2));
                started *= 10;
              });
              s.run();
              return started;
            }),
            10);
}

TEST(Simulator, RethrowsWhatAnActorThrows) {
  const auto run = [] {
    simulated([](Simulator& s) {
      s.spawn([] { throw std::logic_error("no such exchange"); });
      s.run();
      return 0.0;
    });
  };
  EXPECT_THAT(run, testing::ThrowsMessage<std::runtime_error>("no such exchange"));
}

}  // namespace
}  // namespace moesim
