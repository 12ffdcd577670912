// SPDX-License-Identifier: Apache-2.0
#include "sim/launched/options_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "sim/base/files.h"
#include "sim/launched/argument_dumps.h"
#include "sim/launched/argument_table.h"
#include "sim/launched/shell_lexer.h"

namespace moesim {
namespace {

/// "<(printf '%s\\n' 'a: b' 'c: d')": the lines that the shell writes.
std::optional<std::string> printed_lines(const NamedArgument& argument, const std::string& file) {
  const std::string text = argument.text();
  if (!text.starts_with("<(") || !text.ends_with(')')) return std::nullopt;
  LinedText inside;
  inside.add(std::string_view(text).substr(2, text.size() - 3), argument.line);
  const auto commands = raw_commands(inside, file);
  const bool prints = !commands.empty() && commands[0].words.size() > 1 &&
                      commands[0].words[0].text == "printf" &&
                      commands[0].words[1].text.find("%s") != std::string::npos;
  if (!prints) return std::nullopt;
  std::string lines;
  for (std::size_t i = 2; i < commands[0].words.size(); ++i) {
    lines += expanded_text(commands[0].words[i], {}, file).text + "\n";
  }
  return lines;
}

/// All on the line of the argument that names them, or from `first` on.
NamedArguments from_yaml_text(const std::string& text, const std::string& file, int first) {
  NamedArguments options(file, "");
  add_yaml(text, file, false, first, options);
  return options;
}

}  // namespace

NamedArguments options_of(const LaunchFile& launch, const NamedArgument& argument) {
  const std::string& file = launch.arguments.file();
  if (const auto printed = printed_lines(argument, file)) {
    return from_yaml_text(*printed, file, argument.line);
  }
  require_known(launch, argument);
  std::string name = argument.text();
  if (name.starts_with("./")) name.erase(0, 2);
  const auto document = launch.script.documents.find(name);
  if (document != launch.script.documents.end()) {
    const LinedText& here = document->second;
    const std::string text = expanded_text(here, launch.script.variables, file).text;
    return from_yaml_text(text, file, here.line());
  }
  // A script may come from anybody: of what it names only files next to it are opened.
  const auto folder = std::filesystem::path(file).parent_path();
  const auto next_to = (folder / std::filesystem::path(name).filename()).string();
  if (!is_there(next_to)) {
    throw launch.arguments.error(argument, fmt::format("there is no file '{}'", next_to),
                                 "its options change the launch: put it next to this file");
  }
  NamedArguments options = from_yaml_text(read_file(next_to), next_to, 1);
  NamedArguments placed(file, "");
  for (NamedArgument option : options.all()) {
    option.file = next_to;
    placed.add(std::move(option));
  }
  return placed;
}

}  // namespace moesim
