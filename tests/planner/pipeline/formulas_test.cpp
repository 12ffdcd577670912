// SPDX-License-Identifier: Apache-2.0
// Closed forms of makespan, bubble and live activations, each under its condition, on the usual
// sizes and on random ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "tests/planner/pipeline/pipelines.h"

namespace moesim {
namespace {

using test::costs;
using test::Kind;
using test::makespan;
using test::peaks;
using test::pipeline;
using test::worst_bubble;

struct RandomTimes {
  double f, bi, w, fb;
  double b() const { return bi + w; }
  TurnCosts turn() const { return costs(f, bi, w, fb); }
};

class Draws {
 public:
  explicit Draws(unsigned seed) : random_(seed) {}
  int whole(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random_);
  }
  double real(double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random_);
  }
  /// Any times, max(F, B) <= FB <= F + B.
  RandomTimes times() {
    RandomTimes t{.f = real(0.1, 3), .bi = real(0.1, 3), .w = real(0.1, 3), .fb = 0};
    t.fb = merged(t);
    return t;
  }
  double merged(const RandomTimes& t) { return real(std::max(t.f, t.b()), t.f + t.b()); }

 private:
  std::mt19937 random_;
};

/// The sizes of real clusters, then random ones.
void for_sizes(const std::function<void(int p, int v, int groups, Draws& draws)>& check) {
  Draws draws(11);
  for (const int p : {4, 8, 16}) {
    for (const int groups : {1, 2, 4}) check(p, 2, groups, draws);
  }
  for (int i = 0; i < 150; ++i) {
    check(draws.whole(1, 9), draws.whole(2, 4), draws.whole(1, 4), draws);
  }
}

TEST(PipelineFormulas, GpipeAndOneForwardOneBackward) {
  for_sizes([](int p, int, int groups, Draws& draws) {
    const RandomTimes t = draws.times();
    const int m = p * groups - (groups > 1 ? draws.whole(0, p - 1) : 0);
    const double expected = (m + p - 1) * (t.f + t.b());
    const Pipeline plain = pipeline(Kind::one_f_one_b, p, m);
    EXPECT_NEAR(makespan(plain, t.turn()), expected, 1e-9 * expected);
    EXPECT_NEAR(makespan(pipeline(Kind::gpipe, p, m), t.turn()), expected, 1e-9 * expected);
    for (int stage = 0; stage < p; ++stage) EXPECT_EQ(peaks(plain)[stage], std::min(p - stage, m));
  });
}

TEST(PipelineFormulas, Interleaved) {
  for_sizes([](int p, int v, int groups, Draws& draws) {
    const RandomTimes t = draws.times();
    const int m = p * groups;
    const Pipeline plain = pipeline(Kind::interleaved, p, m, v);
    EXPECT_NEAR(worst_bubble(plain, t.turn()), (p - 1) * (t.f + t.b()), 1e-7);
    EXPECT_EQ(peaks(plain)[0], std::min(p * v + p - 1, m * v));

    const Pipeline merged = pipeline(Kind::combined_interleaved, p, m, v);
    const int w = std::min((v - 1) * p + 1, m * v);
    const double expected = w * (t.f + t.b()) + (m * v - w) * t.fb + (p - 1) * (t.f + t.b());
    EXPECT_NEAR(makespan(merged, t.turn()), expected, 1e-7) << p << " " << v << " " << m;
    EXPECT_EQ(peaks(merged)[0], std::min(p * v + p, m * v));
  });
}

TEST(PipelineFormulas, Combined) {
  for_sizes([](int p, int, int groups, Draws& draws) {
    const RandomTimes t = draws.times();
    const int m = p * groups - (groups > 1 ? draws.whole(0, p - 1) : 0);
    const Pipeline merged = pipeline(Kind::combined, p, m);
    const double ends = p * (t.f + t.b());
    EXPECT_NEAR(makespan(merged, t.turn()), ends + (m - 1) * t.fb, 1e-7) << p << " " << m;
    for (int stage = 0; stage < p; ++stage)
      EXPECT_EQ(peaks(merged)[stage], std::min(2 * (p - stage), m));
  });
}

