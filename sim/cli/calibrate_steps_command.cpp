// SPDX-License-Identifier: Apache-2.0
// moesim calibrate steps: values of a scenario fitted to the times of whole steps.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/unsuitable.h"
#include "sim/cli/commands.h"
#include "sim/cli/long_work.h"
#include "sim/cli/version.h"
#include "sim/evidence/step_fit.h"
#include "sim/flags/output_file.h"
#include "sim/flags/print_flags.h"
#include "sim/flags/scenario_flags.h"
#include "sim/run/result_file.h"
#include "sim/run/simulate.h"
#include "sim/scenario/scenario_text.h"

namespace moesim {
namespace {

struct CalibrateStepsFlags {
  ScenarioFlags scenario;
  std::string measured;
  std::vector<std::string> fit;
  OutputFile out;
  PrintFlags print;
};

/// Simulates measured steps, each setting with the same values once.
class StepSimulator {
 public:
  explicit StepSimulator(const CalibrateStepsFlags& flags)
      : flags_(flags), work_("fitting", "interrupted; nothing was written") {}

  /// With changes as --set makes them.
  Scenario scenario(const std::vector<Override>& changes, bool memory = true) const {
    std::vector<Override> all = flags_.scenario.overrides();
    for (const Override& change : changes) {
      all.push_back({"set", change.path + "=" + change.value, change.str(), false});
    }
    if (!memory) all.push_back({"memory", "ignore", "memory: ignore", false});
    return read_scenario(flags_.scenario.file(), all);
  }

  /// Whatever its memory.
  Seconds time(const TimedStep& step, const std::vector<FittedValue>& values) {
    work_.progress()(std::min(0.99, static_cast<double>(times_.size()) / 200.0));
    const std::vector<Override> changes = changes_of(step, values);
    std::string setting;
    for (const Override& change : changes) setting += change.path + "=" + change.value + "\n";
    const auto [known, is_new] = times_.try_emplace(setting);
    if (is_new) known->second = simulated(scenario(changes, false));
    return known->second;
  }
  bool fits(const TimedStep& step, const std::vector<FittedValue>& values) const {
    try {
      simulated(scenario(changes_of(step, values)));
      return true;
    } catch (const Unsuitable&) {
      return false;
    }
  }

 private:
  static std::vector<Override> changes_of(const TimedStep& step,
                                          const std::vector<FittedValue>& values) {
    std::vector<Override> changes = step.changes;
    for (const FittedValue& value : values) changes.push_back(value.change());
    return changes;
  }
  static Seconds simulated(const Scenario& one) {
    const Inputs inputs = open_inputs(one);
    ComparisonOptions here;
    here.workers = 0;
    const auto cases = simulate(one, inputs, here).cases;
    if (cases.size() == 1) return cases.front().metrics.mean_step();
    throw Error(fmt::format("the scenario has {} cases, measured steps are of one", cases.size()),
                "one topology, policy, fidelity and routing");
  }

