// SPDX-License-Identifier: Apache-2.0
#include "sim/run/engine_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sim/base/figures.h"
#include "sim/base/unsuitable.h"
#include "sim/run/backends.h"
#include "sim/run/engine_pool.h"
#include "sim/run/run_as_asked.h"
#include "sim/run/runs_on.h"
#include "sim/scenario/engine_run.h"
#include "sim/serving/requests/request_log_reader.h"

namespace moesim {
namespace {

/// That of the instances that decode, for the same of several topologies and policies.
Scenario decode_scenario(const PolicyRun& run) {
  Scenario decode = *run.scenario.engine_run->decode;
  const auto place = &run.cluster - run.inputs.clusters.data();
  const auto policy = &run.system - run.inputs.systems.data();
  const auto keep = [](std::vector<std::string>& names, std::ptrdiff_t index) {
    if (std::ssize(names) > 1) names = {names[static_cast<std::size_t>(index)]};
  };
  keep(decode.topologies, place);
  keep(decode.policies, policy);
  return decode;
}

EngineOutcome outcome_of_engine(const PolicyRun& run, Fidelity fidelity, const RequestLog& log,
                                bool only, const JobProgress& progress) {
  EngineOutcome outcome;
  outcome.unsuitable = run.cluster.unsuitable;
  if (!outcome.unsuitable.empty()) return outcome;
  try {
    const EngineRun& asked = *run.scenario.engine_run;
    PoolPrices prices(run, fidelity, asked, true);
    const PoolInstances prompts{&prices, &asked.engine, asked.instances};
    std::optional<PoolInstances> decode;
    if (asked.decode_instances > 0) decode = {&prices, &asked.engine, asked.decode_instances};
    std::optional<OpenedPool> other;
    if (asked.decode) {
      other.emplace(decode_scenario(run), run.routing, true);
      decode = {&other->prices(), &other->engine_run().engine, asked.decode_instances};
    }
    return run_pools(asked, prompts, decode, log, progress);
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

RequestLog requests_of(const EngineRun& run) {
  if (run.request_file.empty()) return draw_requests(run.draw);
  RequestLog log = read_request_log(run.request_file, run.most_requests);
  log.concurrency = run.draw.concurrency;
  log.client = run.draw.client;
  return log;
}

EngineResult run_engines(const Scenario& scenario, const Inputs& inputs,
                         const ComparisonOptions& options) {
  const RequestLog log = requests_of(*scenario.engine_run);
  const std::int64_t warmup = scenario.engine_run->warmup;
  if (warmup > 0 && warmup >= std::ssize(log.requests)) {
    throw Error(fmt::format("serving.warmup_requests is {}, of {}: none is left to measure", warmup,
                            counted(log.requests.size(), "request")),
                "fewer of them, or more requests");
  }
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
