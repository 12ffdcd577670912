// SPDX-License-Identifier: Apache-2.0
#include "sim/flags/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <sstream>
#include <type_traits>
#include <utility>

#include "sim/flags/usage.h"

namespace moesim {
namespace {

/// CLI11's, whose versions tell a value outside in other words.
template <class T>
CLI::Validator in_range(T least, T most) {
  const CLI::Range range(least, most);
  const auto check = [range, least, most](const std::string& value) {
    std::string read = value;
    if (range(read).empty()) return std::string();
    return fmt::format("Value {} not in range {} to {}", value, least, most);
  };
  return CLI::Validator(check, range.get_description());
}

/// Whole numbers are decimal, which CLI11 reads as octal where they begin with a zero.
std::string without_leading_zeros(std::string& value) {
  const std::size_t sign = value.starts_with('-') || value.starts_with('+') ? 1 : 0;
  const std::size_t digits = value.find_first_not_of("0123456789", sign);
  if (digits == std::string::npos) {
    const std::size_t first = std::min(value.find_first_not_of('0', sign), value.size() - 1);
    value.erase(sign, first - sign);
  }
  return "";
}

template <class T>
constexpr bool is_whole = std::is_integral_v<T> || std::is_same_v<T, std::optional<int>> ||
                          std::is_same_v<T, std::vector<int>>;

}  // namespace

Flag Flag::required() { return Flag(option_->required()); }

Flag Flag::range(int least, int most) { return Flag(option_->check(in_range(least, most))); }

Flag Flag::range(double least, double most) { return Flag(option_->check(in_range(least, most))); }

Flag Flag::one_of(const std::vector<std::string>& values) {
  return Flag(option_->check(CLI::IsMember(values)));
}

Flag Flag::separated_by(char separator) { return Flag(option_->delimiter(separator)); }

Flag Flag::one_value_each() { return Flag(option_->allow_extra_args(false)); }

Flag Flag::excludes(Flag other) { return Flag(option_->excludes(other.option_)); }

Flag Flag::from_environment(const std::string& variable) {
  return Flag(option_->envname(variable));
}

Flag Flag::hidden() { return Flag(option_->group("")); }

bool Flag::given() const { return option_->count() > 0; }

CommandLine::CommandLine(const std::string& program, const std::string& description)
    : app_(std::make_shared<CLI::App>(description)) {
  app_->name(program);
  app_->formatter(help_format());
}

CommandLine CommandLine::add_subcommand(const std::string& name, const std::string& description) {
  return CommandLine({app_, app_->add_subcommand(name, description)});
}

template <FlagValue T>
Flag CommandLine::add_option(const std::string& names, T& value, const std::string& description) {
  CLI::Option* option = app_->add_option(names, value, description);
  if constexpr (is_whole<T>) option->transform(CLI::Validator(without_leading_zeros, ""));
  return Flag(option);
}

template Flag CommandLine::add_option(const std::string&, std::string&, const std::string&);
template Flag CommandLine::add_option(const std::string&, int&, const std::string&);
template Flag CommandLine::add_option(const std::string&, std::int64_t&, const std::string&);
template Flag CommandLine::add_option(const std::string&, std::uint64_t&, const std::string&);
template Flag CommandLine::add_option(const std::string&, double&, const std::string&);
template Flag CommandLine::add_option(const std::string&, std::optional<int>&, const std::string&);
template Flag CommandLine::add_option(const std::string&, std::vector<int>&, const std::string&);
template Flag CommandLine::add_option(const std::string&, std::vector<std::string>&,
                                      const std::string&);

Flag CommandLine::add_option(const std::string& names, std::function<void(const std::string&)> keep,
                             const std::string& description) {
  return Flag(app_->add_option_function<std::string>(names, std::move(keep), description));
}

Flag CommandLine::add_flag(const std::string& names, bool& value, const std::string& description) {
  return Flag(app_->add_flag(names, value, description));
}

Flag CommandLine::add_flag(const std::string& names, std::function<void()> note,
                           const std::string& description) {
  const auto told = [note = std::move(note)](std::int64_t) { note(); };
  return Flag(app_->add_flag_function(names, told, description));
}

void CommandLine::callback(std::function<void()> action) { app_->callback(std::move(action)); }

void CommandLine::group(const std::string& title) { app_->option_defaults()->group(title); }

std::string CommandLine::name() const { return app_->get_name(); }

void CommandLine::version(const std::string& text) { app_->set_version_flag("-V,--version", text); }

void CommandLine::footer(const std::string& text) { app_->footer(text); }

void CommandLine::require_subcommand() { app_->require_subcommand(1); }

void CommandLine::pass_over_others() {
  app_->set_help_flag();
  app_->allow_extras();
}

void CommandLine::show_defaults() { app_->option_defaults()->always_capture_default(); }

std::vector<CommandLine> CommandLine::subcommands() const {
  std::vector<CommandLine> commands;
  for (CLI::App* app : app_->get_subcommands({})) commands.push_back(CommandLine({app_, app}));
  return commands;
}

bool CommandLine::got_subcommand(const std::string& name) const {
  return app_->got_subcommand(name);
}

std::vector<Flag> CommandLine::flags() const {
  std::vector<Flag> flags;
  for (CLI::Option* option : app_->get_options({})) {
    if (option != app_->get_help_ptr()) flags.emplace_back(option);
  }
  return flags;
}

Flag CommandLine::flag(const std::string& name) const { return Flag(app_->get_option(name)); }

std::string CommandLine::parse(int argc, char** argv) {
  std::ostringstream text;
  std::vector<std::string> words(argv + 1, argv + argc);
  const bool help = !words.empty() && words.front() == "help" && !subcommands().empty();
  if (help) {  // "help compare" is "compare --help"
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  std::ranges::reverse(words);  // as CLI11 takes them
  try {
    app_->parse(words);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() != 0) throw usage_error(*app_, e);
    app_->exit(e, text);
  }
  return text.str();
}

}  // namespace moesim
