// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/predict_engines.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "sim/run/engine_pool.h"
#include "sim/run/workers.h"
#include "sim/serving/requests/request_generator.h"

namespace moesim {
namespace {

constexpr std::int64_t rounds_of_benchmark = 10, most_requests = 16384;

using OpenPools = std::map<std::string, std::unique_ptr<OpenedPool>>;

std::int64_t rounds_of(const EngineRow& row) {
  return std::clamp<std::int64_t>(most_requests / row.concurrency, 2, rounds_of_benchmark);
}

LengthLaw lengths(std::int64_t nominal, double least_share) {
  const double all = static_cast<double>(nominal), spread = all * (1 - least_share) / 2;
  return {LengthLaw::Kind::uniform, all - spread, spread};
}

RequestLog requests_of(const EngineRow& row, const EngineTable& table) {
  RequestDraw draw;
  draw.count = rounds_of(row) * row.concurrency;
  draw.concurrency = row.concurrency;
  draw.client = benchmark_client;
  draw.input = lengths(row.input, table.least_share);
  draw.output = lengths(row.output, table.least_share);
  return draw_requests(draw);
}

/// Mean over requests as if all rounds of the benchmark had been run.
template <class Of>
double mean_of(const ServingRun& run, std::int64_t in_flight, std::int64_t rounds, Of of) {
  double first = 0, others = 0;
  for (std::size_t i = 0; i < run.requests.size(); ++i) {
    (static_cast<std::int64_t>(i) < in_flight ? first : others) += of(run.requests[i]);
  }
  const auto each = static_cast<double>(in_flight);
  const double share = 1.0 / rounds_of_benchmark;
  return share * first / each + (1 - share) * others / (each * static_cast<double>(rounds - 1));
}

EnginePrediction figures_of(const EngineRow& row, const ServedPools& served) {
  const ServingRun& run = served.run;
  const ServingMetrics metrics = serving_metrics(run, {}, 0, served.gpus);
  EnginePrediction prediction;
  const std::int64_t rounds = rounds_of(row);
  prediction.ttft = mean_of(run, row.concurrency, rounds,
                            [](const RequestOutcome& r) { return (r.first - r.arrival).value; });
  prediction.tpot = mean_of(run, row.concurrency, rounds, [](const RequestOutcome& r) {
    return (r.finish - r.first).value /
           static_cast<double>(std::max<std::int64_t>(1, r.output - 1));
  });
  prediction.waiting = metrics.load.waiting_mean;
  std::int64_t prompts = 0, passes = 0;
  for (const InstanceSummary& instance : run.instances) {
    prompts += instance.counts.prompt_passes + instance.counts.mixed_passes;
    passes += instance.counts.passes;
  }
  if (passes > 0) {
    prediction.prompt_share = static_cast<double>(prompts) / static_cast<double>(passes);
  }
  return prediction;
}

PoolInstances instances_of(OpenPools& open, const EnginePool& pool, int count) {
  auto& found = open[pool.key];
  if (!found) found = std::make_unique<OpenedPool>(read_scenario("", pool.flags));
  return {&found->prices(), &found->engine_run().engine, count};
}

EnginePrediction predict_row(const EngineRow& row, const EngineTable& table, OpenPools& open) {
  EnginePrediction prediction;
  if (!row.unstated.empty()) {
    prediction.why = "the row does not say " + row.unstated;
    return prediction;
  }
  try {
    const auto prompts = pool_of(row, table, false, prediction.why);
    if (!prompts) return prediction;
    const PoolInstances of_prompts = instances_of(open, *prompts, row.prompt_instances);
    std::optional<PoolInstances> of_decode;
    if (row.decode) {
      const auto decode = pool_of(row, table, true, prediction.why);
      if (!decode) return prediction;
      of_decode = instances_of(open, *decode, row.decode_instances);
    }
    const EngineRun& asked = open.at(prompts->key)->engine_run();
    return figures_of(row,
                      serve(asked, of_prompts, of_decode, requests_of(row, table), no_progress));
  } catch (const Error& e) {
    prediction.why = e.diagnostics().front().message;
  }
  return prediction;
}

std::string group_of(const EngineRow& row) {
  return row.backend + " " + row.model + " " + row.system + " " + row.precision;
}

}  // namespace

std::vector<EnginePrediction> predict_engines(const std::vector<EngineRow>& rows,
                                              const EngineTable& table, int workers) {
  std::map<std::string, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < rows.size(); ++i) groups[group_of(rows[i])].push_back(i);
  std::vector<WorkerJob<std::vector<EnginePrediction>>> jobs;
  for (const auto& [name, members] : groups) {
    jobs.push_back({name, [&rows, &table, &members = members](const JobProgress& progress) {
                      OpenPools open;
                      std::vector<EnginePrediction> predictions;
                      for (const std::size_t row : members) {
                        progress(static_cast<double>(predictions.size()),
                                 static_cast<int>(members.size()));
                        predictions.push_back(predict_row(rows[row], table, open));
                      }
                      return predictions;
                    }});
  }
  const auto outcomes = run_jobs(jobs, workers);
  std::vector<EnginePrediction> predictions(rows.size());
  std::size_t job = 0;
  for (const auto& [name, members] : groups) {
    for (std::size_t i = 0; i < members.size(); ++i) predictions[members[i]] = outcomes[job][i];
    ++job;
  }
  return predictions;
}

}  // namespace moesim
