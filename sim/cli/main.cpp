// SPDX-License-Identifier: Apache-2.0
// moesim: which MoE placement and communication policy is fastest on this cluster, and why.
#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "sim/base/bad_path.h"
#include "sim/base/error.h"
#include "sim/base/stop_signals.h"
#include "sim/cli/commands.h"
#include "sim/cli/version.h"
#include "sim/flags/command_line.h"
#include "sim/import/torch_json.h"
#include "sim/mechanism/placement/given/placement_file.h"
#include "sim/trace/mapped_file.h"

namespace {

constexpr int run_failed = 1;
constexpr int bad_input = 2;

using Add = void (*)(moesim::CommandLine&);
constexpr std::pair<std::string_view, Add> commands[] = {
    {"run", moesim::add_run_command},           {"compare", moesim::add_compare_command},
    {"plan", moesim::add_plan_command},         {"export", moesim::add_export_command},
    {"explain", moesim::add_explain_command},   {"whatif", moesim::add_whatif_command},
    {"list", moesim::add_list_command},         {"topology", moesim::add_topology_command},
    {"trace", moesim::add_trace_command},       {"calibrate", moesim::add_calibrate_command},
    {"validate", moesim::add_validate_command}, {"report", moesim::add_report_command},
    {"papers", moesim::add_papers_command},     {"sweep", moesim::add_sweep_command},
    {"query", moesim::add_query_command},       {"place", moesim::add_place_command},
    {"advise", moesim::add_advise_command},     {"profile", moesim::add_profile_command},
    {"model", moesim::add_model_command},       {"explore", moesim::add_explore_command},
    {"new", moesim::add_new_command},           {"doctor", moesim::add_doctor_command},
    {"failures", moesim::add_failures_command},
};

/// The command that is named first, or all of them; none for --version: all flags take
/// milliseconds.
void add_commands(moesim::CommandLine& app, std::string_view named) {
  if (named == "--version") return;
  for (const auto& [name, add] : commands) {
    if (name == named) return add(app);
  }
  for (const auto& [name, add] : commands) add(app);
  moesim::add_completion_command(app);
  moesim::add_man_command(app);
}

constexpr const char* three_things =
    "moesim simulates mixture-of-experts placement and communication policies on GPU clusters.\n"
    "Three things to try:\n"
    "\n"
    "  moesim compare quickstart    five policies on three clusters, in one table\n"
    "  moesim explore quickstart    the same in your browser, with sliders\n"
    "  moesim new my-run.yaml       a scenario of your own, after four questions\n"
    "\n"
    "moesim --help lists all commands, moesim list what there is to choose from, and moesim "
    "doctor\n"
    "says what this installation has.\n";

int run(int argc, char** argv) {
  if (argc == 1) {
    fmt::print("{}", three_things);
    return 0;
  }
  moesim::CommandLine app(
      "moesim",
      "Simulates mixture-of-experts placement and communication policies on GPU clusters,\n"
      "replaying recorded routing traces.");
  app.version(std::string("moesim ") + MOESIM_VERSION);
  app.require_subcommand();
  app.footer(
      "moesim help COMMAND tells more.\n"
      "Exit codes: 0 done, 1 the run failed, 2 bad input, 130 interrupted.");
  add_commands(app, argc > 1 ? argv[1] : "");
  moesim::read_torch_placements_by(moesim::torch_json);
  moesim::add_examples(app);
  try {
    fmt::print("{}", app.parse(argc, argv));
  } catch (const moesim::Interrupted&) {
    throw;
  } catch (const std::exception&) {
    moesim::check_unchanged_files();  // else the failure hides that a file changed meanwhile
    throw;
  }
  moesim::check_unchanged_files();
  if (std::fflush(stdout) != 0) {
    throw std::runtime_error(fmt::format("cannot write the output: {}", std::strerror(errno)));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond ulimit -f fails as on a full disk
  try {
    return run(argc, argv);
  } catch (const moesim::Error& e) {
    fmt::print(stderr, "{}", e.what());
    return bad_input;
  } catch (const std::filesystem::filesystem_error& e) {
    fmt::print(stderr, "{}", moesim::bad_path(e).what());
    return bad_input;
  } catch (const moesim::Interrupted& e) {
    fmt::print(stderr, "moesim: {}\n", e.what());
    return moesim::end_by(e.signal());
  } catch (const std::exception& e) {
    fmt::print(stderr, "moesim: the run failed: {}\n", moesim::cause_of(e));
    return run_failed;
  }
}
