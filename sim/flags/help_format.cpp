// SPDX-License-Identifier: Apache-2.0
#include "sim/flags/help_format.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <string>

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

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_format() { return std::make_shared<HelpFormat>(); }

}  // namespace moesim
