// SPDX-License-Identifier: Apache-2.0
// moesim-hw calibrate: plans what to measure of a cluster, measures it, and writes what the
// simulator reads of it; each on a machine of its own if need be.
#include <fmt/format.h>

#include <cstdio>

#include "realhw/calibrate/saved_calibration.h"
#include "realhw/cli/agreed.h"
#include "realhw/cli/calibrate_measuring.h"
#include "realhw/cli/calibration_flags.h"
#include "realhw/cli/source_flags.h"
#include "sim/base/figures.h"
#include "sim/base/file_claims.h"
#include "sim/base/files.h"
#ifdef MOESIM_SCENARIOS
#include "realhw/calibrate/calibration_fit.h"
#endif

namespace moesim {
namespace {

class CalibrateCommand : public Command {
 public:
  explicit CalibrateCommand(CommandLine& app) {
    CommandLine command =
        app.add_subcommand("calibrate", "Measures a cluster; writes what the simulator reads");
    source_.add_to(command);
    Flag out = command.add_option("-o,--out", prefix_,
                                  "PREFIX: writes PREFIX.times.jsonl, PREFIX.calib.yaml "
                                  "and, next to it, the files that it names");
    measuring_.add_to(command);
#ifdef MOESIM_SCENARIOS
    Flag save = command.add_option(
        "--save", save_, "measures nothing: writes to a file all that --saved needs to measure");
    Flag times = command.add_option(
        "--times", times_, "measures nothing: fits the times in this file, measured anywhere");
    for (Flag other : source_.options()) times.excludes(other);
    for (Flag other : measuring_.options()) {
      times.excludes(other);
      save.excludes(other);
    }
    save.excludes(times).excludes(out).excludes(command.flag("--saved"));
#else
    refuse_without_yaml(command, {"--save", "--times"}, "plans and fits no calibration",
                        "one that was built with YAML does, on any machine");
    out.required();
#endif
  }

  int run(Job& job) override {
#ifdef MOESIM_SCENARIOS
    if (!save_.empty()) return alone(job, [this] { save(); });
    if (!times_.empty()) return alone(job, [this] { fit(); });
#endif
    std::unique_ptr<CalibrationRun> what;
    if (!agreed(job, [&] {
          check_prefix();
          what = source_.open(job.ranks());
        })) {
      return bad_input;
    }
    const CalibrationFiles files(prefix_);
    if (!measuring_.measure(job, *what, files.times())) return bad_input;
    if (job.rank() == 0) fmt::print("{}", what->conclude(files));
    return 0;
  }

 private:
  void check_prefix() const {
    if (prefix_.empty()) throw Error("--out is missing", "-o PREFIX names the files");
  }

#ifdef MOESIM_SCENARIOS
  template <class Action>
  static int alone(Job& job, Action action) {
    const bool done = agreed(job, [&] {
      if (job.ranks() != 1) throw Error("nothing is measured here", "start only one process");
      action();
    });
    return done ? 0 : bad_input;
  }

  void save() const {
    claim_output(save_);
    const auto what = source_.open(0);
    for (const Diagnostic& w : what->warnings()) fmt::print(stderr, "{}", w.str());
    write_file(save_, pack_calibration(*what));
    const CalibrationOrigin& origin = what->origin();
    fmt::print("{}: {}, {}, for {} ({}, {})\n", save_, counted(std::ssize(what->plans()), "plan"),
               counted(origin.rounds.rounds, "round"), counted(origin.ranks, "rank"),
               origin.topology, origin.model);
  }

  void fit() const {
    check_prefix();
    fmt::print("{}", fit_times(times_, CalibrationFiles(prefix_)));
  }

  std::string save_, times_;
#endif
  CalibrationFlags source_;
  CalibrateMeasuring measuring_;
  std::string prefix_;
};

}  // namespace

std::unique_ptr<Command> add_calibrate_command(CommandLine& app) {
  return std::make_unique<CalibrateCommand>(app);
}

}  // namespace moesim
