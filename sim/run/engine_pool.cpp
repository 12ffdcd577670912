// SPDX-License-Identifier: Apache-2.0
#include "sim/run/engine_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/base/units.h"
#include "sim/base/unsuitable.h"
#include "sim/planner/iteration/planner.h"
#include "sim/run/kv_links.h"
#include "sim/run/planning_notes.h"
#include "sim/run/runs_on.h"
#include "sim/serving/deployment/deployment.h"

namespace moesim {
namespace {

constexpr std::size_t most_samples = 256;

/// A pass as large as the engine allows, on every rank: what work takes of a GPU's memory. Engines
/// measure that when they start, whatever requests come.
ServingBatch largest_pass(const EngineOptions& engine, const RequestLog& log, int ranks) {
  std::int64_t tokens = engine.max_tokens;
  if (tokens == no_limit) {
    tokens = 1;
    for (const ServingRequest& request : log.requests) tokens = std::max(tokens, request.input);
  }
  return {std::vector<std::vector<SequenceStep>>(
      static_cast<std::size_t>(ranks),
      {SequenceStep{0, std::max<std::int64_t>(tokens, 1), 1, -1}})};
}

/// Says in the options whether experts move.
EngineBalancing balance(EngineOptions& engine, PassPrices& prices) {
  const PassPrices::Balancing found = prices.balancing();
  if (!found.told) engine.rebalance = {};  // what nobody plans does not move
  return {found.from_loads, found.told, found.planned, engine.rebalance.interval,
          engine.rebalance.stall.has_value()};
}

/// KV tokens of the longest request, in whole blocks.
std::int64_t longest_request(const EngineOptions& engine, const RequestLog& log,
                             bool prompts_only) {
  std::int64_t longest = 1;
  for (const ServingRequest& request : log.requests) {
    longest = std::max(longest, request.input + (prompts_only ? 1 : request.output));
  }
  return engine.kv.blocks_of(longest + engine.drafts) * engine.kv.block;
}

/// Tokens that a rank has room for: what memory leaves, or what is stated, if it leaves so much.
void set_room(const PoolInstances& pool, const ServingBatch& largest, EngineOptions& engine) {
  const std::int64_t stated = engine.kv.capacity;
  const EngineMemory memory = stated == no_limit ? pool.engine->memory : EngineMemory{1, false};
  const std::int64_t room = pool.prices->exact().cache_tokens(largest, memory);
  engine.experts = pool.prices->exact().served_experts(memory);
  engine.kv.sequence = pool.prices->exact().sequence_cache();
  engine.kv.capacity = std::min(stated, room);
  if (room == no_limit || stated == no_limit) return;
  const Bytes token = engine.experts.per_token;
  if (stated > room) {
    throw Unsuitable(
        fmt::format("{}: {} tokens of 'serving.kv_tokens' take {} of a GPU, which has "
                    "{} left next to weights and work of a pass",
                    pool.prices->run().system.name, stated, to_string(token * stated),
                    to_string(token * room)),
        fmt::format("at most {} fit; without the key an engine takes what it can", room));
  }
  engine.experts.spare = room - stated;
}

/// Real engines spread experts over all GPUs of an instance: vLLM's EP is TP x DP; MoE TP x EP of
/// SGLang and TensorRT-LLM is their world size.
void check_groups(const PoolInstances& pool) {
  const PolicyRun& run = pool.prices->run();
  const ParallelSizes& sizes = run.scenario.iteration->parallel;
  const int etp = sizes.etp.value_or(sizes.tp), gpus = pool.prices->gpus();
  if (pool.engine->launch.line.empty() || run.inputs.model.experts == 0) return;
  if (sizes.ep * etp == gpus) return;
  throw Unsuitable(
      fmt::format("{}: {} spreads experts over all {} GPUs of an instance, not ep {} x etp {}",
                  run.system.name, pool.engine->name, gpus, sizes.ep, etp),
      fmt::format("parallel.ep: {}, or serving.instances of fewer GPUs each", gpus / etp));
}

EngineOptions options_of(const PoolInstances& pool, const RequestLog& log, bool prompts_only,
                         EngineBalancing& balancing) {
  check_groups(pool);
  EngineOptions engine = pool.engine->for_ranks(pool.prices->ranks());
  const Scenario& scenario = pool.prices->run().scenario;
  if (prompts_only && engine.prompts_router) engine.router = *engine.prompts_router;
  engine.experts_apart = scenario.iteration->serving->attention_ranks > 0;
  set_room(pool, largest_pass(engine, log, pool.prices->ranks()), engine);
  engine.experts.longest = longest_request(engine, log, prompts_only);
  balancing = balance(engine, pool.prices->exact());
  return engine;
}

/// GPUs that share a sequence's heads or tokens.
int sharing(const PoolPrices& pool) {
  const ParallelSizes& sizes = pool.run().scenario.iteration->parallel;
  return sizes.tp * sizes.cp;
}

/// Each GPU that decodes a sequence fetches what it holds of it from the GPUs that computed its
/// prompt (as NIXL and Mooncake do), over as many links as both sides have for it. What several of
/// them hold, such as MLA's latent vectors, travels to each.
LinkTransfers::Link link_between(PoolPrices& prompts, PoolPrices& decode, const EngineRun& asked) {
  const int both = std::min(sharing(prompts), sharing(decode));
  LinkTransfers::Link link;
  const CacheShard computed = prompts.exact().shard();
  CacheShard held = decode.exact().shard();
  held.type = computed.type;
  held.mtp = computed.mtp;
  link.held = prompts.exact().sequence_cache(held);
  link.receivers = sharing(decode);
  link.of_sender = std::max(1, prompts.gpus() / both);
  link.of_receiver = std::max(1, decode.gpus() / both);
  link.latency = asked.transfer_latency.value_or(EngineRun::usual_latency);
  if (asked.transfer_bandwidth) {
    link.bandwidth = *asked.transfer_bandwidth * both;
    return link;
  }
  const KvLink all = kv_link(prompts.run().scenario, prompts.gpus(), decode.gpus());
  link.bandwidth =
      all.bandwidth * (static_cast<double>(both) / std::min(prompts.gpus(), decode.gpus()));
  if (!asked.transfer_latency) link.latency = all.latency;
  return link;
}

/// One cost of the mean GPU of both pools. If only one pool states it there is none, and `gap` says
/// which pool does not.
std::optional<double> mean_cost(const PoolInstances& prompts, const PoolInstances& decode,
                                std::optional<double> GpuCosts::*cost, const char* key,
                                std::string& gap) {
  const auto of = [cost](const PoolInstances& pool) {
    return pool.prices->run().cluster.costs.*cost;
  };
  const auto gpus = [](const PoolInstances& pool) { return pool.prices->gpus() * pool.count; };
  const auto first = of(prompts), second = of(decode);
  if (first && second) {
    return (*first * gpus(prompts) + *second * gpus(decode)) / (gpus(prompts) + gpus(decode));
  }
  if (first || second) {
    gap += fmt::format("{}{} of the GPUs that {}", gap.empty() ? "" : " and ", key,
                       first ? "decode" : "compute prompts");
  }
  return std::nullopt;
}

void add_costs(const PoolInstances& prompts, const std::optional<PoolInstances>& decode,
               EngineOutcome& outcome) {
  GpuCosts costs = prompts.prices->run().cluster.costs;
  if (decode) {
    costs.dollars_per_hour =
        mean_cost(prompts, *decode, &GpuCosts::dollars_per_hour, "price", outcome.costs_not_stated);
    costs.watts = mean_cost(prompts, *decode, &GpuCosts::watts, "power", outcome.costs_not_stated);
  }
  outcome.costs = TokenCosts::of(costs, outcome.gpus, 1, outcome.metrics.rates.output);
}

std::string note_of_kernels(const PoolInstances& prompts) {
  const PolicyRun& run = prompts.prices->run();
  const std::int64_t most = prompts.engine->for_ranks(prompts.prices->ranks()).max_tokens;
  if (most == no_limit) return "";
  return low_latency_note(run.system, run.inputs.model, most / run.scenario.iteration->parallel.tp);
}

void add_moves(const ServingRun& run, EngineBalancing& balancing) {
  Seconds moving;
  for (const InstanceSummary& instance : run.instances) {
    balancing.plans += instance.counts.rebalances;
    balancing.moves += instance.counts.rearranged;
    moving += instance.counts.moving;
  }
  const std::int64_t times = balancing.moves > 0 ? balancing.moves : balancing.plans;
  if (times > 0) balancing.stall = moving * (1.0 / static_cast<double>(times));
}

PriceTableOptions prices_of(const EngineRun& asked, bool one_run) {
  PriceTableOptions options = asked.prices;
  if (!one_run) options.exact_passes = 0;
  options.all_ranks_join = asked.engine.options.idle_passes;
  return options;
}

/// The run on that routing, or the last one.
const PolicyRun& run_of(const std::vector<PolicyRun>& runs, RoutingSource routing) {
  const auto found = std::ranges::find(runs, routing, &PolicyRun::routing);
  return found == runs.end() ? runs.back() : *found;
}

}  // namespace

PoolPrices::PoolPrices(const PolicyRun& run, Fidelity fidelity, const EngineRun& asked,
                       bool one_run)
    : run_(run),
      exact_(run, fidelity, asked.engine.options),
      table_(exact_, prices_of(asked, one_run)),
      exact_only_(asked.exact_prices),
      gpus_(run.cluster.topology.gpu_count()) {}

OpenedPool::OpenedPool(Scenario scenario, RoutingSource routing, bool one_run)
    : scenario_(std::move(scenario)),
      inputs_(open_inputs(scenario_)),
      runs_(runs_on(scenario_, inputs_, 0)),
      prices_(run_of(runs_, routing), scenario_.fidelities.front(), *scenario_.engine_run,
              one_run) {}

ServedPools serve(const EngineRun& asked, const PoolInstances& prompts,
                  const std::optional<PoolInstances>& decode, const RequestLog& log,
                  const JobProgress& progress) {
  ServedPools served;
  Deployment deployment;
  deployment.pool = {options_of(prompts, log, decode.has_value(), served.balancing), prompts.count,
                     &prompts.prices->prices()};
  deployment.router = asked.router;
  deployment.losses = asked.losses;
  deployment.warmup = asked.warmup;
  deployment.loss_rate = asked.loss_rate;
  served.gpus = prompts.prices->gpus() * prompts.count;
  LinkTransfers::Link link;
  if (decode) link = link_between(*prompts.prices, *decode->prices, asked);
  LinkTransfers transfers(link, prompts.count, decode ? decode->count : 1);
  if (decode) {
    deployment.decode = ServingPool{options_of(*decode, log, false, served.balancing),
                                    decode->count, &decode->prices->prices()};
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
  outcome.balancing = served.balancing;
  outcome.kernels_note = note_of_kernels(prompts);
  outcome.cannot_run = prompts.prices->cannot_run();
  if (decode && outcome.cannot_run.empty()) outcome.cannot_run = decode->prices->cannot_run();
  outcome.metrics = serving_metrics(served.run, asked.sla, asked.warmup, outcome.gpus);
  add_costs(prompts, decode, outcome);
  outcome.samples = thinned(served.run.samples, most_samples);
  outcome.simulated = asked.exact_prices ? outcome.metrics.passes.passes : prompts.prices->points();
  outcome.errors = prompts.prices->errors();
  if (decode && decode->prices != prompts.prices) {
    outcome.simulated += asked.exact_prices ? 0 : decode->prices->points();
    outcome.errors += decode->prices->errors();
  }
  add_moves(served.run, outcome.balancing);
  outcome.moved_requests = served.run.moved_requests;
  outcome.moved = served.moved;
  for (const InstanceSummary& instance : served.run.instances) {
    outcome.losses.losses += instance.counts.losses;
    outcome.losses.in_vain += instance.counts.lost_in_vain;
    outcome.losses.restarted += instance.counts.restarted;
    outcome.losses.kv_tokens += instance.counts.lost_kv;
    outcome.losses.time += instance.counts.lost;
    outcome.losses.kv_left = std::min(outcome.losses.kv_left, instance.counts.kv_left);
  }
  outcome.losses.restarted += served.run.broken_transfers;
  outcome.losses.kv_tokens += served.run.broken_tokens;
  return outcome;
}

}  // namespace moesim
