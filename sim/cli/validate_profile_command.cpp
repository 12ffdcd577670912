// SPDX-License-Identifier: Apache-2.0
// moesim validate profile: a profiled step next to the simulated one of a scenario.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/temporary_folder.h"
#include "sim/cli/commands.h"
#include "sim/cli/long_work.h"
#include "sim/cli/version.h"
#include "sim/flags/print_flags.h"
#include "sim/flags/scenario_flags.h"
#include "sim/html/report_page.h"
#include "sim/profile/profile_validation.h"
#include "sim/run/simulate.h"
#include "sim/scenario/scenario.h"

namespace moesim {
namespace {

struct ValidateProfileFlags {
  std::vector<std::string> files, kernels;
  NamedScenario scenario;
  std::string timeline;
  int steps = 0;
  ResultOutput output;
};

/// The measured ranks that a cluster of so many GPUs has, as --timeline-ranks takes them.
std::string shown_ranks(const Profile& profile, int gpus) {
  std::string ranks;
  for (const ProfiledRank& rank : profile.ranks) {
    if (rank.rank < gpus) ranks += (ranks.empty() ? "" : ",") + std::to_string(rank.rank);
  }
  return ranks;
}

struct SimulatedProfile {
  Profile profile;
  std::string policy, topology;
  Seconds step;  // of all ranks
};

/// A log has the times of iterations and nothing below them.
void require_for_log(const ValidateProfileFlags& flags, const Scenario& scenario) {
  if (!scenario.trains()) {
    throw Error("a log of iterations is compared with an iteration; the scenario has none",
                "'parallel' and 'batch' describe one");
  }
  if (flags.steps > 0) {
    throw Error("--steps: the log says how many iterations it has", "leave --steps out");
  }
  if (!flags.timeline.empty()) {
    throw Error("--timeline: a log has no kernels",
                "moesim run --timeline writes the simulated iteration");
  }
  if (flags.output.page_asked()) {
    throw Error("--report: a log has no kernels to draw",
                "moesim run --report draws the simulated iteration");
  }
}

/// Simulates the scenario's only case; the timeline goes to `path`.
SimulatedProfile simulated_profile(const ValidateProfileFlags& flags, const Profile& measured,
                                   const KernelTable& table, const std::string& path) {
  const Scenario scenario = read_scenario(flags.scenario.file(), flags.scenario.overrides());
  if (is_log(measured)) require_for_log(flags, scenario);
  const Inputs inputs = open_inputs(scenario);
  for (const Diagnostic& w : inputs.warnings) fmt::print(stderr, "{}", w.str());
  ComparisonOptions options;
  const int gpus = inputs.clusters.front().topology.gpu_count();
  options.timeline = {path, {shown_ranks(measured, gpus), 1}, MOESIM_VERSION};
  options.timeline->says = !flags.timeline.empty();
  const ComparisonResult result = simulate(scenario, inputs, options);
  if (result.cases.size() != 1) {
    throw Error("the scenario has several cases", "--set policy=NAME leaves one");
  }
  const CaseName& name = result.cases.front().name;
  return {read_profile({path}, table, [](double) {}).profile, name.policy, name.topology,
          result.cases.front().metrics.mean_step()};
}

/// Adds the measured kernels to the file of the simulated ones.
void join_timelines(const std::string& path, const Profile& measured) {
  constexpr int after_simulated = 1 << 24;
  std::string text = read_file(path);
  text.resize(text.rfind("\n]}"));
  TraceEvents events([&](std::string_view more) { text += more; });
  add_measured(measured, after_simulated, events);
  write_file(path, text + "\n]}\n");
}

void validate_profile(const ValidateProfileFlags& flags) {
  const KernelTable table = kernel_table(flags.kernels);
  LongWork work("reading");
  const ReadProfile measured = read_profile(flags.files, table, work.progress());
  const TemporaryFolder folder;
  const std::string path =
      flags.timeline.empty() ? folder.path() + "/simulated.json" : flags.timeline;
  const SimulatedProfile simulated = simulated_profile(flags, measured.profile, table, path);
  if (!flags.timeline.empty()) join_timelines(path, measured.profile);
  StepTimes of_simulated = step_times(simulated.profile, 0);
  if (is_log(measured.profile)) of_simulated.wall = simulated.step.value;
  const double optimizer = of_simulated.kinds[static_cast<std::size_t>(KernelKind::optimizer)];
  const ProfileValidation validation{
      step_times(measured.profile, flags.steps),
      of_simulated,
      both_timelines(measured.profile, simulated.profile, flags.steps),
      timer_times(measured.profile, simulated.step.value, optimizer),
      std::filesystem::path(flags.scenario.file()).filename(),
      simulated.policy,
      simulated.topology};
  const auto document = [&](bool with_timelines) {
    return [&validation, with_timelines] {
      return validation_of_profile_json(validation, MOESIM_VERSION, with_timelines);
    };
  };
  flags.output.write(document(false), validation_of_profile_text(validation), document(true));
}

}  // namespace

void add_validate_profile(CommandLine& validate, const std::shared_ptr<bool>& ran) {
  const auto flags = std::make_shared<ValidateProfileFlags>();
  CommandLine command = validate.add_subcommand(
      "profile", "Sets a profiled step next to the simulated one, by kind of kernel");
  command.add_option("TRACE", flags->files, "as of moesim profile import").required();
  flags->scenario.add_to(command, "of one case: a file or a shipped one");
  command.add_option("--steps", flags->steps, "steps in the profile (default: as it says, else 1)")
      .range(1, 1 << 20);
  command.add_option("--kernels", flags->kernels, "your own table of kernel names")
      .one_value_each();
  command.add_option("--timeline", flags->timeline,
                     "writes both steps to a file for ui.perfetto.dev");
  flags->output.add_to(command, "writes everything printed, and more, to a file");
  flags->output.add_page(command, "--report", "draws both steps as one HTML file",
                         [](const std::string& document) {
                           return report_page({{"", document}}, MOESIM_VERSION);
                         });
  command.callback([flags, ran] {
    *ran = true;
    validate_profile(*flags);
  });
}

}  // namespace moesim
