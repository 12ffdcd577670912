// SPDX-License-Identifier: Apache-2.0
// A shared link against one that serves all its jobs in small steps from arrival to arrival.
#include "sim/plan/shared_link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace moesim {
namespace {

struct Arrival {
  double time, work;
};

/// When each job ends: between two events all that are there get the same share.
std::vector<double> served(const std::vector<Arrival>& arrivals) {
  std::vector<double> ends(arrivals.size()), left(arrivals.size());
  std::vector<std::size_t> inside;
  double now = 0;
  for (std::size_t next = 0; next < arrivals.size() || !inside.empty();) {
    double until = next < arrivals.size() ? arrivals[next].time : 1e300;
    for (const std::size_t job : inside) {
      until = std::min(until, now + left[job] * static_cast<double>(inside.size()));
    }
    const double share =
        (until - now) / static_cast<double>(std::max<std::size_t>(1, inside.size()));
    for (const std::size_t job : inside) {
      left[job] -= share;
      if (left[job] < 1e-12) ends[job] = until;
    }
    std::erase_if(inside, [&](std::size_t job) { return left[job] < 1e-12; });
    now = until;
    for (; next < arrivals.size() && arrivals[next].time <= now; ++next) {
      left[next] = arrivals[next].work;
      inside.push_back(next);
    }
  }
  return ends;
}

/// Arrivals close enough that many jobs are there at once, some of them equal.
std::vector<Arrival> random_arrivals(std::mt19937& random, int most) {
  std::vector<Arrival> arrivals;
  double time = 0;
  const int count = 1 + static_cast<int>(random() % static_cast<unsigned>(most));
  for (int i = 0; i < count; ++i) {
    time += 0.25 * static_cast<double>(random() % 4);
    arrivals.push_back({time, 0.5 * static_cast<double>(1 + random() % 9)});
  }
  return arrivals;
}

TEST(SharedLink, EndsJobsAsServingAllEvenlyDoes) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 300; ++trial) {
    const auto arrivals = random_arrivals(random, 12);
    SharedLink<std::size_t> link;
    std::vector<double> ends(arrivals.size(), -1);
    const auto ended = [&](std::size_t job, Seconds at) {
      EXPECT_EQ(ends[job], -1) << "ended twice";
      ends[job] = at.value;
    };
    for (std::size_t i = 0; i < arrivals.size(); ++i) {
      link.advance(Seconds(arrivals[i].time), ended);
      link.add(i, Seconds(arrivals[i].work));
    }
    std::vector<double> foretold = ends;
    double before = 0;
    link.foretell([&](std::size_t job, Seconds at) {
      EXPECT_GE(at.value, before - 1e-12) << "out of order";
      before = at.value;
      foretold[job] = at.value;
    });
    link.advance(Seconds(1e9), ended);
    const auto expected = served(arrivals);
    for (std::size_t i = 0; i < arrivals.size(); ++i) {
      EXPECT_NEAR(ends[i], expected[i], 1e-9) << "job " << i << " of trial " << trial;
      EXPECT_NEAR(foretold[i], expected[i], 1e-9) << "job " << i << " of trial " << trial;
    }
  }
}

TEST(SharedLink, OfEqualJobsTheFirstEndsFirst) {
  SharedLink<int> link;
  for (int job = 0; job < 5; ++job) link.add(job, Seconds(1));
  std::vector<int> order;
  link.advance(Seconds(10), [&](int job, Seconds) { order.push_back(job); });
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
}

}  // namespace
}  // namespace moesim
