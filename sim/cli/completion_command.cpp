// SPDX-License-Identifier: Apache-2.0
// moesim completion and moesim man: what shells and man read, made of the flags.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "sim/base/data_files.h"
#include "sim/base/error.h"
#include "sim/cli/commands.h"
#include "sim/cli/version.h"
#include "sim/flags/command_info.h"

namespace moesim {
namespace {

const std::map<std::string, std::string> folders = {{"topologies", "topologies"},
                                                    {"policies", "models/system"},
                                                    {"models", "models"},
                                                    {"traces", "traces"},
                                                    {"scenarios", "scenarios"}};

void print_names(const std::string& section) {
  const auto folder = folders.find(section);
  if (folder == folders.end()) return;
  for (const std::string& name : data_names(folder->second)) fmt::print("{}\n", name);
}

}  // namespace

void add_completion_command(CommandLine& app) {
  struct Options {
    std::string shell, section;
  };
  const auto options = std::make_shared<Options>();
  CommandLine command =
      app.add_subcommand("completion", "Prints a script that completes commands, flags and names");
  command.add_option("SHELL", options->shell, "bash, zsh or fish").required();
  command.add_option("SECTION", options->section, "of names, which the script asks for").hidden();
  command.callback([options, &app] {
    const std::vector<std::string> shells = {"bash", "zsh", "fish"};
    if (options->shell == "names") return print_names(options->section);
    if (std::ranges::find(shells, options->shell) == shells.end()) {
      throw Error(fmt::format("completion: '{}' is not a known shell", options->shell),
                  did_you_mean(options->shell, shells));
    }
    fmt::print("{}", completion_script(info_of(app), options->shell));
  });
}

void add_man_command(CommandLine& app) {
  CommandLine command = app.add_subcommand("man", "Prints the manual page: moesim man | man -l -");
  command.callback([&app] { fmt::print("{}", man_page(info_of(app), MOESIM_RELEASE)); });
}

}  // namespace moesim
