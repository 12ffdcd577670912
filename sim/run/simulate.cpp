// SPDX-License-Identifier: Apache-2.0
#include "sim/run/simulate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

#include "sim/base/unsuitable.h"
#include "sim/run/backends.h"
#include "sim/run/policy_run.h"
#include "sim/run/run_as_asked.h"
#include "sim/run/runs_on.h"
#include "sim/transport/coverage.h"

namespace moesim {
namespace {

/// Among several cases one that the cluster cannot host is a result of its own.
PolicyOutcome outcome_of(const PolicyRun& run, const ComparisonOptions& asked, bool only,
                         const JobProgress& progress) {
  PolicyOutcome outcome;
  outcome.unsuitable = run.cluster.unsuitable;
  if (!outcome.unsuitable.empty()) return outcome;
  try {
    run_policy(run, asked, outcome, progress);
  } catch (const Unsuitable& e) {
    if (only) throw;
    const Diagnostic& why = e.diagnostics().front();
    outcome = {{}, why.message, std::move(outcome.bounds), {}, false, why.hint};
  }
  return outcome;
}

std::vector<Seconds> step_times(const PolicyOutcome& outcome) {
  std::vector<Seconds> times;
  for (const RunMetrics& metrics : outcome.metrics) times.push_back(metrics.mean_step());
  return times;
}

std::vector<std::string> fidelities_of(const Scenario& scenario) {
  std::vector<std::string> names;
  for (const Fidelity fidelity : scenario.fidelities) {
    names.push_back(backend_name(fidelity, scenario.p2p_order));
  }
  return names;
}

JobResults<PolicyOutcome> all_outcomes(std::vector<PolicyRun>& runs, const Scenario& scenario,
                                       const Inputs& inputs, const ComparisonOptions& options) {
  const std::vector<std::string> fidelities = fidelities_of(scenario);
  const bool only = !options.may_run_none && runs.size() * fidelities.size() == 1;
  const auto timeline = open_timeline(options.timeline, inputs, runs.size(), fidelities.size());
  std::vector<WorkerJob<PolicyOutcome>> jobs;
  for (PolicyRun& run : runs) {
    run.timeline = timeline ? &*timeline : nullptr;
    run.number = static_cast<int>(jobs.size());
    jobs.push_back({fmt::format("{} {}", run.name(), fmt::join(fidelities, "+")),
                    [&run, &options, only](const JobProgress& progress) {
                      return outcome_of(run, options, only, progress);
                    }});
  }
  auto outcomes = run_as_asked(jobs, options, step_times);
  if (timeline) {
    std::vector<bool> ran;
    for (const auto& o : outcomes.results) ran.push_back(o && o->unsuitable.empty());
    timeline->finish(ran);
  }
  return outcomes;
}

/// A comparison of nothing is not a result.
void require_one(const std::vector<CaseResult>& cases) {
  std::vector<Diagnostic> reasons;
  std::set<std::string> told;  // once for all fidelities
  for (const CaseResult& c : cases) {
    if (c.ran()) return;
    const std::string reason = reason_not_run(c);
    if (!told.insert(reason).second) continue;
    for (Diagnostic& before : reasons) {
      if (before.hint == c.hint) before.hint.clear();
    }
    reasons.push_back({Severity::error, "", 0, 0, reason, "", c.hint});
  }
  reasons.push_back({Severity::error, "", 0, 0, "no case of the comparison can run", "", ""});
  throw Error(reasons);
}

CaseResult case_of(const PolicyRun& run, const std::string& fidelity, const Topology& topology,
                   std::optional<PolicyOutcome>& outcome, std::size_t f) {
  CaseResult c{{topology.name(), run.system.name, fidelity, run.routing_text()}, &topology, {}, {}};
  c.costs = run.cluster.costs;
  c.interrupted = !outcome;
  c.unsuitable = c.interrupted ? interrupted_reason : outcome->unsuitable;
  c.twin = {run.system.but_placement, c.ran() && outcome->fixed};
  if (!c.ran() && outcome) c.hint = outcome->hint;
  if (!c.ran()) return c;
  c.cannot_run = outcome->cannot_run;
  c.by_data_sheet = classes_by_data_sheet(run.system.transports.tokens.get(), topology);
  c.metrics = std::move(outcome->metrics[f]);
  if (!outcome->pictures.empty()) c.pictures = {std::move(outcome->pictures[f])};
  return c;
}

}  // namespace

ComparisonResult simulate(const Scenario& scenario, const Inputs& inputs,
                          const ComparisonOptions& options) {
  std::vector<PolicyRun> runs;
  for (std::size_t place = 0; place < inputs.clusters.size(); ++place) {
    for (const PolicyRun& run : runs_on(scenario, inputs, place)) runs.push_back(run);
  }
  auto [outcomes, signal] = all_outcomes(runs, scenario, inputs, options);
  ComparisonResult result;
  result.signal = signal;
  const std::vector<std::string> fidelities = fidelities_of(scenario);
  const std::size_t each = runs.size() / std::max<std::size_t>(1, inputs.clusters.size());
  for (std::size_t place = 0; place < inputs.clusters.size(); ++place) {
    const Topology& topology = inputs.clusters[place].topology;
    for (std::size_t f = 0; f < fidelities.size(); ++f) {
      for (std::size_t r = place * each; r < (place + 1) * each; ++r) {
        result.cases.push_back(case_of(runs[r], fidelities[f], topology, outcomes[r], f));
      }
    }
    for (std::size_t r = place * each; r < (place + 1) * each; ++r) {
      if (!outcomes[r] || !outcomes[r]->bounds) continue;
      const std::string routing = runs[r].routing == RoutingSource::balanced ? " (balanced)" : "";
      result.bounds.push_back(
          {&topology, runs[r].system.name + routing, std::move(*outcomes[r]->bounds)});
    }
  }
  if (!options.may_run_none) require_one(result.cases);
  return result;
}

}  // namespace moesim
