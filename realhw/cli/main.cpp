// SPDX-License-Identifier: Apache-2.0
// moesim-hw: runs the plans that moesim simulates on hardware, one process a GPU.
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <memory>

#include "realhw/cli/agreed.h"
#include "realhw/cli/commands.h"
#include "realhw/core/gemm.h"
#include "realhw/launch/launch.h"
#include "sim/base/cause.h"
#include "sim/flags/command_line.h"

namespace moesim {
namespace {

int run(int argc, char** argv, std::unique_ptr<Job>& job_of_main) {
  Job& job = *job_of_main;
  CommandLine app("moesim-hw",
                  "Runs the plans that moesim simulates, with real data, one process per GPU.");
  app.version(std::string("moesim-hw ") + MOESIM_RELEASE);
  app.require_subcommand();
  app.footer("Exit codes: 0 done, 1 the run failed or computed wrong numbers, 2 bad input.");
  const std::pair<const char*, std::unique_ptr<Command>> commands[] = {
      {"run", add_run_command(app)},
      {"validate", add_validate_command(app)},
      {"calibrate", add_calibrate_command(app)},
  };
  LaunchFlags launch_flags;  // for --help: launch() has read them, wherever they are
  launch_flags.add_to(app);
  for (CommandLine& command : app.subcommands()) launch_flags.add_to(command);
  std::string help;
  if (!agreed(job, [&] { help = app.parse(argc, argv); })) return bad_input;
  if (job.rank() == 0) fmt::print("{}", help);
  if (!help.empty()) return 0;
  set_gemm_threads(1);  // a process stands for one GPU, and others share the machine
  for (const auto& [name, command] : commands) {
    if (!app.got_subcommand(name)) continue;
    const int code = command->run(job);
    if (code != 0) return code;
    job_of_main.reset();  // what follows needs no other rank
    return command->after_job();
  }
  return 0;
}

}  // namespace
}  // namespace moesim

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond ulimit -f fails as on a full disk
  std::unique_ptr<moesim::Job> job;
  int code = moesim::run_failed;
  try {
    job = moesim::launch(argc, argv);
    return moesim::run(argc, argv, job);
  } catch (const moesim::Error& e) {
    fmt::print(stderr, "{}", e.what());
    code = moesim::bad_input;
  } catch (const std::exception& e) {
    fmt::print(stderr, "moesim-hw: the run failed: {}\n", moesim::cause_of(e));
  }
  if (job) job->abort(code);
  return code;
}
