// SPDX-License-Identifier: Apache-2.0
// moesim failures: what lost nodes cost in an hour, a training job with checkpoints only and with
// what a placement has on several nodes, or a serving engine that starts again or masks them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "sim/base/units.h"
#include "sim/cli/commands.h"
#include "sim/cli/version.h"
#include "sim/failures/checkpoints.h"
#include "sim/flags/print_flags.h"
#include "sim/flags/scenario_flags.h"
#include "sim/flags/shared_flags.h"
#include "sim/print/progress_line.h"
#include "sim/run/result_file.h"
#include "sim/run/simulate.h"
#include "sim/run/worker_count.h"
#include "sim/scenario/policy_planner.h"

namespace moesim {
namespace {

struct FailureFlags {
  ScenarioFlags scenario;
  std::string node_mtbf, write = "60 s", restart = "10 min", pause = "30 s", replace = "0 s",
                         interval;
  int together = 1, workers = 0;
  PrintFlags print;
};

struct FailureTimes {
  Seconds node_mtbf, write, restart, pause, replace, interval;
};

FailureTimes times_of(const FailureFlags& flags) {
  return {time_of_flag("--node-mtbf", flags.node_mtbf),
          time_of_flag("--write", flags.write, true),
          time_of_flag("--restart", flags.restart, true),
          time_of_flag("--pause", flags.pause, true),
          time_of_flag("--replace", flags.replace, true),
          flags.interval.empty() ? Seconds(0) : time_of_flag("--interval", flags.interval)};
}

/// GPUs of a node; throws Error unless all have equally many consecutive ones.
int gpus_per_node(const Topology& topology) {
  const int nodes = topology.host_count(), size = topology.gpu_count() / nodes;
  for (const GpuId gpu : topology.all_gpus()) {
    if (topology.gpu_count() % nodes == 0 && topology.host_of(gpu) == gpu.value / size) continue;
    throw Error(
        fmt::format("'failures' needs nodes of equally many consecutive GPUs, which {} "
                    "does not have",
                    topology.name()));
  }
  return size;
}

/// What each GPU holds of which experts: their weights and, with a backward pass, all that training
/// keeps of them. Nothing if a part of every expert is on every GPU.
SlotTable whole_state(const LayerDecision& decision, bool backward) {
  if (!backward) return decision.assignment.placement().table();
  if (decision.gradients != GradientLayout::homes) return {};
  if (!decision.gradient_homes.empty()) return decision.gradient_homes;
  return decision.assignment.placement().table();
}

/// The share of failures that leave every expert whole, in the last step. Of iterations of
/// training, whose replicas share optimizer state, none.
double survived_share(const Scenario& scenario, const Inputs& inputs, const CaseName& name,
                      int together) {
  const auto system = std::ranges::find(inputs.systems, name.policy, &SystemSpec::name);
  const auto at = static_cast<std::size_t>(system - inputs.systems.begin());
  const PolicyView view = view_of(scenario, inputs, at);
  if (view.scenario.trains()) return 0;
  const ClusterInput& cluster = *std::ranges::find_if(
      view.inputs.clusters,
      [&](const ClusterInput& one) { return one.topology.name() == name.topology; });
  PolicyPlanner planner(view.scenario, view.inputs, cluster, view.system);
  PlannedStep step;
  for (int i = 0; i < planner.count(); ++i) step = planner.plan(i);
  std::vector<SlotTable> layers;
  for (const PlannedLayer& layer : step.layers) {
    layers.push_back(whole_state(layer.decision, view.scenario.backward));
    if (layers.back().empty()) return 0;
  }
  return survival(layers, gpus_per_node(cluster.topology), together).share;
}

std::string percent(double part) { return fmt::format("{:.1f} %", 100 * part); }

/// Minutes and hours where a person would not say seconds, rounded to a tenth of a minute.
Cell long_time(Seconds time) {
  constexpr double longest_in_seconds = 120, longest_in_minutes = 120;
  if (time.value < longest_in_seconds) return time;
  const double minutes = std::round(time.value / 6) / 10;
  if (minutes < longest_in_minutes) {
    return Cell(fmt::format("{:.1f} min", minutes), time.value, "s");
  }
  const auto whole = std::llround(time.value / 60);
  return Cell(fmt::format("{} h {} min", whole / 60, whole % 60), time.value, "s");
}

/// "20000 h", or seconds of less than an hour.
std::string hours_text(Seconds time) {
  constexpr double hour = 3600;
  return time.value < hour ? to_string(time) : fmt::format("{:g} h", time.value / hour);
}

/// Nobody writes for less than a nanosecond.
Cell short_time(Seconds time) { return time < Seconds(1e-9) ? Cell(Seconds(0)) : Cell(time); }

/// A policy with one kind of recovery.
class FailureRow {
 public:
  FailureRow(const CaseResult& c, const FailureTimes& times, int together, double survived,
             bool serving)
      : case_(c), survived_(survived), serving_(serving) {
    const double nodes = c.topology->host_count();
    job_.step = c.metrics.mean_step();
    job_.write = serving ? Seconds(0) : times.write;
    job_.pause = times.pause;
    job_.survived = survived;
    job_.between = times.node_mtbf * (together / nodes);
    // Without replicas everybody waits for the new node; with them the others train, if slower.
    job_.restart = times.restart + times.replace;
    const double missing = survived * together * (times.replace / job_.between);
    capacity_ = std::max(0.0, 1 - missing / nodes);
    // What a pass has computed counts at once.
    if (serving) return;
    steps_ = times.interval.value > 0
                 ? std::max<std::int64_t>(1, std::llround(times.interval / job_.step))
                 : best_steps(job_);
  }