TEST(PipelineFormulas, Zb1pWithShortWeightGradients) {
  for_sizes([](int p, int, int groups, Draws& draws) {
    RandomTimes t = draws.times();
    t.w = draws.real(0, std::min(t.f, t.bi));
    const int m = p * groups + draws.whole(0, p - 1);
    const Pipeline zb1p = pipeline(Kind::zb1p, p, m);
    EXPECT_NEAR(worst_bubble(zb1p, t.turn()), (p - 1) * (t.f + t.b() - 2 * t.w), 1e-7);
    EXPECT_EQ(peaks(zb1p)[0], p);
  });
}

TEST(PipelineFormulas, DualPipeWithInputGradientsLikeForwards) {
  for_sizes([](int half, int, int groups, Draws& draws) {
    RandomTimes t = draws.times();
    t.bi = t.f;
    t.w = draws.real(0, t.f);
    t.fb = draws.merged(t);
    const int p = 2 * half;
    const int m = 2 * p + 2 * draws.whole(0, groups);
    const double bubble = (half - 1) * (t.fb + t.b() - 3 * t.w);
    const Pipeline dual = pipeline(Kind::dualpipe, p, m);
    const Pipeline v = pipeline(Kind::dualpipev, half, m);
    EXPECT_NEAR(worst_bubble(dual, t.turn()), bubble, 1e-7) << p << " " << m;
    EXPECT_NEAR(worst_bubble(v, t.turn()), bubble, 1e-7) << p << " " << m;
    for (const int peak : peaks(dual)) EXPECT_LE(peak, p + 1);
    EXPECT_EQ(peaks(dual)[0], p + 1);
    EXPECT_EQ(peaks(v)[0], p + 1);
    // Long weight gradients: larger, by another form.
    t.w = t.f + draws.real(0.1, 2);
    t.fb = draws.merged(t);
    EXPECT_NEAR(worst_bubble(dual, t.turn()), (half - 1) * (t.fb - t.w), 1e-7) << p << " " << m;
  });
}

// Of arXiv 2401.10241, section 6, and arXiv 2405.15362 (V-Min: about a third of the memory,
// V-Half: half of 1F1B's P passes of a whole stage, each two passes of a chunk).
TEST(PipelineFormulas, VSchedulesOfEqualPasses) {
  const auto most = [](const Pipeline& p) {
    const std::vector<int> all = peaks(p);
    return *std::ranges::max_element(all);
  };
  for (int p = 2; p <= 24; ++p) {
    for (const int m : {2 * p, 3 * p + 1}) {
      const Pipeline zbv = pipeline(Kind::zbv, p, m), half = pipeline(Kind::v_half, p, m),
                     least = pipeline(Kind::v_min, p, m);
      EXPECT_EQ(most(zbv), 2 * p);
      EXPECT_EQ(most(half), 2 * ((p + 2) / 2)) << p;
      EXPECT_EQ(most(least), 2 * ((p + 4) / 3)) << p;
      const TurnCosts equal = costs(1, 1, 1);
      EXPECT_NEAR(worst_bubble(zbv, equal), p - 1, 1e-9);
      EXPECT_NEAR(worst_bubble(half, equal), 7 * p / 2 - 4, 1e-9) << p << " " << m;
      EXPECT_NEAR(worst_bubble(least, equal), 4 * p - (p % 3 == 0 ? 4 : 5), 1e-9) << p << " " << m;
    }
  }
}

TEST(PipelineFormulas, DualPipeAndDualPipeVHaveEqualBubbles) {
  for_sizes([](int half, int, int groups, Draws& draws) {
    const RandomTimes t = draws.times();
    const int m = 4 * half + 2 * draws.whole(0, 2 * groups);
    EXPECT_NEAR(worst_bubble(pipeline(Kind::dualpipe, 2 * half, m), t.turn()),
                worst_bubble(pipeline(Kind::dualpipev, half, m), t.turn()), 1e-7)
        << half << " " << m;
  });
}

}  // namespace
}  // namespace moesim
