// SPDX-License-Identifier: Apache-2.0
// What failures cost: against published formulas, and against failures drawn one by one.
#include "sim/failures/checkpoints.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace moesim {
namespace {

FailingJob job_of(double between) {
  return {Seconds(10), Seconds(60), Seconds(300), Seconds(between)};
}

TEST(Checkpoints, IntervalsOfYoungAndDaly) {
  EXPECT_DOUBLE_EQ(young_interval(Seconds(50), Seconds(10000)).value, 1000);
  // 1000 (1 + 0.05 / 3 + 0.0025 / 9) - 50
  EXPECT_NEAR(daly_interval(Seconds(50), Seconds(10000)).value, 966.9444, 1e-4);
  EXPECT_DOUBLE_EQ(daly_interval(Seconds(50), Seconds(25)).value, 25);
}

TEST(Checkpoints, WithoutReplicasItIsDalysCompleteModel) {
  const FailingJob job = job_of(7200);
  for (const int steps : {1, 20, 200}) {
    const double m = 7200, work = 10.0 * steps;
    const double wall = m * std::exp(300 / m) * (std::exp((work + 60) / m) - 1);
    EXPECT_NEAR(useful_share(job, steps), work / wall, 1e-12);
  }
}

TEST(Checkpoints, BestIntervalIsThatOfTheFormulas) {
  // The exact optimum x of work / M solves (1 - x) e^(x + write / M) = 1.
  for (const double between : {3600.0, 36000.0, 3.6e6}) {
    FailingJob job = job_of(between);
    job.step = Seconds(1);
    const double x = static_cast<double>(best_steps(job)) / between;
    EXPECT_NEAR((1 - x) * std::exp(x + 60 / between), 1, 2e-3 * x);
    EXPECT_NEAR(x * between, daly_interval(job.write, job.between).value, 0.01 * x * between);
  }
  // Young's is the limit of rare failures.
  FailingJob rare = job_of(1e9);
  rare.step = Seconds(1);
  EXPECT_NEAR(static_cast<double>(best_steps(rare)), young_interval(rare.write, rare.between).value,
              100);
}

TEST(Checkpoints, NothingFailsInTheLimit) {
  FailingJob job = job_of(1e12);
  EXPECT_NEAR(useful_share(job, 54), 540.0 / 600, 1e-9);
  const HourOfFailures hour = hour_of(job, 54);
  EXPECT_NEAR(hour.lost.value, 360, 1e-5);
  EXPECT_NEAR(hour.writing.value, 360, 1e-5);
  EXPECT_NEAR(hour.redone, 0, 1e-5);
  EXPECT_DOUBLE_EQ(hour_of(job_of(1800), 54).failures, 2);
  EXPECT_DOUBLE_EQ(useful_share(job_of(std::numeric_limits<double>::infinity()), 54), 0.9);
}

TEST(Checkpoints, WhatNeverRunsLosesAllTime) {
  for (const double survived : {0.0, 0.5, 1.0}) {
    for (const double write : {0.0, 60.0}) {
      FailingJob job = job_of(1e-3);
      job.survived = survived;
      job.write = Seconds(write);
      job.pause = Seconds(30);
      const HourOfFailures hour = hour_of(job, best_steps(job));
      EXPECT_EQ(useful_share(job, 1), 0);
      EXPECT_DOUBLE_EQ(hour.lost.value, 3600);
      EXPECT_EQ(hour.writing.value, 0);
      EXPECT_DOUBLE_EQ(hour.down.value, 3600);
      EXPECT_NEAR(hour.redone, 0, 1e-9);
    }
  }
}

TEST(Checkpoints, AreAStepApartAtLeastAndAYearAtMost) {
  FailingJob job = job_of(100);
  job.step = Seconds(1000);
  EXPECT_EQ(best_steps(job), 1);
  EXPECT_EQ(best_steps(job_of(1e18)), 365 * 24 * 360);
}

/// Plays a job with failures drawn one by one.
struct Played {
  double time = 0, down = 0, writing = 0, counted = 0;
};

class Player {
 public:
  Player(const FailingJob& job, int steps) : job_(job), steps_(steps) { draw(); }

  Played play(int checkpoints) {
    for (int done = 0; done < checkpoints; ++done) {
      while (!segment()) restart();
    }
    return all_;
  }

 private:
  void draw() {
    next_ = all_.time + std::exponential_distribution<>(1 / job_.between.value)(random_);
  }
  bool lasts(double work) {
    if (all_.time + work <= next_) {
      all_.time += work;
      return true;
    }
    all_.time = next_;
    draw();
    return false;
  }
  bool survived() { return std::uniform_real_distribution<>()(random_) < job_.survived; }
  void restart() {
    const double begin = all_.time;
    while (!lasts(job_.restart.value)) {
    }
    all_.down += all_.time - begin;
  }
  /// Until the work is done; false if a failure is not survived.
  bool piece(double work) {
    while (!lasts(work)) {
      if (!survived()) return false;
      const double begin = all_.time;
      bool alive = true;
      while (alive && !lasts(job_.pause.value)) alive = survived();
      all_.down += all_.time - begin;
      if (!alive) return false;
    }
    return true;
  }
  bool segment() {
    for (int step = 0; step < steps_; ++step) {
      if (!piece(job_.step.value)) return false;
    }
    if (!piece(job_.write.value)) return false;
    all_.writing += job_.write.value;
    all_.counted += steps_ * job_.step.value;
    return true;
  }

  FailingJob job_;
  int steps_;
  Played all_;
  double next_ = 0;
  std::mt19937_64 random_{5};
};

TEST(Checkpoints, FailuresOneByOneAgree) {
  for (const double survived : {0.0, 0.4, 0.9, 1.0}) {
    for (const double between : {400.0, 3000.0}) {
      FailingJob job = job_of(between);
      job.survived = survived;
      job.pause = Seconds(30);
      constexpr int steps = 30;
      const Played played = Player(job, steps).play(400000);
      const HourOfFailures hour = hour_of(job, steps);
      EXPECT_NEAR(played.counted / played.time, useful_share(job, steps),
                  0.015 * useful_share(job, steps))
          << survived << " " << between;
      EXPECT_NEAR(played.down / played.time, hour.down.value / 3600,
                  0.015 * hour.down.value / 3600);
      const double redone = played.time - played.counted - played.down - played.writing;
      EXPECT_NEAR(redone / played.time * 360, hour.redone, 0.02 * hour.redone + 0.01);
    }
  }
}

TEST(Checkpoints, ReplicasPayMoreTheMoreFails) {
  double last = 0;
  for (const double between : {36000.0, 7200.0, 1800.0, 600.0}) {
    FailingJob none = job_of(between), all = none;
    all.survived = 1;
    all.pause = Seconds(30);
    const double gain = useful_share(all, best_steps(all)) / useful_share(none, best_steps(none));
    EXPECT_GT(gain, 1 + last);
    last = gain - 1;
  }
}

}  // namespace
}  // namespace moesim
