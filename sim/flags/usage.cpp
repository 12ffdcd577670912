// SPDX-License-Identifier: Apache-2.0
#include "sim/flags/usage.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <sstream>
#include <string>
#include <string_view>

#include "sim/print/terminal.h"

namespace moesim {
namespace {

constexpr std::size_t names_width = 30, widest = 100;

/// CLI11's, but that descriptions are wrapped.
class HelpFormat : public CLI::Formatter {
 public:
  HelpFormat() {
    const int terminal = terminal_width(stdout);
    if (terminal > 0) width_ = std::min(widest, static_cast<std::size_t>(terminal));
  }

  std::string make_option(const CLI::Option* option, bool positional) const override {
    return entry(make_option_name(option, positional) + make_option_opts(option),
                 make_option_desc(option));
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return entry(command->get_name(), command->get_description());
  }

 private:
  std::string entry(const std::string& names, const std::string& description) const {
    std::string text = " ", word;
    for (std::istringstream parts(names); parts >> word;) {
      if (line_size(text) + 1 + word.size() > width_) text += "\n     ";
      text += " " + word;
    }
    if (line_size(text) != text.size() || text.size() + 2 > names_width) text += "\n";
    text += std::string(names_width - std::min(names_width, line_size(text)), ' ');
    for (std::istringstream words(description); words >> word;) {
      if (line_size(text) > names_width && line_size(text) + 1 + word.size() > width_) {
        text += "\n" + std::string(names_width, ' ');
      } else if (line_size(text) > names_width) {
        text += " ";
      }
      text += word;
    }
    return text + "\n";
  }
  /// Size of the last line.
  static std::size_t line_size(const std::string& text) {
    const std::size_t end = text.rfind('\n');
    return text.size() - (end == std::string::npos ? 0 : end + 1);
  }

  std::size_t width_ = widest;
};

/// The innermost subcommand that was given, and its name as the user wrote it.
const CLI::App* innermost(const CLI::App* app, std::string& name) {
  name = app->get_name();
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

/// Of CLI11's "Could not convert: --flag = value"; the same text for a flag without a known type.
std::string unconverted(const CLI::App& command, const std::string& text) {
  const std::size_t colon = text.find(": "), equals = text.find(" = ");
  if (colon == std::string::npos || equals == std::string::npos) return text;
  const std::string flag = text.substr(colon + 2, equals - colon - 2);
  const CLI::Option* option = command.get_option_no_throw(flag);
  const std::string type = option == nullptr ? "" : option->get_type_name();
  const bool whole = type.starts_with("INT") || type.starts_with("UINT");
  if (!whole && !type.starts_with("FLOAT")) return text;
  return fmt::format("{}: '{}' is not a {}number", flag, text.substr(equals + 3),
                     whole ? "whole " : "");
}

/// What CLI11 says, in our words if they are plainer.
std::string complaint(const CLI::App& command, const CLI::ParseError& e) {
  std::string text = e.what();
  if (e.get_name() == "ConversionError") return unconverted(command, text);
  const std::string flag = text.substr(0, text.find_first_of(": "));
  const CLI::Option* option = command.get_option_no_throw(flag);
  if (e.get_name() != "ArgumentMismatch" || option == nullptr) return text;
  return fmt::format("{} {}", flag,
                     option->count() > 1 ? "is there more than once" : "needs a value");
}

/// A flag before the command that it belongs to.
Error misplaced(const std::string& command, const std::vector<std::string>& words) {
  const auto flag = std::find_if(words.begin(), words.end(),
                                 [](const std::string& word) { return word.starts_with('-'); });
  return Error(
      fmt::format("'{}' stands before the command", flag == words.end() ? words.front() : *flag),
      fmt::format("flags follow it: {} --flag value", command));
}

/// Keys that are often taken for flags.
struct KeyOfFlag {
  std::string_view flag, key;
};
constexpr std::array keys_of_flags = {KeyOfFlag{"--nodes", "topology.nodes=N"},
                                      KeyOfFlag{"--num-nodes", "topology.nodes=N"},
                                      KeyOfFlag{"--gpus-per-node", "topology.node.gpus=N"},
                                      KeyOfFlag{"--gpu", "topology.node.gpu=NAME"},
                                      KeyOfFlag{"--hidden", "model.hidden=N"},
                                      KeyOfFlag{"--experts", "model.experts=N"},
                                      KeyOfFlag{"--top-k", "model.top_k=N"}};

/// Megatron-LM's names of what has another name here.
struct FlagOfMegatron {
  std::string_view theirs, ours;
};
constexpr std::array flags_of_megatron = {
    FlagOfMegatron{"--tensor-model-parallel-size", "--tp"},
    FlagOfMegatron{"--pipeline-model-parallel-size", "--pp"},
    FlagOfMegatron{"--context-parallel-size", "--cp"},
    FlagOfMegatron{"--expert-model-parallel-size", "--ep"},
    FlagOfMegatron{"--expert-tensor-parallel-size", "--etp"},
    FlagOfMegatron{"--num-virtual-stages-per-pipeline-rank", "--vpp"},
    FlagOfMegatron{"--micro-batch-size", "--micro-batch"},
    FlagOfMegatron{"--global-batch-size", "--global-batch"},
    FlagOfMegatron{"--seq-length", "--sequence"}};

/// What to write in place of a flag that a command lacks; else `help`.
std::string instead_of(const std::string& flag, const std::vector<std::string>& flags,
                       const std::string& help) {
  const bool sets = std::ranges::find(flags, "--set") != flags.end();
  if (sets && flag.starts_with("--") && flag.find('.') != std::string::npos) {
    return fmt::format("keys of files are changed by --set {}=VALUE", flag.substr(2));
  }
  const auto key = std::ranges::find(keys_of_flags, flag, &KeyOfFlag::flag);
  if (sets && key != keys_of_flags.end()) return fmt::format("--set {} changes it", key->key);
  const auto megatron = std::ranges::find(flags_of_megatron, flag, &FlagOfMegatron::theirs);
  const bool named = megatron != flags_of_megatron.end() &&
                     std::ranges::find(flags, megatron->ours) != flags.end();
  const std::string close = named ? std::string(megatron->ours) : nearest(flag, flags);
  return close.empty() ? help : fmt::format("did you mean '{}'?", close);
}

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_format() { return std::make_shared<HelpFormat>(); }

Error usage_error(const CLI::App& app, const CLI::ParseError& e) {
  std::string name;
  const CLI::App* command = innermost(&app, name);
  const std::vector<std::string> commands = commands_of(*command);
  const std::vector<std::string> extras = command->remaining();
  const std::string help = fmt::format("{} --help tells more", name);
  const std::vector<std::string> before = app.remaining();
  if (extras.empty() && !before.empty()) return misplaced(name, before);
  if (extras.empty()) {
    const bool choose = e.get_name() == "RequiredError" && !commands.empty();
    return choose ? Error(fmt::format("{} needs a command", name),
                          fmt::format("one of {}", fmt::join(commands, ", ")))
                  : Error(fmt::format("{}: {}", name, complaint(*command, e)), help);
  }
  const std::string& word = extras.front();
  if (word.starts_with('-')) {
    const std::string flag = word.substr(0, word.find('='));
    return Error(fmt::format("{} has no flag '{}'", name, flag),
                 instead_of(flag, flags_of(*command), help));
  }
  return commands.empty()
             ? Error(fmt::format("{}: '{}' is one argument too many", name, word), help)
             : Error(fmt::format("{} has no command '{}'", name, word),
                     did_you_mean(word, commands));
}

}  // namespace moesim
