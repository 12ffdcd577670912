// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/predict_iterations.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "sim/evidence/paper_case.h"
#include "sim/run/workers.h"

namespace moesim {
namespace {

/// A scenario that some row needs.
struct RowRun {
  std::string name;  // for progress lines and errors
  Scenario scenario;
  int gpus = 0;  // that the row says
};

/// Where a row's iteration comes from, as indices of runs.
struct RowPlan {
  std::size_t first = 0, second = 0;  // the same: that one as it is
  double times = 0;                   // see extended()
  bool lacks_routing = false;
};

/// Runs by what they are made of: rows of one scenario share it.
class RowRuns {
 public:
  std::size_t index_of(const std::string& key, const RowRun& run) {
    const auto [at, added] = by_key_.emplace(key, runs_.size());
    if (added) runs_.push_back(run);
    return at->second;
  }
  const std::vector<RowRun>& all() const { return runs_; }

 private:
  std::map<std::string, std::size_t> by_key_;
  std::vector<RowRun> runs_;
};

std::string folder_of_routing(const std::string& name, const PredictOptions& options) {
  if (name.empty() || options.traces.empty()) return "";
  const std::filesystem::path folder = std::filesystem::path(options.traces) / name;
  return is_directory(folder) ? folder.string() : "";
}

void add_recorded(const std::string& folder, std::vector<Override>& flags) {
  flags.push_back({"trace", folder, "trace: " + folder});
  std::erase_if(flags, [](const Override& flag) { return flag.path == "routing"; });
}

std::string key_of(const std::vector<Override>& flags, const PaperVariant& variant,
                   int global_batch) {
  std::string key = fmt::format("{} {}", variant.policy, global_batch);
  for (const std::vector<Override>& list : {flags, variant.flags}) {
    for (const Override& flag : list) key += fmt::format("\n{}={}", flag.path, flag.value);
    key += "\n";
  }
  return key;
}

/// Throws Error under the name of the row.
Scenario row_scenario(const std::string& name, const PaperSetting& setting,
                      const std::vector<Override>& flags, const PaperVariant& variant) {
  try {
    return scenario_of(setting, flags, variant);
  } catch (const Error& e) {
    std::vector<Diagnostic> said = e.diagnostics();
    for (Diagnostic& d : said) d.message = name + ": " + d.message;
    throw Error(said);
  }
}

RowPlan plan_row(const PaperTable& table, const PaperFigure& figure, const PredictOptions& options,
                 RowRuns& runs) {
  const PaperSetting& setting = table.settings[figure.setting];
  const PaperVariant& variant = table.variants[figure.variant];
  const PublishedIteration& published = *figure.iteration;
  const std::string routing = folder_of_routing(published.recorded, options);
  std::vector<Override> flags = setting.flags;
  if (!routing.empty()) add_recorded(routing, flags);
  const std::string name = table.name + ": " + figure.name;
  RowRun run{name, row_scenario(name, setting, flags, variant), published.gpus};
  if (!run.scenario.iteration) {
    throw Error(run.name + " is a step, no iteration", "'parallel' and 'batch' make iterations");
  }
  IterationSpec& spec = *run.scenario.iteration;
  if (spec.serving) {
    RowPlan pass;
    pass.first = pass.second = runs.index_of(key_of(flags, variant, 0), run);
    return pass;
  }
  if (published.stage && *published.stage >= spec.parallel.pp) {
    throw Error(fmt::format("{}: 'turns_of_stage' is {}, and the pipeline has {}", name,
                            *published.stage, spec.parallel.pp),
                "stages count from 0");
  }
  const auto index = [&] { return runs.index_of(key_of(flags, variant, spec.global_batch), run); };
  RowPlan plan;
  plan.lacks_routing = !published.recorded.empty() && routing.empty();
  const ParallelSizes& sizes = spec.parallel;
  const int at_once =
      spec.micro_batch * std::max(1, published.gpus / (sizes.tp * sizes.cp * sizes.pp));
  const int microbatches = spec.global_batch / at_once;
  // The chunks of a layout are its own: it says where layers are, not how turns alternate.
  const auto fewer =
      fewer_microbatches(sizes.pp, spec.layout.empty() ? sizes.vpp : 1, microbatches);
  if (options.whole || published.whole || !fewer) {
    plan.first = plan.second = index();
    return plan;
  }
  spec.global_batch = fewer->first * at_once;
  plan.first = index();
  spec.global_batch = fewer->second * at_once;
  plan.second = index();
  plan.times = (microbatches - fewer->second) / static_cast<double>(fewer->second - fewer->first);
  return plan;
}

void simulate_row(const RowRun& run, const Inputs& inputs, SimulatedIteration& result) {
  const IterationFigures metrics = iteration_figures(run.scenario, inputs);
  result.times = metrics.times;
  result.stage_turns = metrics.stage_turns;
  result.flop_per_token = metrics.flop_per_token;
  if (inputs.model.attention) {
    result.masked_flop = 3.0 * inputs.model.layers *
                         static_cast<double>(inputs.model.attention->score_width) *
                         run.scenario.iteration->sequence;
  }
  result.peak = metrics.fullest.peak;
  result.memory = metrics.fullest.memory;
  result.inputs = hash_of_inputs(run.scenario, inputs);
}

/// Throws Error for a row that has other GPUs than its cluster.
SimulatedIteration simulated(const RowRun& run) {
  SimulatedIteration result;
  try {
    const Inputs inputs = open_inputs(run.scenario);
    const Topology& topology = inputs.clusters[0].topology;
    result.gpus = topology.gpu_count();
    if (topology.host_count() > 1) result.network = topology.network();
    if (result.gpus == run.gpus) simulate_row(run, inputs, result);
  } catch (const Error& e) {
    result.why = e.diagnostics().front().message;
  }
  if (result.gpus != 0 && result.gpus != run.gpus) {
    throw Error(fmt::format("{} GPUs as published, and {} in the cluster", run.gpus, result.gpus),
                "'gpus' of the row, or topology.nodes of its changes");
  }
  return result;
}

Seconds line(Seconds first, Seconds second, double times) {
  return second + (second - first) * times;
}

PredictedFigure predicted(const PaperFigure& figure, SimulatedIteration iteration) {
  PredictedFigure result{iteration.times.iteration.value, iteration.why, iteration.inputs};
  const PublishedIteration& published = *figure.iteration;
  if (result.there() && published.rate) {
    const double flop =
        iteration.flop_per_token + (published.all_scores ? iteration.masked_flop : 0);
    result.published =
        static_cast<double>(published.tokens) * flop / (published.gpus * published.rate->value);
  }
  result.iteration = std::move(iteration);
  return result;
}

}  // namespace

std::optional<FewerMicrobatches> fewer_microbatches(int stages, int chunks, int microbatches) {
  FewerMicrobatches fewer;
  fewer.first = stages * std::max(2 + chunks / 4, (16 + stages - 1) / stages);
  fewer.second = fewer.first + stages * std::max(1, 8 / stages);
  if (microbatches <= 1.25 * fewer.second) return std::nullopt;
  return fewer;
}

SimulatedIteration extended(const SimulatedIteration& first, SimulatedIteration second,
                            double times) {
  const auto add = [&](Seconds& longer, Seconds shorter) { longer = line(shorter, longer, times); };
  add(second.times.iteration, first.times.iteration);
  add(second.times.overlapped, first.times.overlapped);
  for (std::size_t p = 0; p < second.times.parts.size(); ++p) {
    add(second.times.parts[p], first.times.parts[p]);
  }
  for (std::size_t s = 0; s < second.stage_turns.size(); ++s) {
    for (std::size_t p = 0; p < second.stage_turns[s].parts.size(); ++p) {
      add(second.stage_turns[s].parts[p], first.stage_turns[s].parts[p]);
    }
  }
  return second;
}

PredictedRows predict_iterations(const std::vector<PaperTable>& tables,
                                 const PredictOptions& options) {
  RowRuns runs;
  std::map<std::pair<std::size_t, std::size_t>, RowPlan> plans;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    for (std::size_t f = 0; f < tables[t].figures.size(); ++f) {
      const PaperFigure& figure = tables[t].figures[f];
      if (figure.iteration) plans[{t, f}] = plan_row(tables[t], figure, options, runs);
    }
  }
  std::vector<WorkerJob<SimulatedIteration>> jobs;
  for (const RowRun& run : runs.all()) {
    jobs.push_back({run.name, [&run](const JobProgress&) { return simulated(run); }});
  }
  const auto outcomes = run_jobs(jobs, options.workers);
  PredictedRows rows;
  for (const auto& [at, plan] : plans) {
    const SimulatedIteration &first = outcomes[plan.first], &second = outcomes[plan.second];
    SimulatedIteration whole = first.why.empty() ? extended(first, second, plan.times) : first;
    whole.lacks_routing = plan.lacks_routing;
    rows[at] = predicted(tables[at.first].figures[at.second], std::move(whole));
  }
  return rows;
}

}  // namespace moesim
