// SPDX-License-Identifier: Apache-2.0
#include "sim/flags/command_info.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <vector>

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

/// Text in which roff finds no commands.
std::string roff(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '\\')
      safe += "\\e";
    else if (c == '-')
      safe += "\\-";
    else
      safe += c;
  }
  return safe.starts_with('.') || safe.starts_with('\'') ? "\\&" + safe : safe;
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

std::string flags_text(const CommandInfo& command) {
  std::string text;
  for (const FlagInfo& flag : command.flags) {
    text += fmt::format(
        ".TP\n\\fB{}\\fR{}\n{}\n", roff(fmt::format("{}", fmt::join(flag.names, ", "))),
        flag.takes_value && !flag.positional ? " \\fIVALUE\\fR" : "", roff(flag.description));
  }
  return text;
}

std::string commands_text(const CommandInfo& command, const std::string& before) {
  std::string text;
  for (const CommandInfo& below : command.commands) {
    const std::string name = before + " " + below.name;
    text += fmt::format(".SS {}\n{}\n{}", roff(name), roff(below.description), flags_text(below));
    text += commands_text(below, name);
  }
  return text;
}

/// Calls visit(path, command) for the program and all below; the path is " trace import".
void walk(const CommandInfo& command, const std::string& path,
          const std::function<void(const std::string&, const CommandInfo&)>& visit) {
  visit(path, command);
  for (const CommandInfo& below : command.commands) walk(below, path + " " + below.name, visit);
}

/// In single quotes of a shell.
std::string shell_word(const std::string& text) {
  std::string safe = "'";
  for (const char c : text) safe += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return safe + "'";
}

/// Words after which something is to be completed: of bash and zsh, which share the function's
/// body but for how it answers.
std::string words_of(const CommandInfo& command) {
  std::vector<std::string> words;
  for (const CommandInfo& below : command.commands) words.push_back(below.name);
  for (const FlagInfo& flag : command.flags) {
    if (!flag.positional) words.push_back(flag.names.back());
  }
  return fmt::format("{}", fmt::join(words, " "));
}

std::string values_text(const std::string& program, const FlagValues& values) {
  if (!values.section.empty()) {
    return fmt::format("$({} completion names {} 2>/dev/null)", program, values.section);
  }
  return fmt::format("{}", fmt::join(values.words, " "));
}

/// The function that sets $words_there to what may come next; empty: files.
std::string shell_function(const CommandInfo& program) {
  std::string paths, values, words;
  std::map<std::string, std::string> of_flag;
  walk(program, "", [&](const std::string& path, const CommandInfo& command) {
    if (!path.empty()) paths += fmt::format("{}{}", paths.empty() ? "" : "|", shell_word(path));
    std::string positional;
    for (const FlagInfo& flag : command.flags) {
      const FlagValues known = values_of(flag.names.back());
      const std::string text = values_text(program.name, known);
      if (flag.positional && !text.empty()) positional = " " + text;
      if (!flag.positional && flag.takes_value) of_flag[flag.names.back()] = text;
    }
    words += fmt::format("    {}) words_there=\"{}{}\" ;;\n", shell_word(path), words_of(command),
                         positional);
  });
  for (const auto& [flag, text] : of_flag) {
    values += fmt::format("    {}) words_there=\"{}\"; return ;;\n", flag, text);
  }
  return fmt::format(
      "# Sets words_there: what may follow the words $3 ...; $1 is the last of them, and $2 is\n"
      "# begun.\n"
      "_{0}_words() {{\n"
      "  local last=$1 begun=$2 route=''\n"
      "  shift 2\n"
      "  local word\n"
      "  for word in \"$@\"; do\n"
      "    case \"$route $word\" in {1}) route=\"$route $word\" ;; esac\n"
      "  done\n"
      "  words_there=''\n"
      "  case \"$last\" in\n{2}  esac\n"
      "  case \"$route\" in\n{3}  esac\n"
      "}}\n",
      program.name, paths, values, words);
}

