// SPDX-License-Identifier: Apache-2.0
// moesim profile: what profilers recorded of a run, read and summed up.
#include <memory>

#include "sim/cli/commands.h"
#include "sim/cli/long_work.h"
#include "sim/cli/version.h"
#include "sim/flags/print_flags.h"
#include "sim/profile/profile_text.h"

namespace moesim {
namespace {

struct ProfileFlags {
  std::vector<std::string> files, kernels;
  int unknown = 10;
  ResultOutput output;
};

void import_profile(const ProfileFlags& flags) {
  const KernelTable table = kernel_table(flags.kernels);
  LongWork work("reading");
  const ReadProfile read = read_profile(flags.files, table, work.progress());
  const ProfileReport report(read);
  flags.output.write([&] { return profile_json(report, MOESIM_VERSION); },
                     profile_text(report, flags.unknown));
}

void add_profile_import(CommandLine& profile) {
  const auto flags = std::make_shared<ProfileFlags>();
  CommandLine command = profile.add_subcommand(
      "import", "Says where the time of a profiled run goes: kinds of kernels, streams, waiting");
  command
      .add_option("TRACE", flags->files,
                  "traces of PyTorch's profiler, one per rank (json, json.gz; - is standard "
                  "input), or what moesim's --timeline wrote")
      .required();
  command
      .add_option("--kernels", flags->kernels,
                  "your own table of kernel names, before models/kernels/kernels.yaml")
      .one_value_each();
  command.add_option("--unknown", flags->unknown, "kernels that no table names to show (10)")
      .range(0, 1 << 20);
  flags->output.add_to(command, "writes everything printed, and more, to a file");
  command.callback([flags] { import_profile(*flags); });
}

}  // namespace

void add_profile_command(CommandLine& app) {
  CommandLine profile = app.add_subcommand("profile", "Reads what profilers recorded of a run");
  profile.require_subcommand();
  add_profile_import(profile);
}

}  // namespace moesim
