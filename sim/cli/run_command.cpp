// SPDX-License-Identifier: Apache-2.0
// moesim run and moesim compare: one case in detail, or a grid of cases in one table.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <stdexcept>

#include "sim/base/figures.h"
#include "sim/base/file_claims.h"
#include "sim/base/files.h"
#include "sim/base/stop_signals.h"
#include "sim/base/units.h"
#include "sim/cli/commands.h"
#include "sim/cli/version.h"
#include "sim/evidence/engine_table.h"
#include "sim/evidence/expectation.h"
#include "sim/evidence/interval_table.h"
#include "sim/flags/print_flags.h"
#include "sim/flags/scenario_flags.h"
#include "sim/flags/shared_flags.h"
#include "sim/html/report_page.h"
#include "sim/print/progress_line.h"
#include "sim/report/path_report.h"
#include "sim/report/table.h"
#include "sim/report/tolerance.h"
#include "sim/run/engine_cases.h"
#include "sim/run/engine_views.h"
#include "sim/run/memory_views.h"
#include "sim/run/result_file.h"
#include "sim/run/simulate.h"
#include "sim/run/worker_count.h"

namespace moesim {
namespace {

/// "[3/12] h100-rail llep port: 1.2 ms", as soon as it is known.
std::string line_of(const FinishedRun& run) {
  std::vector<std::string> times;
  for (const Seconds time : run.times) times.push_back(to_string(time));
  return fmt::format("[{}/{}] {}: {}", run.number, run.of, run.name,
                     run.unsuitable.empty() ? fmt::format("{}", fmt::join(times, ", "))
                                            : "not run: " + run.unsuitable);
}

struct RunOptions {
  ScenarioFlags scenario;
  ResultOutput output;
  int workers = 0;
  bool bounds = false, elasticities = false, pictures = false, intervals = false;
  bool every_gpu = false;
  bool every_microbatch = false;
  std::string timeline, timeline_ranks;
  int timeline_steps = 1;
  std::string expected, tolerance = "1 %";
  LossyFlag lossy;
  ComparisonOptions asked() const {
    ComparisonOptions options{worker_count(workers), bounds, elasticities,
                              pictures || output.page_asked()};
    options.keep_finished = true;
    options.every_gpu = every_gpu;
    options.every_microbatch = every_microbatch;
    options.finished = [lines = std::make_shared<DoneLines>()](const FinishedRun& run) {
      if (run.of > 1) lines->add(line_of(run));
    };
    if (!timeline.empty()) {
      options.timeline = {timeline, {timeline_ranks, timeline_steps}, MOESIM_VERSION};
    } else if (!timeline_ranks.empty()) {
      throw Error("--timeline-ranks goes with --timeline FILE");
    }
    return options;
  }
  /// `pictured`: the document with what reports draw. Throws if the result is not what --expect
  /// says, and Interrupted if a signal ended the comparison early.
  void write(const std::function<std::string()>& document,
             const std::function<std::string()>& pictured, Printout printout, int signal,
             CaseCount count) const {
    const auto& wanted = pictures ? pictured : document;
    if (signal != 0) {
      const std::string beside = expected.empty() ? "" : "; not compared with " + expected;
      output.write(wanted, printout.add("\n# " + count.interrupted_text() + beside + "\n"),
                   pictured);
      throw Interrupted(signal, count.interrupted_text());
    }
    if (expected.empty()) return output.write(wanted, printout, pictured);
    const Expectation found =
        expect(expected, read_file(expected), document(), parse_tolerance(tolerance));
    output.write(wanted, printout.add(found.moves), pictured);
    if (found.moved == 0) return;
    throw std::runtime_error(
        fmt::format("{} of {} cases moved against {}", found.moved, found.cases, expected));
  }
};

void add_elasticities(Printout& printout, const std::string& name,
                      const std::vector<Elasticity>& list) {
  if (list.empty()) return;
  printout.add(fmt::format("\n# {}: what the same plan takes with more of a resource\n", name))
      .add(elasticity_table(list));
}

/// Runs an engine on its requests, for each case.
void run_engine_cases(const RunOptions& options, const Scenario& scenario) {
  if (options.bounds || options.elasticities || options.intervals || !options.timeline.empty()) {
    throw Error("--bounds, --elasticities, --intervals and --timeline are of single passes",
                "'serving.batch' in place of 'serving.requests' is one pass");
  }
  const Inputs inputs = open_inputs(scenario);
  for (const Diagnostic& w : inputs.warnings) fmt::print(stderr, "{}", w.str());
  const EngineResult result = run_engines(scenario, inputs, options.asked());
  Printout printout;
  printout.add(engine_header(scenario, inputs, MOESIM_VERSION))
      .add(engine_table(scenario, result.cases))
      .add(engine_errors_line(read_engine_table(shipped_engine_table).known));
  const auto undone = std::ranges::count_if(result.cases, &EngineCase::interrupted);
  const auto all = static_cast<int>(result.cases.size());
  const auto document = [&] { return engine_json(scenario, inputs, result.cases, MOESIM_VERSION); };
  options.write(document, document, printout, result.signal, {all - static_cast<int>(undone), all});
}

/// `details`: of a single case.
void run_cases(const RunOptions& options, const Scenario& scenario, bool details) {
  if (scenario.engine_run) return run_engine_cases(options, scenario);
  const Inputs inputs = open_inputs(scenario);
  for (const Diagnostic& w : inputs.warnings) fmt::print(stderr, "{}", w.str());
  ComparisonOptions asked = options.asked();
  asked.layers = details;
  ComparisonResult result = simulate(scenario, inputs, asked);
  if (options.intervals) {
    add_intervals(scenario, inputs, result.cases, shipped_errors_of(scenario));
  } else if (options.output.page_asked()) {
    add_known_intervals(scenario, inputs, result.cases);
  }
  const std::vector<CaseResult>& cases = result.cases;
  const char* noun = noun_of(cases);
  Printout printout;
  printout.add(result_header(scenario, inputs, MOESIM_VERSION))
      .add(comparison_table(cases, options.bounds));
  if (const RunMetrics& metrics = cases[0].metrics; details && !metrics.layers.empty()) {
    printout.add("\n")
        .add(layer_table(cases[0]))
        .add(layer_note(cases[0]))
        .add(fmt::format("\n# the critical path of {} {}\n", *noun == 'i' ? "an" : "a", noun));
    printout.add(path_table(metrics.path, static_cast<double>(metrics.steps.size())));
  }
  for (const CaseResult& c : cases) {
    add_elasticities(printout, fmt::format("{} on {}", c.name.policy_text(), c.name.topology),
                     c.metrics.elasticities);
  }
  if (options.intervals) {
    const ShippedModelErrors errors = shipped_errors_of(scenario);
    printout.add(
        interval_table(cases, errors, unmeasured_of(scenario, inputs, cases, errors.networks)));
  }
  if (options.bounds) {
    const char* of = scenario.trains() ? "the first microbatch" : "one step";
    printout
        .add(
            fmt::format("\n# token exchanges of {} by themselves, all layers together, against the "
                        "least that any dispatch needs\n",
                        of))
        .add(bounds_table(result.bounds));
  }
  options.write([&] { return result_json(scenario, inputs, cases, MOESIM_VERSION); },
                [&] { return pictured_result_json(scenario, inputs, cases, MOESIM_VERSION); },
                printout, result.signal, count_done(cases));
}

void run(const RunOptions& options) {
  const Scenario scenario = options.scenario.read();
  const auto count =
      scenario.topologies.size() * scenario.policies.size() * scenario.fidelities.size();
  if (count != 1) {
    throw Error(fmt::format("'run' takes one topology, policy and fidelity; these make {}",
                            counted(count, "case")),
                "moesim compare shows several side by side");
  }
  run_cases(options, scenario, true);
}

void compare(const RunOptions& options) {
  const Scenario scenario = options.scenario.read();
  const bool other_tables = options.bounds || options.elasticities || options.intervals;
  if (!scenario.engine_run && !other_tables) {
    options.output.check_columns(Printout().add(
        scenario.iteration ? head_of_iterations(scenario.serves(), memory_part_names())
                           : head_of_layers()));
  }
  run_cases(options, scenario, false);
}

CommandLine add(CommandLine& app, const std::string& name, const std::string& description,
                const std::shared_ptr<RunOptions>& options, void (*callback)(const RunOptions&)) {
  CommandLine command = app.add_subcommand(name, description);
  options->scenario.add_to(command);
  options->output.add_to(command, "writes everything printed, and more, to a file");
  options->output.add_page(command, "--report", "draws the results as one HTML file",
                           [lossy = &options->lossy](const std::string& document) {
                             return report_page({{"", document}}, MOESIM_VERSION, lossy->allowed());
                           });
  command.add_flag("--pictures", options->pictures,
                   "adds to --json what 'moesim report' draws: timelines, clusters, loads");
  command.add_option("--workers", options->workers, "processes to use (default: all cores)")
      .range(1, 1024);
  command.add_flag("--bounds", options->bounds,
                   "adds tables of lower bounds: of the whole step, and of its token exchanges");
  command.add_flag("--elasticities", options->elasticities,
                   "adds what 10 % more of each resource gains, by simulating again");
  command.add_flag("--every-gpu", options->every_gpu,
                   "simulates every GPU, even if balanced ones do the same and one would suffice");
  command.add_flag("--every-microbatch", options->every_microbatch,
                   "simulates every microbatch, even if the steady state of a few would suffice");
  const auto keep_timeline = [options](const std::string& path) {
    claim_output(path);
    options->timeline = path;
  };
  command.add_option("--timeline", keep_timeline,
                     "writes a timeline as trace events, for ui.perfetto.dev");
  command.add_option(
      "--timeline-ranks", options->timeline_ranks,
      fmt::format("ranks in the timeline: all, or 0,8-15 (default: {}, the first of each stage)",
                  default_ranks));
  command
      .add_option("--timeline-steps", options->timeline_steps,
                  "steps in the timeline: the first N (default 1)")
      .range(1, 1 << 20);
  add_allow_commands(command);
  command.callback([options, callback] { callback(*options); });
  return command;
}

}  // namespace

void add_run_command(CommandLine& app) {
  add(app, "run", "Simulates one policy on one cluster, layer by layer",
      std::make_shared<RunOptions>(), run);
}

void add_compare_command(CommandLine& app) {
  const auto options = std::make_shared<RunOptions>();
  CommandLine command =
      add(app, "compare", "Compares policies, topologies and fidelities in one table", options,
          compare);
  options->lossy.add_to(command);
  command.add_flag("--intervals", options->intervals,
                   "adds 90 % intervals of times and speedups, and what would tell policies apart");
  const auto keep_expected = [options](const std::string& path) {
    read_file(path);  // told before the run, not after
    options->expected = path;
  };
  command.add_option("--expect", keep_expected,
                     "compares with a stored --json file, says what moved, and exits with 1 if "
                     "anything did");
  command.add_option("--tolerance", options->tolerance,
                     "by how much figures may move against --expect (default 1%)");
}

}  // namespace moesim
