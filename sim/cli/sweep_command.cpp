// SPDX-License-Identifier: Apache-2.0
// moesim sweep: simulates the scenarios of a grid and writes their results to a file.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/file_in_parts.h"
#include "sim/base/files.h"
#include "sim/base/platform.h"
#include "sim/cli/commands.h"
#include "sim/cli/long_work.h"
#include "sim/cli/version.h"
#include "sim/flags/print_flags.h"
#include "sim/flags/scenario_flags.h"
#include "sim/sweep/row.h"
#include "sim/sweep/slurm.h"
#include "sim/sweep/sweep.h"
#include "sim/trace/writer.h"

namespace moesim {
namespace {

struct SweepFlags {
  ScenarioFlags scenario;
  std::string file, shard;
  /// Flags for sbatch, if --slurm is given.
  std::optional<std::string> slurm = {};
  int workers = 0;
  bool merge = false, again = false;
};

std::string sweep_file(const SweepFlags& flags, const SweepGrid& grid) {
  if (!flags.file.empty()) return flags.file;
  // Without a scenario file, only flags describe the grid.
  if (grid.file().empty()) return "sweep.sqlite";
  return std::filesystem::path(grid.file()).stem().string() + ".sqlite";
}

/// Parses "2/16": part 2 of 16 parts, counted from 0. An empty text means all of the sweep. Throws
/// Error if the text has another form.
SweepShard shard_of(const std::string& text) {
  SweepShard shard;
  if (text.empty()) return shard;
  int end = 0;
  const bool read = std::sscanf(text.c_str(), "%d/%d%n", &shard.number, &shard.of, &end) == 2 &&
                    end == static_cast<int>(text.size());
  if (read && shard.of > 0 && shard.number >= 0 && shard.number < shard.of) return shard;
  throw Error(fmt::format("--shard: '{}' is not PART/PARTS", text),
              "--shard 0/4, 1/4, 2/4 and 3/4");
}

void print_end(const SweepEnd& end) {
  const auto state = [&](const std::string& name) {
    const auto found = end.states.find(name);
    return found == end.states.end() ? std::int64_t{0} : found->second;
  };
  std::int64_t rows = 0;
  for (const auto& [name, count] : end.states) rows += count;
  fmt::print("# {}: {} of {}; {} ok, {} unsuitable, {} failed\n", end.file, rows,
             counted(end.scenarios, "scenario"), state(sweep_ok), state(sweep_unsuitable),
             state(sweep_failed));
  constexpr int most_reasons = 5;
  int shown = 0;
  for (const auto& [reason, count] : end.reasons) {
    if (++shown > most_reasons) {
      fmt::print("#   ... and more: moesim query shows all reasons\n");
      break;
    }
    fmt::print("#   {}: {}\n", counted(count, "scenario"), reason);
  }
  if (state(sweep_failed) > 0) fmt::print("#   the same command tries again what failed\n");
}

/// Throws Error if not one scenario has a result, because then the grid or its inputs are wrong.
void require_results(const SweepEnd& end) {
  if (end.states.contains(sweep_ok) || end.states.empty()) return;
  throw Error(fmt::format("no scenario of {} could be simulated", end.file),
              end.states.contains(sweep_failed)
                  ? "mend what failed; the same command tries it again"
                  : "mend the grid, and remove the file");
}

/// Checks that the file can be written. If its name is a link, returns the file that it leads to,
/// because part files are named after that file and kept next to it.
std::string checked_file(const std::string& file) {
  if (file == "-") {
    throw Error("-o -: the results of a sweep are a database, which nothing prints",
                "name a file; moesim query FILE prints it");
  }
  check_writable(file);
  check_outside_traces(file);
  return output_target(file);
}

void submit_sweep(const SweepGrid& grid, const std::string& file, const std::string& flags) {
  const auto [array, merge] = submit(slurm_jobs(without_slurm(own_arguments()), file, flags));
  fmt::print("# {}: job {} simulates, job {} merges into {}\n", counted(grid.size(), "scenario"),
             array, merge, file);
}

void sweep(const SweepFlags& flags) {
  const SweepGrid grid = SweepGrid::read(flags.scenario.file(), flags.scenario.overrides());
  grid.check_inputs();
  const std::string file = checked_file(sweep_file(flags, grid));
  if (flags.slurm) return submit_sweep(grid, file, *flags.slurm);
  if (flags.merge) return print_end(merge_sweep(grid, file, MOESIM_VERSION));
  for (const Diagnostic& w : grid.left_out()) fmt::print(stderr, "{}", w.str());
  SweepOptions options{file, MOESIM_VERSION};
  options.shard = shard_of(flags.shard);
  if (options.shard.of == 1) options.launch = launch_of_environment();
  options.workers = workers_of(options.launch, flags.workers);
  options.stop = LongWork::stopped;
  options.again = flags.again;
  const LongWork work("sweep");
  const SweepEnd end = run_sweep(grid, options);
  if (end.stopped) {
    throw Interrupted(
        work.signal(),
        fmt::format("stopped; {} of {} are in {}: the same command continues", end.before + end.run,
                    counted(end.scenarios, "scenario"), end.file));
  }
  if (end.again > 0) {
    fmt::print("# {} of other inputs ran again\n", counted(end.again, "scenario"));
  }
  // If another rank has merged all results, that rank prints them.
  if (end.file.empty()) return;
  print_end(end);
  require_results(end);
}

}  // namespace

void add_sweep_command(CommandLine& app) {
  const auto flags = std::make_shared<SweepFlags>();
  CommandLine command = app.add_subcommand(
      "sweep", "Simulates all scenarios of a grid; results go to a file that moesim query reads");
  flags->scenario.add_to(command);
  command.add_option(
      "-o,--output", flags->file,
      "SQLite file of the results (default: NAME.sqlite, or sweep.sqlite if there are "
      "only flags); what is in it is not simulated again");
  command
      .add_option("-j,--workers", flags->workers,
                  "processes to use (default: all cores; of a rank of mpirun or srun: 1)")
      .range(1, 1024);
  command.add_option("--shard", flags->shard,
                     "I/N: only this part, from 0 on, into a part file next to the output");
  command.add_option(
      "--slurm", [flags](const std::string& text) { flags->slurm = text; },
      "submits an array of Slurm jobs, and one that merges; flags of sbatch: \"--partition=cpu "
      "--array=0-15%4\"");
  command.add_flag("--merge", flags->merge, "takes part files into the output, and simulates none");
  command.add_flag("--again", flags->again,
                   "runs again what is in the file of other inputs or another version of moesim");
  add_quiet(command);
  command.callback([flags] { sweep(*flags); });
}

}  // namespace moesim
