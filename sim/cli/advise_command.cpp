// SPDX-License-Identifier: Apache-2.0
// moesim advise: the best of many candidates, found with few simulations.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "sim/cli/commands.h"
#include "sim/cli/long_work.h"
#include "sim/cli/version.h"
#include "sim/evidence/engine_table.h"
#include "sim/flags/print_flags.h"
#include "sim/flags/scenario_flags.h"
#include "sim/flags/shared_flags.h"
#include "sim/run/worker_count.h"
#include "sim/scenario/dense_model.h"
#include "sim/sweep/advise.h"
#include "sim/sweep/serving_advice.h"

namespace moesim {
namespace {

struct AdviseFlags {
  ScenarioFlags scenario;
  std::vector<std::string> questions;
  std::string budget = "10 min";
  int workers = 0, shown = 5, finals = 3;
  double part = 0;  // 0: as usual
  std::string sla;
  LossyFlag lossy;
  PrintFlags print;
};

/// The scenario's axes and those of the questions. If only flags are given and name no policy, they
/// ask for one.
SweepGrid grid_of(const AdviseFlags& flags) {
  std::vector<Override> overrides = flags.scenario.overrides();
  const bool any_policy =
      flags.scenario.file().empty() && !flags_name_dense_model(overrides) &&
      std::ranges::find(overrides, "policy", &Override::path) == overrides.end();
  if (any_policy) overrides.push_back({"policy", "alltoall", "--policy"});
  SweepGrid grid = SweepGrid::read(flags.scenario.file(), overrides);
  const auto ask = [&](const std::string& question) {
    grid = grid.with_axes(axes_of_question(question, grid));
  };
  std::ranges::for_each(flags.questions, ask);
  if (any_policy &&
      std::ranges::find(grid.axes(), "policy", &SweepAxis::name) == grid.axes().end()) {
    ask("mechanism");
  }
  return grid;
}

/// Deployments are not points of a grid: `serving` is a question by itself.
constexpr const char* serving_question = "serving";

bool asks_for_serving(const AdviseFlags& flags) {
  const bool asked = std::ranges::find(flags.questions, serving_question) != flags.questions.end();
  if (asked && flags.questions.size() > 1) {
    throw Error("--ask serving together with other questions", "ask them one after the other");
  }
  if (asked == flags.sla.empty()) {
    throw Error(asked ? "--ask serving without --sla" : "--sla without --ask serving",
                "--ask serving --sla \"ttft p95 < 2 s, tpot p95 < 50 ms\"");
  }
  return asked;
}

void advise_on(const AdviseFlags& flags) {
  const Seconds budget = time_of_flag("--budget", flags.budget);
  if (asks_for_serving(flags)) {
    ServingAdviceOptions options;
    options.version = MOESIM_VERSION;
    options.sla = flags.sla;
    options.workers = worker_count(flags.workers);
    options.shown = flags.shown;
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(budget.value);
    options.stop = [end] { return std::chrono::steady_clock::now() > end; };
    Printout advice = advise_serving(flags.scenario.file(), flags.scenario.overrides(), options);
    advice.add(engine_errors_line(read_engine_table(shipped_engine_table).known));
    flags.print.print(advice);
    return;
  }
  const SweepGrid grid = grid_of(flags);
  grid.check_inputs();
  for (const Diagnostic& w : grid.left_out()) fmt::print(stderr, "{}", w.str());
  AdviseOptions options;
  options.version = MOESIM_VERSION;
  options.workers = worker_count(flags.workers);
  options.shown = flags.shown;
  options.finals = flags.finals;
  options.lossy = flags.lossy.allowed();
  if (flags.part > 0) options.most_part = flags.part;
  options.budget = budget.value;
  options.stop = LongWork::stopped;
  const LongWork work("advise");
  try {
    flags.print.print(advise(grid, options));
  } catch (const Error&) {
    if (work.signal() == 0) throw;
  }
  if (const int signal = work.signal()) throw Interrupted(signal, "interrupted");
}

}  // namespace

void add_advise_command(CommandLine& app) {
  const auto flags = std::make_shared<AdviseFlags>();
  CommandLine command = app.add_subcommand(
      "advise", "Finds the best policy, parameters and parallel sizes with few simulations");
  flags->scenario.add_to(command);
  command
      .add_option("--ask", flags->questions,
                  fmt::format("adds the axes of a question: {}; several: a,b; or serving, with "
                              "--sla: deployments for the scenario's requests",
                              fmt::join(advise_questions(), ", ")))
      .separated_by(',')
      .one_value_each();
  command.add_option("--sla", flags->sla,
                     "for --ask serving: METRIC FIGURE < TIME; several: a,b; METRIC: ttft, tpot, "
                     "gap, latency; FIGURE: mean, p50, p90, p95, p99");
  command.add_option("--budget", flags->budget, "longest time of the search (default 10min)");
  command
      .add_option("--top", flags->shown,
                  "candidates to show (default 5); 1: no comparison with the second")
      .range(1, 1 << 20);
  command
      .add_option("--finals", flags->finals,
                  "the best N, if close, are simulated at flow (default 3)")
      .range(0, 1 << 20);
  command
      .add_option(
          "--part", flags->part,
          "largest part of the possible candidates to simulate at port (default 0.2, but at least "
          "12 of them)")
      .range(0.0, 1.0);
  command.add_option("-j,--workers", flags->workers, "processes to use (default: all cores)")
      .range(1, 1024);
  flags->lossy.add_to(command);
  flags->print.add_to(command);
  command.callback([flags] { advise_on(*flags); });
}

}  // namespace moesim