  const CalibrateStepsFlags& flags_;
  LongWork work_;
  std::map<std::string, Seconds> times_;  // by setting, values included as they are simulated
};

/// The values fitted to all steps but one, from those of all.
std::vector<FittedValue> without(const std::vector<TimedStep>& steps, std::size_t left_out,
                                 const std::vector<FittedValue>& values, const StepTime& time) {
  std::vector<TimedStep> others = steps;
  others[left_out].held_out = true;
  return fit_steps(others, values, time);
}

Cell error_cell(Seconds simulated, Seconds measured) {
  const double error = simulated / measured - 1;
  return Cell(signed_percent(error), error);
}

Table table_of(const std::vector<TimedStep>& steps, const std::vector<FittedValue>& values,
               StepSimulator& simulator, const StepTime& time) {
  Table table("steps", 2, {"step", "use", "measured", "simulated", "error", "if left out"});
  const auto fitted = std::ranges::count_if(steps, &TimedStep::is_fitted);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const TimedStep& step = steps[i];
    if (!step.time) {
      table.rows.push_back({step.name, "memory", "oom",
                            simulator.fits(step, values) ? "fits" : "does not fit", "", ""});
      continue;
    }
    const Seconds here = time(step, values);
    Cell left_out;
    if (step.is_fitted() && fitted > std::ssize(values)) {
      left_out = error_cell(time(step, without(steps, i, values, time)), *step.time);
    }
    table.rows.push_back({step.name, step.held_out ? "predict" : "fit", *step.time, here,
                          error_cell(here, *step.time), left_out});
  }
  return table;
}

/// Whether pairs with a step that was not fitted are in the measured order, if they differ by over
/// 5 %.
std::string order_of(const std::vector<TimedStep>& steps, const std::vector<FittedValue>& values,
                     const StepTime& time) {
  constexpr double alike = 1.05;
  int pairs = 0, right = 0;
  for (std::size_t a = 0; a < steps.size(); ++a) {
    for (std::size_t b = 0; b < steps.size(); ++b) {
      if (!steps[a].time || !steps[b].time) continue;
      if (!steps[a].held_out && !steps[b].held_out) continue;
      if (*steps[a].time / *steps[b].time <= alike) continue;
      ++pairs;
      right += time(steps[a], values) > time(steps[b], values) ? 1 : 0;
    }
  }
  if (pairs == 0) return "";
  return fmt::format("# order of pairs with a predicted step that differ by over 5 %: {} of {}\n",
                     right, pairs);
}

std::string values_text(const std::vector<FittedValue>& values) {
  std::string text;
  for (const FittedValue& value : values) {
    text +=
        fmt::format("# fitted: {}={}{}\n", value.key, value.text(),
                    value.at_its_edge() ? ", the edge of its range: other causes are likely" : "");
  }
  return text;
}

void calibrate_steps(const CalibrateStepsFlags& flags) {
  std::vector<FittedValue> values;
  for (const std::string& text : flags.fit) values.push_back(parse_fitted_value(text));
  const std::vector<TimedStep> steps = read_measured_steps(flags.measured);
  StepSimulator simulator(flags);
  const StepTime time = [&](const TimedStep& step, const std::vector<FittedValue>& with) {
    return simulator.time(step, with);
  };
  values = fit_steps(steps, std::move(values), time);
  const Table table = table_of(steps, values, simulator, time);
  std::vector<Override> changes;
  for (const FittedValue& value : values) changes.push_back(value.change());
  const Scenario fitted = simulator.scenario(changes);
  if (flags.out.asked()) flags.out.write(to_text(fitted));
  Printout printout;
  printout.add(result_header(fitted, open_inputs(fitted), MOESIM_VERSION))
      .add(values_text(values))
      .add(table)
      .add(order_of(steps, values, time));
  flags.print.print(printout, flags.out.beside());
}

}  // namespace

void add_calibrate_steps(CommandLine& calibrate, const std::shared_ptr<bool>& ran) {
  const auto flags = std::make_shared<CalibrateStepsFlags>();
  CommandLine command = calibrate.add_subcommand(
      "steps", "Fits values of a scenario to the times of whole steps, and predicts others");
  flags->scenario.add_to(command);
  command
      .add_option("--measured", flags->measured,
                  "CSV: seconds, and keys of the scenario such as parallel.tp")
      .required();
  command
      .add_option("--fit", flags->fit,
                  "KEY=LOW:HIGH UNIT: a value and its range, such as "
                  "software.kept.gh100.bf16=0.3:1")
      .one_value_each()
      .required();
  flags->out.add_to(command, "-o,--out", "writes the scenario with the fitted values");
  flags->print.add_to(command);
  command.callback([flags, ran] {
    *ran = true;
    calibrate_steps(*flags);
  });
}

}  // namespace moesim
