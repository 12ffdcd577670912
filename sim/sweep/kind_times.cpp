// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/kind_times.h"

#include <algorithm>
#include <cmath>

#include "sim/planner/iteration/planner.h"
#include "sim/run/engine_pool.h"
#include "sim/transport/coverage.h"

namespace moesim {
namespace {

ServingBatch decode_batch(int ranks, std::int64_t sequences, const ServingDemand& demand,
                          std::int64_t tokens) {
  const auto context = static_cast<std::int64_t>(demand.input + demand.output / 2);
  ServingBatch batch;
  batch.ranks.resize(static_cast<std::size_t>(ranks));
  std::int64_t request = 0;
  for (auto& rank : batch.ranks) {
    for (std::int64_t i = 0; i < sequences; ++i) rank.push_back({context, tokens, 1, request++});
  }
  return batch;
}

/// Between the GPUs of an EP group.
TokenRates rates_of(const PolicyRun& run) {
  TokenRates rates;
  const Topology& topology = run.cluster.topology;
  const ParallelSizes& sizes = run.scenario.iteration->parallel;
  const auto by_sheet = classes_by_data_sheet(run.system.transports.tokens.get(), topology);
  for (std::size_t c = 0; c < topology.classes().size(); ++c) {
    const std::string& name = topology.classes()[c].name;
    const bool between_hosts = name == "nic";
    if (!between_hosts && name != "nvlink") continue;
    if (between_hosts &&
        sizes.ep * sizes.etp.value_or(sizes.tp) * topology.host_count() <= topology.gpu_count()) {
      continue;
    }
    rates.add(name, std::ranges::count(by_sheet, c) > 0);
  }
  return rates;
}

}  // namespace

ServingDemand demand_of(const RequestLog& log, int gpus) {
  ServingDemand demand;
  demand.input = demand.output = 0;
  for (const ServingRequest& request : log.requests) {
    demand.input += static_cast<double>(request.input);
    demand.output += static_cast<double>(request.output);
  }
  const auto count = static_cast<double>(std::max<std::size_t>(1, log.requests.size()));
  demand.input /= count;
  demand.output /= count;
  demand.in_flight = log.concurrency > 0 ? static_cast<double>(log.concurrency) : count;
  demand.gpus = gpus;
  if (log.concurrency == 0 && log.requests.size() > 1) {
    const Seconds span = log.requests.back().arrival - log.requests.front().arrival;
    if (span.value > 0) demand.arrivals = (count - 1) / span.value;
  }
  return demand;
}

Inputs open_for_advice(Scenario& scenario) {
  const auto gpus_of = [](const Inputs& inputs) {
    return inputs.clusters.front().topology.gpu_count();
  };
  try {
    Inputs inputs = open_inputs(scenario);
    shape_of(*scenario.iteration, gpus_of(inputs), inputs.model);
    return inputs;
  } catch (const Error&) {
    ParallelSizes& sizes = scenario.iteration->parallel;
    sizes.tp = sizes.ep = 1;
    sizes.etp = 1;
    sizes.dp.reset();
    Inputs inputs = open_inputs(scenario);
    sizes.ep = gpus_of(inputs);
    return inputs;
  }
}

Scenario scenario_of_kind(const std::string& file, const std::vector<Override>& flags,
                          const ServingInstanceKind& kind) {
  std::vector<Override> all = flags;
  all.insert(all.end(), kind.flags.begin(), kind.flags.end());
  all.push_back({"parallel.dp", std::to_string(kind.dp()), "parallel.dp"});
  all.push_back({"serving.instances", "{prefill: 1, decode: 1}", "serving.instances"});
  return read_scenario(file, all);
}

void check_time(const std::function<bool()>& stop) {
  if (stop()) throw Error("--budget was too short");
}

KindTimes times_of(const std::string& file, const std::vector<Override>& flags,
                   const ServingInstanceKind& kind, const ServingDemand& demand,
                   const std::function<bool()>& stop) {
  KindTimes times;
  try {
    check_time(stop);
    OpenedPool pool(scenario_of_kind(file, flags, kind));
    if (const std::string why = pool.prices().cannot_run(); !why.empty()) throw Error(why);
    times.rates = rates_of(pool.prices().run());
    const EngineOptions engine = pool.engine_run().engine.for_ranks(pool.prices().ranks());
    const auto chunk = std::min(engine.max_tokens, static_cast<std::int64_t>(demand.input));
    ServingBatch prompt;
    prompt.ranks.assign(static_cast<std::size_t>(pool.prices().ranks()), {{0, chunk, 1, -1}});
    pool.prices().exact().cache_tokens(prompt, pool.engine_run().engine.memory);
    const double time = pool.prices().exact().price(prompt).time.value;
    times.prompt_rate = static_cast<double>(chunk) * pool.prices().ranks() / time;
    for (std::int64_t n = 1;; n *= 2) {
      check_time(stop);
      const auto batch = decode_batch(pool.prices().ranks(), n, demand, 1 + engine.drafts);
      times.decode.push_back(pool.prices().exact().price(batch).time.value);
      if (static_cast<double>(n) * pool.prices().ranks() >= demand.in_flight) break;
    }
  } catch (const Error& e) {
    times.why = e.diagnostics().front().message;
  }
  return times;
}

double SampledRates::decode_time(std::size_t kind, double sequences) {
  const auto& list = times_[kind].decode;
  const double each = std::max(1.0, sequences / kinds_[kind].dp());
  const double place = std::min(std::log2(each), static_cast<double>(list.size()) - 1);
  const auto below = static_cast<std::size_t>(place);
  if (below + 1 >= list.size()) return list.back();
  const double low = std::exp2(static_cast<double>(below));
  return std::lerp(list[below], list[below + 1], (each - low) / low);
}

}  // namespace moesim
