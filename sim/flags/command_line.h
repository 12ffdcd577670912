// SPDX-License-Identifier: Apache-2.0
// What may be on a program's command line. CLI11 does the work; its header takes seconds to
// compile, so only sim/flags includes it.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace moesim {

/// An option, a flag or a positional argument of a command; a copy is the same one.
class Flag {
 public:
  explicit Flag(CLI::Option* option) : option_(option) {}

  Flag required();
  Flag range(int least, int most);
  Flag range(double least, double most);
  Flag one_of(const std::vector<std::string>& values);
  /// For a list: one value may hold several, as in 1,2,3.
  Flag separated_by(char separator);
  /// For a list: one value follows each occurrence of the flag, not as many as there are.
  Flag one_value_each();
  /// May not be given with the other one.
  Flag excludes(Flag other);
  /// The variable that says the value if the command line does not.
  Flag from_environment(const std::string& variable);
  /// The help does not show it.
  Flag hidden();

  bool given() const;

 private:
  CLI::Option* option_;
};

/// Types that the text of an option is read as.
template <class T>
concept FlagValue = std::same_as<T, std::string> || std::same_as<T, int> ||
    std::same_as<T, std::int64_t> || std::same_as<T, std::uint64_t> || std::same_as<T, double> ||
    std::same_as<T, std::optional<int>> || std::same_as<T, std::vector<int>> ||
    std::same_as<T, std::vector<std::string>>;

/// A program or one of its commands; a copy is the same one. Values and callbacks outlive it.
class CommandLine {
 public:
  CommandLine(const std::string& program, const std::string& description);

  CommandLine add_subcommand(const std::string& name, const std::string& description);
  /// An option with a value: "-o,--output", or a positional argument: "OUTPUT".
  template <FlagValue T>
  Flag add_option(const std::string& names, T& value, const std::string& description);
  /// An option whose value goes to `keep`, which may throw Error.
  Flag add_option(const std::string& names, std::function<void(const std::string&)> keep,
                  const std::string& description);
  Flag add_flag(const std::string& names, bool& value, const std::string& description);
  /// A flag whose presence is passed to `note`.
  Flag add_flag(const std::string& names, std::function<void()> note,
                const std::string& description);
  /// What the command does once everything is read; may throw Error. It may refer to the program,
  /// but not hold a copy, which would keep itself.
  void callback(std::function<void()> action);

  /// Options that are added from here on are under this title in the help; by default "Options".
  void group(const std::string& title);
  void version(const std::string& text);
  void footer(const std::string& text);
  void require_subcommand();
  /// Passes over words that it does not know, --help among them.
  void pass_over_others();
  /// The help shows the defaults of options that are added from here on.
  void show_defaults();

  const CLI::App& app() const { return *app_; }
  std::string name() const;
  std::vector<CommandLine> subcommands() const;
  bool got_subcommand(const std::string& name) const;
  /// All but --help.
  std::vector<Flag> flags() const;
  Flag flag(const std::string& name) const;

  /// Reads the words and runs the callbacks of the commands that they name. Returns the text of
  /// --help or --version instead if that is asked for. Throws Error for a wrong command line with
  /// what was probably meant.
  std::string parse(int argc, char** argv);

 private:
  explicit CommandLine(std::shared_ptr<CLI::App> app) : app_(std::move(app)) {}

  std::shared_ptr<CLI::App> app_;
};

}  // namespace moesim
