// SPDX-License-Identifier: Apache-2.0
#include "sim/flags/man_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace moesim {
namespace {

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

}  // namespace

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

}  // namespace moesim
