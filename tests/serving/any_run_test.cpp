// SPDX-License-Identifier: Apache-2.0
// What holds for any options, requests and deployments.
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/serving/deployment/serving_metrics.h"
#include "sim/serving/requests/request_generator.h"
#include "sim/trace/synth/random.h"
#include "tests/serving/simple_prices.h"

namespace moesim {
namespace {

using namespace testing;

class Chooser {
 public:
  explicit Chooser(std::uint64_t seed) : random_(seed) {}
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + random_.below(static_cast<std::uint32_t>(most - least + 1));
  }
  bool coin() { return random_.below(2) == 1; }
  double share() { return random_.uniform(); }

 private:
  Random random_;
};

RequestLog any_log(Chooser& any) {
  RequestDraw draw;
  draw.count = any.between(1, 60);
  draw.seed = static_cast<std::uint64_t>(any.between(0, 1000));
  draw.arrivals = {static_cast<ArrivalLaw::Kind>(any.between(0, 3)), 0.2 + 3 * any.share(),
                   0.5 + any.share()};
  draw.input = {static_cast<LengthLaw::Kind>(any.between(0, 2)), 100, 60, 1, 400};
  draw.output = {static_cast<LengthLaw::Kind>(any.between(0, 2)), 20, 19, 1, 100};
  if (any.coin()) draw.concurrency = any.between(1, 20);
  RequestLog log = draw_requests(draw);
  if (any.coin()) {
    log.prefix_tokens = 32;
    for (const ServingRequest& request : log.requests) {
      std::vector<std::uint64_t> hashes;
      std::uint64_t hash = 0;
      for (std::int64_t i = 0; i < request.input / 32; ++i) {
        hash = 3 * hash + 1 + static_cast<std::uint64_t>(any.between(0, 1));
        hashes.push_back(hash);
      }
      log.prefixes.add_row(hashes);
    }
  }
  return log;
}

RouterOptions any_router(Chooser& any) {
  RouterOptions router;
  router.kind = static_cast<RouterOptions::Kind>(any.between(0, 3));
  router.imbalance = any.between(1, 8);
  return router;
}

EngineOptions any_engine(Chooser& any) {
  EngineOptions engine;
  engine.ranks = static_cast<int>(any.between(1, 4));
  if (any.coin()) engine.max_sequences = any.between(1, 12);
  engine.chunked_prefill = any.between(0, 3) > 0;
  if (engine.chunked_prefill && any.coin()) engine.max_tokens = any.between(4, 200);
  if (engine.chunked_prefill && any.coin()) engine.chunk = any.between(1, 100);
  engine.mixed = any.coin();
  engine.cadence = any.coin() ? any.between(0, 4) : 0;
  engine.idle_passes = any.coin();
  if (any.coin()) engine.graph_sizes = {1, 2, 4, 8};
  engine.graphs_alike = any.coin();
  if (any.between(0, 3) == 0) {
    engine.drafts = 2;
    engine.gained = {0.3, 0.3, 0.4};
  }
  engine.kv.block = any.coin() ? 16 : 1;
  if (any.coin()) engine.kv.capacity = any.between(520, 900);
  engine.kv.prefix_cache = any.coin();
  if (any.coin()) engine.kv.reserve = {any.share(), 0, 20};
  if (any.between(0, 3) == 0) engine.kv.reserve = {1, 1, 0};
  engine.router = any_router(any);
  if (any.coin()) engine.rebalance = {any.between(1, 9), Seconds(any.share()), Seconds(2), 0.1};
  return engine;
}

struct AnyCase {
  RequestLog log;
  Deployment deployment;
};

AnyCase any_case(std::uint64_t seed, StepPrices& prices, KvTransfers& transfers) {
  Chooser any(seed);
  AnyCase of;
  of.log = any_log(any);
  of.deployment.pool = {any_engine(any), static_cast<int>(any.between(1, 3)), &prices};
  of.deployment.router = any_router(any);
  of.deployment.transfers = &transfers;
  if (any.between(0, 2) == 0) {
    of.deployment.decode =
        ServingPool{any_engine(any), static_cast<int>(any.between(1, 3)), &prices};
  }
  if (of.deployment.pool.engine.ranks > 1 && any.coin()) {
    of.deployment.losses = {{Seconds(20 * any.share()), 0, 1, Seconds(any.share()), Seconds(3)}};
  }
  if (any.coin()) {
    of.deployment.loss_rate =
        LossRate{Seconds(8 + 40 * any.share()), Seconds(0.2 * any.share()), Seconds(0.5), 1, seed};
  }
  return of;
}

/// Keys and values of a sequence are there once for each of its tokens but the last.
void check_tokens(const AnyCase& of, const ServingRun& run) {
  std::int64_t expected = 0, emitted = 0;
  for (const RequestOutcome& request : run.requests) {
    expected += request.input + request.output - 1;
    emitted += request.output;
  }
  RankCounts ranks;
  for (const InstanceSummary& instance : run.instances) ranks += instance.ranks;
  EXPECT_EQ(ranks.gained_tokens, emitted);
  const bool drafts = of.deployment.pool.engine.drafts > 0 ||
                      (of.deployment.decode && of.deployment.decode->engine.drafts > 0);
  if (drafts) return;
  EXPECT_EQ(ranks.prompt_tokens + ranks.cached_tokens + ranks.decode_tokens,
            expected + ranks.lost_tokens + run.broken_tokens);
}

void check_run(const AnyCase& of, const ServingRun& run) {
  for (const RequestOutcome& request : run.requests) {
    EXPECT_EQ(request.finishes, 1);
    EXPECT_EQ(request.emitted, request.output);
    EXPECT_GT(request.first, request.arrival);
    EXPECT_GE(request.finish, request.first);
    EXPECT_LE(request.finish, run.end);
  }
  check_tokens(of, run);
  for (const InstanceSummary& instance : run.instances) {
    EXPECT_EQ(instance.kv_left, 0);
    EXPECT_LE(instance.kv_tokens_most, instance.kv_capacity);
    const EngineOptions& engine =
        instance.decodes_only ? of.deployment.decode->engine : of.deployment.pool.engine;
    if (engine.kv.reserve.least == 1) {
      EXPECT_EQ(instance.ranks.preemptions, 0);
    }
  }
}

/// Each pass of the engine keeps the bounds that it was given.
void check_passes(const AnyCase& of, const FormulaPrices& prices) {
  if (of.deployment.decode) return;
  const EngineOptions& engine = of.deployment.pool.engine;
  for (const ServingBatch& batch : prices.asked) {
    ASSERT_EQ(std::ssize(batch.ranks), engine.ranks);
    for (const auto& steps : batch.ranks) {
      std::int64_t tokens = 0, sequences = 0;
      std::vector<std::int64_t> requests;
      for (const SequenceStep& step : steps) {
        if (step.request < 0) continue;
        tokens += step.tokens;
        ++sequences;
        requests.push_back(step.request);
      }
      EXPECT_LE(tokens, engine.max_tokens);
      EXPECT_LE(sequences, engine.max_sequences);
      std::ranges::sort(requests);
      EXPECT_EQ(std::ranges::adjacent_find(requests), requests.end()) << "twice in a pass";
    }
  }
}

class AnyRun : public ::testing::TestWithParam<int> {};

TEST_P(AnyRun, LosesNothingAndServesNothingTwice) {
  for (int i = 0; i < 25; ++i) {
    const auto seed = static_cast<std::uint64_t>(100 * GetParam() + i);
    SCOPED_TRACE(seed);
    const LinkTransfers::Link link = {growing_by(1000), BytesPerSecond(1e5), Seconds(0.01)};
    FormulaPrices prices([](const ServingBatch& batch) { return 0.1 + 1e-3 * tokens_in(batch); });
    LinkTransfers transfers(link, 3, 3), same_transfers(link, 3, 3);
    AnyCase of = any_case(seed, prices, transfers);
    const ServingRun run = run_serving(of.deployment, of.log);
    check_run(of, run);
    check_passes(of, prices);
    of.deployment.transfers = &same_transfers;
    const ServingRun again = run_serving(of.deployment, of.log);
    EXPECT_EQ(run.end, again.end);
    EXPECT_EQ(run.gaps, again.gaps);
    EXPECT_EQ(run.samples.size(), again.samples.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, AnyRun, ::testing::Range(0, 20));

}  // namespace
}  // namespace moesim
