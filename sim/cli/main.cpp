// SPDX-License-Identifier: Apache-2.0
// moesim: which MoE placement and communication policy is fastest on this cluster, and why.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "sim/base/error.h"
#include "sim/cli/commands.h"
#include "sim/cli/version.h"

namespace {

constexpr int run_failed = 1;
constexpr int bad_input = 2;

/// The innermost subcommand that was given, and its name as the user wrote it.
const CLI::App* innermost(const CLI::App* app, std::string& name) {
  name = "moesim";
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
    name += " " + app->get_name();
  }
  return app;
}

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands({})) commands.push_back(command->get_name());
  return commands;
}

/// What CLI11 says, in our words where they are plainer.
std::string complaint(const CLI::App& command, const CLI::ParseError& e) {
  std::string text = e.what();
  const std::string flag = text.substr(0, text.find_first_of(": "));
  const CLI::Option* option = command.get_option_no_throw(flag);
  if (e.get_name() != "ArgumentMismatch" || option == nullptr) return text;
  return fmt::format("{} {}", flag,
                     option->count() > 1 ? "is there more than once" : "needs a value");
}

/// A flag before the command that it belongs to.
moesim::Error misplaced(const std::string& command, const std::vector<std::string>& words) {
  const auto flag = std::find_if(words.begin(), words.end(),
                                 [](const std::string& word) { return word.starts_with('-'); });
  return moesim::Error(
      fmt::format("'{}' stands before the command", flag == words.end() ? words.front() : *flag),
      fmt::format("flags follow it: {} --flag value", command));
}

/// A wrong command line, with what was probably meant.
moesim::Error usage_error(const CLI::App& app, const CLI::ParseError& e) {
  std::string name;
  const CLI::App* command = innermost(&app, name);
  const std::vector<std::string> commands = commands_of(*command);
  const std::vector<std::string> extras = command->remaining();
  const std::string help = fmt::format("{} --help tells more", name);
  const std::vector<std::string> before = app.remaining();
  if (extras.empty() && !before.empty()) return misplaced(name, before);
  if (extras.empty()) {
    const bool choose = e.get_name() == "RequiredError" && !commands.empty();
    return choose ? moesim::Error(fmt::format("{} needs a command", name),
                                  fmt::format("one of {}", fmt::join(commands, ", ")))
                  : moesim::Error(fmt::format("{}: {}", name, complaint(*command, e)), help);
  }
  const std::string& word = extras.front();
  if (word.starts_with('-')) {
    const std::string flag = word.substr(0, word.find('='));
    const std::string close = moesim::nearest(flag, flags_of(*command));
    return moesim::Error(fmt::format("{} has no flag '{}'", name, flag),
                         close.empty() ? help : fmt::format("did you mean '{}'?", close));
  }
  return commands.empty()
             ? moesim::Error(fmt::format("{}: '{}' is one argument too many", name, word), help)
             : moesim::Error(fmt::format("{} has no command '{}'", name, word),
                             moesim::did_you_mean(word, commands));
}

int run(int argc, char** argv) {
  CLI::App app{
      "Simulates mixture-of-experts placement and communication policies on GPU clusters,\n"
      "replaying recorded routing traces."};
  app.name("moesim");
  app.set_version_flag("--version", std::string("moesim ") + MOESIM_VERSION);
  app.require_subcommand(1);
  app.footer("Exit codes: 0 done, 1 the run failed, 2 bad input.");
  moesim::add_run_command(app);
  moesim::add_compare_command(app);
  moesim::add_plan_command(app);
  moesim::add_explain_command(app);
  moesim::add_list_command(app);
  moesim::add_topology_command(app);
  moesim::add_trace_command(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() != 0) throw usage_error(app, e);
    app.exit(e);  // prints the help or the version
  }
  if (std::fflush(stdout) != 0) {
    throw std::runtime_error(fmt::format("cannot write the output: {}", std::strerror(errno)));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const moesim::Error& e) {
    fmt::print(stderr, "{}", e.what());
    return bad_input;
  } catch (const std::exception& e) {
    fmt::print(stderr, "moesim: the run failed: {}\n", e.what());
    return run_failed;
  }
}
