// SPDX-License-Identifier: Apache-2.0
#include "realhw/cli/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "realhw/cli/agreed.h"
#include "realhw/cli/commands.h"
#include "realhw/core/gemm.h"
#include "realhw/launch/launch.h"
#include "sim/flags/command_line.h"

namespace moesim {

int run_moesim_hw(int argc, char** argv, Job& job, const std::function<void()>& end_job) {
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
  const auto& [name, command] = *std::ranges::find_if(
      commands, [&](const auto& known) { return app.got_subcommand(known.first); });
  const int code = command->run(job);
  if (code != 0) return code;
  end_job();
  return command->after_job();
}

}  // namespace moesim
