// SPDX-License-Identifier: Apache-2.0
// Engines that are queues with a closed form.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "sim/serving/requests/request_generator.h"
#include "tests/serving/simple_prices.h"

namespace moesim {
namespace {

using namespace testing;

/// Mean wait of requests of one token that are served one by one, 1 s each, and its sampling error
/// by the means of 40 parts of the run.
std::pair<double, double> wait_of(const ArrivalLaw& arrivals) {
  RequestDraw draw;
  draw.count = 40000;
  draw.seed = 3;
  draw.arrivals = arrivals;
  FormulaPrices prices([](const ServingBatch&) { return 1.0; });
  EngineOptions engine;
  engine.max_sequences = 1;
  const ServingRun run = run_serving(one_engine(engine, prices), draw_requests(draw));
  constexpr std::size_t parts = 40;
  std::vector<double> means(parts);
  const std::size_t part = run.requests.size() / parts;
  for (std::size_t i = 0; i < run.requests.size(); ++i) {
    const RequestOutcome& request = run.requests[i];
    means[i / part] += ((request.first - request.arrival).value - 1) / static_cast<double>(part);
  }
  const double mean = std::accumulate(means.begin(), means.end(), 0.0) / parts;
  double squares = 0;
  for (const double each : means) squares += (each - mean) * (each - mean);
  return {mean, std::sqrt(squares / (parts - 1) / parts)};
}

TEST(Queueing, PoissonArrivalsWaitAsInMD1) {
  for (const double load : {0.3, 0.5, 0.8}) {
    const auto [mean, error] = wait_of({ArrivalLaw::Kind::poisson, load, 1});
    const double exact = load / (2 * (1 - load));  // Pollaczek and Khinchine, constant service
    EXPECT_NEAR(mean, exact, 3 * error) << "load " << load;
    EXPECT_LT(error, 0.06 * exact) << "load " << load;
  }
}

TEST(Queueing, EvenArrivalsNeverWaitAndBurstsWaitLonger) {
  EXPECT_NEAR(wait_of({ArrivalLaw::Kind::even, 0.9, 1}).first, 0, 1e-6);
  EXPECT_GT(wait_of({ArrivalLaw::Kind::gamma, 0.5, 3}).first,
            2 * wait_of({ArrivalLaw::Kind::poisson, 0.5, 1}).first);
}

/// Poisson arrivals of 10 tokens in and 20 out; passes of 1 s, whatever their batch.
ServingRun run_with_cache(std::int64_t tokens) {
  RequestDraw draw;
  draw.count = 400;
  draw.seed = 5;
  draw.arrivals = {ArrivalLaw::Kind::poisson, 2, 1};
  draw.input = {LengthLaw::Kind::fixed, 10};
  draw.output = {LengthLaw::Kind::fixed, 20};
  FormulaPrices prices([](const ServingBatch&) { return 1.0; });
  EngineOptions engine;
  engine.kv.block = 1;
  engine.kv.capacity = tokens;
  return run_serving(one_engine(engine, prices), draw_requests(draw));
}

TEST(Queueing, WithAnInfiniteCacheNobodyWaitsForAnother) {
  const ServingRun run = run_with_cache(no_limit);
  for (const RequestOutcome& request : run.requests) {
    EXPECT_LE((request.first - request.arrival).value, 2 + tiny) << "a pass under way, its own";
    EXPECT_NEAR((request.finish - request.first).value, 19, tiny);
  }
  const InstanceSummary& unbounded = run.instances[0];
  EXPECT_EQ(unbounded.ranks.preemptions, 0);
  EXPECT_EQ(unbounded.kv_left, 0);

  // Twice what is held between passes: sequences that end within one are still in it.
  const ServingRun enough = run_with_cache(2 * unbounded.kv_tokens_most);
  EXPECT_EQ(enough.end, run.end);
  EXPECT_EQ(enough.gaps, run.gaps);
  const ServingRun less = run_with_cache(unbounded.kv_tokens_most / 2);
  EXPECT_GT(less.end, run.end);
}

}  // namespace
}  // namespace moesim
