// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "sim/base/unsuitable.h"
#include "sim/evidence/bubble_formula.h"
#include "sim/evidence/paper_case.h"
#include "sim/evidence/predict_iterations.h"
#include "sim/plan/slice.h"
#include "sim/report/stage_times.h"
#include "sim/run/backends.h"
#include "sim/run/simulate.h"
#include "sim/run/workers.h"
#include "sim/scenario/policy_planner.h"

namespace moesim {
namespace {

/// A policy in a setting, and what is wanted of it.
struct PaperCase {
  std::size_t table, setting, variant;
  auto operator<=>(const PaperCase&) const = default;
};
using WantedMeasures = std::map<PaperCase, std::set<Measure>>;

struct MeasuredCase {
  std::map<Measure, double> values;
  std::optional<double> formula;  // of the bubble, in seconds
  std::string why;                // there are none
  std::string inputs;             // hash
};

WantedMeasures wanted(const std::vector<PaperTable>& tables) {
  WantedMeasures cases;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    for (const PaperFigure& f : tables[t].figures) {
      if (f.iteration) continue;  // predict_iterations has them
      cases[{t, f.setting, f.variant}].insert(f.measure);
      if (f.over) cases[{t, f.setting, *f.over}].insert(f.measure);
    }
  }
  return cases;
}

/// The step without what its routed experts do not need.
Plan routed_part(const Plan& plan) {
  static const std::set<OpKind> others = {OpKind::gate,
                                          OpKind::shared_fc1,
                                          OpKind::shared_fc2,
                                          OpKind::latent_down,
                                          OpKind::latent_up,
                                          OpKind::attention_projections,
                                          OpKind::attention_scores};
  std::vector<OpId> kept;
  for (OpId id(0); id.index() < plan.ops.size(); ++id.value) {
    if (!others.contains(plan[id].key.kind)) kept.push_back(id);
  }
  return slice(plan, kept);
}

/// Mean over steps, sum over layers.
void add_alone(const Scenario& scenario, const Inputs& inputs, const std::set<Measure>& wanted,
               MeasuredCase& measured) {
  const PolicyView view = view_of(scenario, inputs, 0);
  const ClusterInput& cluster = view.inputs.clusters[0];
  PolicyPlanner steps(view);
  const auto backend = make_backend(scenario.fidelities[0], scenario.p2p_order, cluster);
  const double part = 1.0 / steps.count();
  for (int i = 0; i < steps.count(); ++i) {
    const PlannedStep planned = steps.plan(i);
    const PricedPlan priced(planned.plan, cluster.topology);
    if (wanted.contains(Measure::layer)) {
      const Plan routed = routed_part(planned.plan);
      const PricedPlan layers(routed, cluster.topology);
      measured.values[Measure::layer] += part * backend->run(layers).makespan.value;
    }
    for (const auto& [key, ops] : exchanges_of_stages(planned.plan)) {
      const auto& [layer, pass, stage] = key;
      const double time = part * time_alone(priced, ops, *backend).value;
      measured.values[Measure::exchanges] += time;
      if (pass != Pass::forward) continue;
      measured.values[stage == Stage::dispatch ? Measure::dispatch : Measure::combine] += time;
    }
  }
}

void add_steps(const Scenario& scenario, const Inputs& inputs, MeasuredCase& measured) {
  const RunMetrics metrics = simulate(scenario, inputs, {}).cases[0].metrics;
  const double part = 1 / static_cast<double>(metrics.steps.size());
  measured.values[Measure::step] = metrics.mean_step().value;
  measured.values[Measure::communication] = part * metrics.total.communication.value;
  measured.values[Measure::exposed] = part * metrics.total.exposed.value;
  measured.values[Measure::off_host] = static_cast<double>(metrics.total.traffic.other_host.value);
  measured.values[Measure::load] = metrics.total.load_max_over_mean.value();
}

double bytes_of(const FullestGpu& gpu, const char* part) {
  const auto found = std::ranges::find(gpu.parts, part, &NamedBytes::name);
  return found == gpu.parts.end() ? 0 : static_cast<double>(found->bytes.value);
}

void add_iterations(const Scenario& scenario, const Inputs& inputs, MeasuredCase& measured) {
  const IterationFigures m = iteration_figures(scenario, inputs);
  measured.values[Measure::iteration] = m.times.iteration.value;
  measured.values[Measure::bubble] = mean_of(m.stage_turns).of(TurnPart::bubble).value;
  measured.values[Measure::activations] = bytes_of(m.fullest, "activations");
  measured.values[Measure::weights] = bytes_of(m.fullest, "weights");
  if (m.stage_turns.empty()) return;
  const IterationShape shape =
      shape_of(*scenario.iteration, inputs.clusters[0].topology.gpu_count(), inputs.model);
  if (const auto bubble = formula_bubble(shape.pipeline, m.stage_turns)) {
    measured.formula = bubble->value;
  }
}

MeasuredCase measure(const Scenario& scenario, const std::set<Measure>& measures) {
  MeasuredCase measured;
  try {
    const bool whole = std::ranges::any_of(measures, is_of_iterations);
    if (whole && !std::ranges::all_of(measures, is_of_iterations)) {
      throw Error("measures of a step and of an iteration are of one setting and policy");
    }
    const Inputs inputs = open_inputs(scenario);
    measured.inputs = hash_of_inputs(scenario, inputs);
    bool alone = false, steps = false;
    for (const Measure m : measures) (is_alone(m) ? alone : steps) = true;
    if (whole) {
      add_iterations(scenario, inputs, measured);
      return measured;
    }
    if (alone) add_alone(scenario, inputs, measures, measured);
    if (steps) add_steps(scenario, inputs, measured);
  } catch (const Unsuitable& e) {
    measured.why = e.diagnostics().front().message;
  }
  return measured;
}

using MeasuredCases = std::map<PaperCase, MeasuredCase>;

MeasuredCases measured_cases(const std::vector<PaperTable>& tables, int workers) {
  const PaperTraces traces(tables, workers);
  const WantedMeasures cases = wanted(tables);
  std::vector<WorkerJob<MeasuredCase>> jobs;
  for (const auto& [c, measures] : cases) {
    const PaperTable& table = tables[c.table];
    const PaperSetting& setting = table.settings[c.setting];
    const PaperVariant& variant = table.variants[c.variant];
    jobs.push_back({fmt::format("{}: {} {}", table.name, setting.name, variant.name),
                    [&traces, &setting, &variant, &wants = measures](const JobProgress&) {
                      return measure(scenario_of(setting, traces.flags(setting), variant), wants);
                    }});
  }
  auto outcomes = run_jobs(jobs, workers);
  MeasuredCases result;
  auto outcome = outcomes.begin();
  for (const auto& [c, measures] : cases) result[c] = std::move(*outcome++);
  return result;
}

PredictedFigure predicted(const PaperFigure& figure, const MeasuredCase& own,
                          const MeasuredCase* over) {
  if (!own.why.empty()) return {0, own.why};
  const double value = own.values.at(figure.measure);
  if (over == nullptr) {
    return {figure.times * value, "", own.inputs,
            figure.by_formula ? own.formula : std::optional<double>()};
  }
  if (!over->why.empty()) return {0, over->why};
  const double other = over->values.at(figure.measure);
  const double ratio = is_amount(figure.measure) ? value / other : other / value;
  return {ratio, "", hash_of(own.inputs + over->inputs)};
}

}  // namespace

std::vector<PredictedTable> predict(const std::vector<PaperTable>& tables,
                                    const PredictOptions& options) {
  const MeasuredCases cases = measured_cases(tables, options.workers);
  const PredictedRows rows = predict_iterations(tables, options);
  std::vector<PredictedTable> result;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    PredictedTable& predictions = result.emplace_back();
    for (std::size_t f = 0; f < tables[t].figures.size(); ++f) {
      const PaperFigure& figure = tables[t].figures[f];
      if (figure.iteration) {
        predictions.push_back(rows.at({t, f}));
        continue;
      }
      const MeasuredCase* over =
          figure.over ? &cases.at({t, figure.setting, *figure.over}) : nullptr;
      predictions.push_back(predicted(figure, cases.at({t, figure.setting, figure.variant}), over));
    }
  }
  return result;
}

}  // namespace moesim
