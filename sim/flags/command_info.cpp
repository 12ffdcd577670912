// SPDX-License-Identifier: Apache-2.0
#include "sim/flags/command_info.h"

#include <CLI/CLI.hpp>
#include <map>

#include "sim/print/render.h"

namespace moesim {
namespace {

FlagInfo flag_info(const CLI::Option& option) {
  FlagInfo info;
  for (const std::string& name : option.get_snames()) info.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) info.names.push_back("--" + name);
  info.positional = info.names.empty();
  if (info.positional) info.names.push_back(option.get_single_name());
  info.description = option.get_description();
  info.takes_value = option.get_expected_max() > 0;
  return info;
}

CommandInfo command_info(const CLI::App& app) {
  CommandInfo info{app.get_name(), app.get_description(), app.get_footer(), {}, {}};
  for (const CLI::Option* option : app.get_options({})) {
    if (!option->get_group().empty()) info.flags.push_back(flag_info(*option));
  }
  for (const CLI::App* command : app.get_subcommands({})) {
    info.commands.push_back(command_info(*command));
  }
  return info;
}

}  // namespace

CommandInfo info_of(const CommandLine& command) { return command_info(command.app()); }

FlagValues values_of(const std::string& name) {
  static const std::map<std::string, FlagValues> known = {
      {"--topology", {"topologies", {}}},
      {"--policy", {"policies", {}}},
      {"--model", {"models", {}}},
      {"--trace", {"traces", {}}},
      {"SCENARIO", {"scenarios", {}}},
      {"--fidelity", {"", {"port", "flow", "simgrid", "analytic"}}},
      {"--pass", {"", {"forward", "forward+backward"}}},
      {"--memory", {"", {"check", "model", "ignore"}}},
      {"--routing", {"", {"recorded", "balanced"}}},
      {"--lossy", {"", {"never", "allow"}}},
      {"--format", {"", print_format_names}},
      {"SHELL", {"", {"bash", "zsh", "fish"}}}};
  const auto found = known.find(name);
  return found == known.end() ? FlagValues{} : found->second;
}

}  // namespace moesim
