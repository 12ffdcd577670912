// SPDX-License-Identifier: Apache-2.0
#include "sim/run/engine_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sim/mechanism/unsuitable.h"
#include "sim/planner/iteration/planner.h"
#include "sim/run/backends.h"
#include "sim/run/pass_prices.h"
#include "sim/run/run_as_asked.h"
#include "sim/run/runs_on.h"
#include "sim/scenario/engine_run.h"
#include "sim/serving/requests/request_log_reader.h"

namespace moesim {
namespace {

constexpr std::size_t most_samples = 256;

RequestLog requests_of(const EngineRun& run) {
  if (run.request_file.empty()) return draw_requests(run.draw);
  RequestLog log = read_request_log(run.request_file, run.most_requests);
  log.concurrency = run.draw.concurrency;
  return log;
}

/// A pass as large as the engine allows, on every rank: what work takes of a GPU's memory.
ServingBatch largest_pass(const EngineOptions& engine, const RequestLog& log, int ranks) {
  std::int64_t longest = 1;
  for (const ServingRequest& request : log.requests) longest = std::max(longest, request.input);
  const std::int64_t tokens = std::min(engine.max_tokens, std::max(longest, std::int64_t{1}));
  return {std::vector<std::vector<SequenceStep>>(
      static_cast<std::size_t>(ranks),
      {SequenceStep{0, std::max<std::int64_t>(tokens, 1), 1, -1}})};
}

/// One case, in a worker.
class EngineCaseRun {
 public:
  EngineCaseRun(const PolicyRun& run, Fidelity fidelity, const RequestLog& log)
      : run_(run),
        asked_(*run.scenario.engine_run),
        log_(log),
        exact_(run, fidelity),
        table_(exact_, asked_.prices) {
    const int gpus = run.cluster.topology.gpu_count();
    const IterationShape shape = shape_of(*run.scenario.iteration, gpus, run.inputs.model);
    outcome_.ranks = shape.grid.size(ParallelAxis::dp);
    outcome_.gpus = gpus * (asked_.instances + asked_.decode_instances);
  }

  EngineOutcome run(const JobProgress& progress) {
    StepPrices& prices = asked_.exact_prices ? static_cast<StepPrices&>(exact_) : table_;
    Deployment deployment;
    deployment.pool = {engine(), asked_.instances, &prices};
    deployment.router = asked_.router;
    deployment.losses = asked_.losses;
    LinkTransfers transfers(link(), asked_.instances, std::max(1, asked_.decode_instances));
    if (asked_.decode_instances > 0) {
      deployment.decode = ServingPool{deployment.pool.engine, asked_.decode_instances, &prices};
      deployment.transfers = &transfers;
    }
    const auto count = static_cast<int>(log_.requests.size());
    const ServingRun served =
        run_serving(deployment, log_, [&](double done) { progress(done * count, count); });
    outcome_.metrics = serving_metrics(served, asked_.sla, asked_.warmup, outcome_.gpus);
    outcome_.samples = thinned(served.samples, most_samples);
    outcome_.simulated = asked_.exact_prices ? outcome_.metrics.passes.passes : table_.points();
    outcome_.errors = table_.errors();
    outcome_.moved_requests = served.moved_requests;
    outcome_.moved = transfers.moved();
    for (const InstanceSummary& instance : served.instances) outcome_.lost += instance.counts.lost;
    return outcome_;
  }

 private:
  EngineOptions engine() {
    EngineOptions engine = asked_.engine.for_ranks(outcome_.ranks);
    if (engine.kv.capacity == no_limit) {
      engine.kv.capacity =
          exact_.cache_tokens(largest_pass(engine, log_, outcome_.ranks), asked_.engine.memory);
    }
    outcome_.kv_tokens = engine.kv.capacity;
    return engine;
  }

  LinkTransfers::Link link() const {
    // The GPUs that share a sequence's heads or tokens send their parts at once.
    const int gpus = run_.cluster.topology.gpu_count();
    const int shares = std::max(1, gpus / std::max(1, outcome_.ranks));
    return {exact_.cache_per_token() * shares,
            asked_.transfer_bandwidth * static_cast<double>(gpus), asked_.transfer_latency};
  }

  const PolicyRun& run_;
  const EngineRun& asked_;
  const RequestLog& log_;
  PassPrices exact_;
  PriceTable table_;
  EngineOutcome outcome_;
};

EngineOutcome outcome_of_engine(const PolicyRun& run, Fidelity fidelity, const RequestLog& log,
                                bool only, const JobProgress& progress) {
  EngineOutcome outcome;
  outcome.unsuitable = run.cluster.unsuitable;
  if (!outcome.unsuitable.empty()) return outcome;
  try {
    return EngineCaseRun(run, fidelity, log).run(progress);
  } catch (const Unsuitable& e) {
    if (only) throw;
    outcome.unsuitable = e.diagnostics().front().message;
  }
  return outcome;
}

struct EngineJob {
  PolicyRun run;
  Fidelity fidelity;
};

std::vector<EngineJob> engine_jobs(const Scenario& scenario, const Inputs& inputs) {
  std::vector<EngineJob> jobs;
  for (std::size_t place = 0; place < inputs.clusters.size(); ++place) {
    for (const Fidelity fidelity : scenario.fidelities) {
      for (const PolicyRun& run : runs_on(scenario, inputs, place)) jobs.push_back({run, fidelity});
    }
  }
  return jobs;
}

void require_one_engine(const std::vector<EngineCase>& cases) {
  std::set<std::string> reasons;
  for (const EngineCase& c : cases) {
    if (c.ran()) return;
    reasons.insert(fmt::format("{} on {} was not run: {}", c.name.policy_text(), c.name.topology,
                               c.outcome.unsuitable));
  }
  std::vector<Diagnostic> all;
  for (const std::string& reason : reasons)
    all.push_back({Severity::error, "", 0, 0, reason, "", ""});
  all.push_back({Severity::error, "", 0, 0, "no case of the comparison can run", "", ""});
  throw Error(all);
}

}  // namespace

EngineResult run_engines(const Scenario& scenario, const Inputs& inputs,
                         const ComparisonOptions& options) {
  const RequestLog log = requests_of(*scenario.engine_run);
  const std::vector<EngineJob> asked = engine_jobs(scenario, inputs);
  const bool only = asked.size() == 1;
  std::vector<WorkerJob<EngineOutcome>> jobs;
  for (const EngineJob& job : asked) {
    const std::string fidelity = backend_name(job.fidelity, scenario.p2p_order);
    jobs.push_back(
        {job.run.name() + " " + fidelity, [&job, &log, only](const JobProgress& progress) {
           return outcome_of_engine(job.run, job.fidelity, log, only, progress);
         }});
  }
  auto done = run_as_asked(jobs, options, [](const EngineOutcome& outcome) {
    return std::vector{Seconds(outcome.metrics.tpot.p50)};
  });
  EngineResult result;
  result.signal = done.signal;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const PolicyRun& run = asked[i].run;
    EngineCase c{{run.cluster.topology.name(), run.system.name,
                  backend_name(asked[i].fidelity, scenario.p2p_order), run.routing_text()},
                 {},
                 !done.results[i]};
    if (done.results[i]) {
      c.outcome = std::move(*done.results[i]);
    } else {
      c.outcome.unsuitable = interrupted_reason;
    }
    result.cases.push_back(std::move(c));
  }
  if (result.signal == 0) require_one_engine(result.cases);
  return result;
}

}  // namespace moesim