std::string bash_script(const CommandInfo& program) {
  return fmt::format(
      "# bash completion for {0}: source <({0} completion bash)\n"
      "{1}"
      "_{0}() {{\n"
      "  local words_there begun=${{COMP_WORDS[COMP_CWORD]}}\n"
      "  _{0}_words \"${{COMP_WORDS[COMP_CWORD-1]}}\" \"$begun\" "
      "\"${{COMP_WORDS[@]:1:COMP_CWORD-1}}\"\n"
      "  COMPREPLY=($(compgen -W \"$words_there\" -- \"$begun\"))\n"
      "}}\n"
      "complete -o default -F _{0} {0}\n",
      program.name, shell_function(program));
}

std::string zsh_script(const CommandInfo& program) {
  return fmt::format(
      "#compdef {0}\n"
      "# zsh completion for {0}: source <({0} completion zsh)\n"
      "{1}"
      "_{0}() {{\n"
      "  local words_there\n"
      "  _{0}_words \"${{words[CURRENT-1]}}\" \"${{words[CURRENT]}}\" "
      "\"${{(@)words[2,CURRENT-1]}}\"\n"
      "  local -a there=(${{=words_there}})\n"
      "  (( $#there )) && compadd -- $there\n"
      "  _files\n"
      "}}\n"
      "compdef _{0} {0}\n",
      program.name, shell_function(program));
}

std::string fish_script(const CommandInfo& program) {
  std::string text =
      fmt::format("# fish completion for {0}: {0} completion fish | source\n", program.name);
  walk(program, "", [&](const std::string& path, const CommandInfo& command) {
    std::vector<std::string> below;
    for (const CommandInfo& c : command.commands) below.push_back(c.name);
    std::string seen = "__fish_use_subcommand";
    if (!path.empty()) seen = "__fish_seen_subcommand_from" + path.substr(path.rfind(' '));
    if (!path.empty() && !below.empty()) {
      seen += fmt::format("; and not __fish_seen_subcommand_from {}", fmt::join(below, " "));
    }
    const auto add = [&](const std::string& what) {
      text += fmt::format("complete -c {} -n {} {}\n", program.name, shell_word(seen), what);
    };
    for (const CommandInfo& c : command.commands) {
      add(fmt::format("-f -a {} -d {}", c.name, shell_word(c.description)));
    }
    for (const FlagInfo& flag : command.flags) {
      std::string values = values_text(program.name, values_of(flag.names.back()));
      if (values.starts_with("$(")) values.erase(0, 1);  // fish runs (commands)
      const std::string from = values.empty() ? "" : fmt::format(" -a {}", shell_word(values));
      if (flag.positional) {
        if (!values.empty()) add(from.substr(1));
        continue;
      }
      add(fmt::format("-l {}{}{} -d {}", flag.names.back().substr(2), flag.takes_value ? " -r" : "",
                      from, shell_word(flag.description)));
    }
  });
  return text;
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

std::string man_page(const CommandInfo& program, const std::string& version) {
  std::string description = program.description;
  std::ranges::replace(description, '\n', ' ');
  return fmt::format(
      ".TH {} 1 \"\" \"{} {}\" \"User Commands\"\n"
      ".SH NAME\n{} \\- {}\n"
      ".SH SYNOPSIS\n\\fB{}\\fR \\fICOMMAND\\fR [\\fIFLAG\\fR ...]\n"
      ".SH OPTIONS\n{}"
      ".SH COMMANDS\n{}"
      ".SH EXIT STATUS\n{}\n",
      upper(program.name), program.name, version, program.name, roff(description), program.name,
      flags_text(program), commands_text(program, program.name), roff(program.footer));
}

std::string completion_script(const CommandInfo& program, const std::string& shell) {
  if (shell == "zsh") return zsh_script(program);
  return shell == "fish" ? fish_script(program) : bash_script(program);
}

}  // namespace moesim
