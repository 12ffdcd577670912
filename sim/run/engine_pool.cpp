// SPDX-License-Identifier: Apache-2.0
#include "sim/run/engine_pool.h"

#include <algorithm>
#include <utility>

#include "sim/planner/iteration/planner.h"
#include "sim/run/kv_links.h"
#include "sim/run/runs_on.h"
#include "sim/serving/deployment/deployment.h"

namespace moesim {
namespace {

constexpr std::size_t most_samples = 256;

/// A pass as large as the engine allows, on every rank: what work takes of a GPU's memory.
ServingBatch largest_pass(const EngineOptions& engine, const RequestLog& log, int ranks) {
  std::int64_t longest = 1;
  for (const ServingRequest& request : log.requests) longest = std::max(longest, request.input);
  const std::int64_t tokens = std::min(engine.max_tokens, longest);
  return {std::vector<std::vector<SequenceStep>>(
      static_cast<std::size_t>(ranks),
      {SequenceStep{0, std::max<std::int64_t>(tokens, 1), 1, -1}})};
}

EngineOptions options_of(const PoolInstances& pool, const RequestLog& log) {
  EngineOptions engine = pool.engine->for_ranks(pool.prices->ranks());
  const Scenario& scenario = pool.prices->run().scenario;
  engine.experts_apart = scenario.iteration->serving->attention_ranks > 0;
  const ServingBatch largest = largest_pass(engine, log, pool.prices->ranks());
  if (engine.kv.capacity == no_limit) {
    engine.kv.capacity = pool.prices->exact().cache_tokens(largest, pool.engine->memory);
  }
  const bool moves = engine.rebalance.interval > 0;
  if (moves && !pool.prices->exact().plans_from_loads(largest)) engine.rebalance = {};
  return engine;
}

/// GPUs that share a sequence's heads or tokens.
int sharing(const PoolPrices& pool) {
  const ParallelSizes& sizes = pool.run().scenario.iteration->parallel;
  return sizes.tp * sizes.cp;
}

/// The GPUs of a sequence send their parts at once, over as many links as both sides have for it.
LinkTransfers::Link link_between(PoolPrices& prompts, const PoolPrices& decode,
                                 const EngineRun& asked) {
  const int both = std::min(sharing(prompts), sharing(decode));
  LinkTransfers::Link link;
  link.per_token = prompts.exact().cache_per_token() * sharing(prompts);
  link.of_sender = std::max(1, prompts.gpus() / both);
  link.of_receiver = std::max(1, decode.gpus() / both);
  link.latency = asked.transfer_latency;
  if (asked.transfer_bandwidth) {
    link.bandwidth = *asked.transfer_bandwidth * both;
    return link;
  }
  const KvLink all = kv_link(prompts.run().scenario, prompts.gpus(), decode.gpus());
  link.bandwidth =
      all.bandwidth * (static_cast<double>(both) / std::min(prompts.gpus(), decode.gpus()));
  link.latency = all.latency;
  return link;
}

/// Errors of both tables, by how often each was checked.
PriceErrors together(const PriceErrors& a, const PriceErrors& b) {
  const auto of_a = static_cast<double>(a.checks), of_b = static_cast<double>(b.checks);
  if (of_a + of_b == 0) return {};
  return {a.checks + b.checks, (a.mean * of_a + b.mean * of_b) / (of_a + of_b),
          std::max(a.most, b.most), (a.sum * of_a + b.sum * of_b) / (of_a + of_b)};
}

/// The run on that routing, or the last one.
const PolicyRun& run_of(const std::vector<PolicyRun>& runs, RoutingSource routing) {
  const auto found = std::ranges::find(runs, routing, &PolicyRun::routing);
  return found == runs.end() ? runs.back() : *found;
}

}  // namespace

PoolPrices::PoolPrices(const PolicyRun& run, Fidelity fidelity, const EngineRun& asked)
    : run_(run),
      exact_(run, fidelity, asked.engine.options),
      table_(exact_, asked.prices),
      exact_only_(asked.exact_prices),
      gpus_(run.cluster.topology.gpu_count()),
      ranks_(run.scenario.iteration->serving->attending(
          shape_of(*run.scenario.iteration, gpus_, run.inputs.model).grid.size(ParallelAxis::dp))) {
}

OpenedPool::OpenedPool(Scenario scenario, RoutingSource routing)
    : scenario_(std::move(scenario)),
      inputs_(open_inputs(scenario_)),
      runs_(runs_on(scenario_, inputs_, 0)),
      prices_(run_of(runs_, routing), scenario_.fidelities.front(), *scenario_.engine_run) {}

ServedPools serve(const EngineRun& asked, const PoolInstances& prompts,
                  const std::optional<PoolInstances>& decode, const RequestLog& log,
                  const JobProgress& progress) {
  ServedPools served;
  Deployment deployment;
  deployment.pool = {options_of(prompts, log), prompts.count, &prompts.prices->prices()};
  deployment.router = asked.router;
  deployment.losses = asked.losses;
  deployment.loss_rate = asked.loss_rate;
  served.gpus = prompts.prices->gpus() * prompts.count;
  LinkTransfers::Link link;
  if (decode) link = link_between(*prompts.prices, *decode->prices, asked);
  LinkTransfers transfers(link, prompts.count, decode ? decode->count : 1);
  if (decode) {
    deployment.decode =
        ServingPool{options_of(*decode, log), decode->count, &decode->prices->prices()};
    deployment.transfers = &transfers;
    served.gpus += decode->prices->gpus() * decode->count;
  }
  const EngineOptions& decoding = decode ? deployment.decode->engine : deployment.pool.engine;
  served.ranks = decoding.ranks;
  served.kv_tokens = decoding.kv.capacity;
  const auto count = static_cast<int>(log.requests.size());
  served.run = run_serving(deployment, log, [&](double done) { progress(done * count, count); });
  served.moved = transfers.moved();
  return served;
}

EngineOutcome run_pools(const EngineRun& asked, const PoolInstances& prompts,
                        const std::optional<PoolInstances>& decode, const RequestLog& log,
                        const JobProgress& progress) {
  const ServedPools served = serve(asked, prompts, decode, log, progress);
  EngineOutcome outcome;
  outcome.ranks = served.ranks;
  outcome.gpus = served.gpus;
  outcome.kv_tokens = served.kv_tokens;
  outcome.never_planned = (decode ? *decode : prompts).prices->exact().never_planned();
  outcome.metrics = serving_metrics(served.run, asked.sla, asked.warmup, outcome.gpus);
  outcome.costs = TokenCosts::of(prompts.prices->run().cluster.costs, outcome.gpus, 1,
                                 outcome.metrics.rates.output);
  outcome.samples = thinned(served.run.samples, most_samples);
  outcome.simulated = asked.exact_prices ? outcome.metrics.passes.passes : prompts.prices->points();
  outcome.errors = prompts.prices->errors();
  if (decode && decode->prices != prompts.prices) {
    outcome.simulated += asked.exact_prices ? 0 : decode->prices->points();
    outcome.errors = together(outcome.errors, decode->prices->errors());
  }
  outcome.moved_requests = served.run.moved_requests;
  outcome.moved = served.moved;
  for (const InstanceSummary& instance : served.run.instances) {
    outcome.losses.losses += instance.counts.losses;
    outcome.losses.restarted += instance.counts.restarted;
    outcome.losses.kv_tokens += instance.counts.lost_kv;
    outcome.losses.time += instance.counts.lost;
  }
  outcome.losses.restarted += served.run.broken_transfers;
  outcome.losses.kv_tokens += served.run.broken_tokens;
  return outcome;
}

}  // namespace moesim