  const std::string& topology() const { return case_.name.topology; }
  /// Tokens per second, failures included.
  double speed() const {
    return useful_share(job_, steps_) * capacity_ * static_cast<double>(case_.metrics.tokens) /
           case_.metrics.time_of_steps().value;
  }
  std::vector<Cell> cells(double baseline) const {
    const HourOfFailures hour = hour_of(job_, steps_);
    const double useful = useful_share(job_, steps_) * capacity_;
    return {case_.name.topology,
            case_.name.policy_text(),
            survived_ > 0 ? "replicas"
            : serving_    ? "restart"
                          : "checkpoint",
            job_.step,
            Cell(percent(survived_), survived_),
            Cell(fmt::format("{:.3g}", hour.failures), hour.failures),
            interval(),
            short_time(hour.writing),
            short_time(hour.down),
            Cell(fmt::format("{:.1f}", hour.redone), hour.redone),
            Cell(percent(useful), useful),
            baseline > 0 ? ratio_cell(speed() / baseline, 2) : Cell("-")};
  }

 private:
  Cell interval() const {
    const Seconds time = job_.step * static_cast<double>(steps_);
    if (time + job_.step > longest_interval) return {"none", time.value, "s"};
    return long_time(time);
  }

  const CaseResult& case_;
  double survived_;
  bool serving_;
  FailingJob job_;
  double capacity_ = 1;
  std::int64_t steps_ = 1;
};

Table failure_table(const std::vector<FailureRow>& rows) {
  Table table("failures", 3,
              {"topology", "policy", "recovery", "step", "survived", "failures/h", "interval",
               "writing/h", "down/h", "redone/h", "useful", "speedup"});
  for (const FailureRow& row : rows) {
    const auto first = std::ranges::find(rows, row.topology(), &FailureRow::topology);
    table.rows.push_back(row.cells(first->speed()));
  }
  return table;
}

void print_failures(const FailureFlags& flags) {
  const FailureTimes times = times_of(flags);
  const Scenario scenario = flags.scenario.read();
  if (scenario.engine_run) {
    throw Error("'failures' takes one pass of a serving engine, the scenario has requests",
                "leave out serving.engine; serving.losses are of requests");
  }
  const Inputs inputs = open_inputs(scenario);
  for (const Diagnostic& w : inputs.warnings) fmt::print(stderr, "{}", w.str());
  const auto cases = simulate(scenario, inputs, {.workers = worker_count(flags.workers)}).cases;
  const bool serving = !scenario.backward;
  std::vector<FailureRow> rows;
  std::string not_run;
  for (const CaseResult& c : cases) {
    if (!c.ran()) {
      not_run += "# " + reason_not_run(c) + "\n";
      continue;
    }
    rows.emplace_back(c, times, flags.together, 0, serving);
    const double survived = survived_share(scenario, inputs, c.name, flags.together);
    if (survived > 0) rows.emplace_back(c, times, flags.together, survived, serving);
  }
  Printout printout;
  printout.add(result_header(scenario, inputs, MOESIM_VERSION))
      .add(fmt::format("# a node fails every {}, {} at once; without checkpoints, pauses and "
                       "restarts a step takes as long as simulated\n",
                       hours_text(times.node_mtbf), flags.together))
      .add(failure_table(rows))
      .add(not_run);
  flags.print.print(printout);
}

}  // namespace

void add_failures_command(CommandLine& app) {
  const auto flags = std::make_shared<FailureFlags>();
  CommandLine command = app.add_subcommand(
      "failures", "Shows what failing nodes cost, and what copies of experts pay");
  flags->scenario.add_to(command);
  add_allow_commands(command);
  command.add_option("--node-mtbf", flags->node_mtbf, "mean time between failures of one node")
      .required();
  command.add_option("--together", flags->together, "nodes that fail at once (default 1)")
      .range(1, 1 << 20);
  command.add_option("--write", flags->write, "in which a checkpoint stops training (default 60s)");
  command.add_option("--restart", flags->restart,
                     "from a failure to the first step after a checkpoint (default 10min)");
  command.add_option("--pause", flags->pause,
                     "from a failure to the next step if copies are left (default 30s)");
  command.add_option("--replace", flags->replace, "until a new node is there (default 0s: spares)");
  command.add_option("--interval", flags->interval, "between checkpoints (default: the best)");
  command.add_option("--workers", flags->workers, "processes to use (default: all cores)")
      .range(1, 1024);
  flags->print.add_to(command);
  command.callback([flags] { print_failures(*flags); });
}

}  // namespace moesim
