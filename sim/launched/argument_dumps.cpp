// SPDX-License-Identifier: Apache-2.0
#include "sim/launched/argument_dumps.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "sim/base/plain_line.h"
#include "sim/base/text.h"
#include "sim/base/yaml.h"

namespace moesim {
namespace {

constexpr std::size_t most_items = 10'000;

class PythonReader {
 public:
  explicit PythonReader(std::string_view text) : rest_(text) {}

  std::vector<PythonItem> all() {
    mapping("", 0);
    return std::move(items_);
  }

 private:
  void skip_blanks() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size()));
  }

  bool take(std::string_view signs) {
    skip_blanks();
    if (rest_.empty() || signs.find(rest_[0]) == signs.npos) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool at(std::string_view signs) {
    skip_blanks();
    return !rest_.empty() && signs.find(rest_[0]) != signs.npos;
  }

  /// From its bracket to the one that closes it.
  void mapping(const std::string& of, int depth) {
    if (!take("{(") || depth > max_nesting) return;
    while (items_.size() < most_items && !rest_.empty() && !take("})")) {
      const std::string name = scalar("=:,})");
      if (take("=:")) value(of.empty() ? name : of + "." + name, depth);
      if (!take(",") && !at("})")) break;
    }
  }

  void value(const std::string& name, int depth) {
    if (at("{")) return mapping(name, depth + 1);
    if (!at("[(")) {
      std::string text = scalar(",})");
      items_.push_back({name, {std::move(text)}});
      return;
    }
    take("[(");
    PythonItem item{name, {}};
    while (!rest_.empty() && !take("])")) {
      if (item.values.size() < most_items) item.values.push_back(scalar(",])"));
      if (!take(",") && !at("])")) break;
    }
    items_.push_back(std::move(item));
  }

  /// Up to one of the signs outside of quotes and brackets.
  std::string scalar(std::string_view signs) {
    skip_blanks();
    if (at("'\"")) return quoted();
    int depth = 0;
    std::size_t end = 0;
    for (; end < rest_.size(); ++end) {
      const char c = rest_[end];
      if (depth == 0 && signs.find(c) != signs.npos) break;
      if (std::string_view("([{").find(c) != std::string_view::npos) ++depth;
      if (std::string_view(")]}").find(c) != std::string_view::npos) --depth;
      if (c == '\n') break;
    }
    std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end);
    text = text.substr(0, text.find_last_not_of(" \t\r") + 1);
    return std::string(text);
  }

  std::string quoted() {
    const char quote = rest_[0];
    std::string text;
    std::size_t at = 1;
    for (; at < rest_.size() && rest_[at] != quote; ++at) {
      if (rest_[at] == '\\' && at + 1 < rest_.size()) ++at;
      text += rest_[at];
    }
    rest_.remove_prefix(std::min(at + 1, rest_.size()));
    return text;
  }

  std::string_view rest_;
  std::vector<PythonItem> items_;
};

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// None and False are what a program has if nobody says anything.
bool says_nothing(const std::string& value) {
  return value == "None" || value == "False" || value == "null" || value == "false" ||
         value.empty() || value == "[]" || value == "~";
}

/// Adds a value as a flag of that value would be: True is a switch.
void add_value(const std::string& name, std::vector<std::string> values, int line,
               NamedArguments& into) {
  NamedArgument argument{argument_name(name), std::move(values), line, ""};
  argument.written = name + ": " + argument.text();
  if (std::ranges::all_of(argument.values, says_nothing)) {
    // Of a switch that is on by default, false says something.
    const bool off =
        argument.values.size() == 1 && (argument.text() == "False" || argument.text() == "false");
    if (!off) return;
    argument.values = {"false"};
  } else if (argument.values.size() == 1 &&
             (argument.values[0] == "True" || argument.values[0] == "true")) {
    argument.values.clear();
  }
  into.add(std::move(argument));
}

/// The line of a place in a text, from 1.
int line_at(const std::string& text, std::size_t at) {
  return 1 + static_cast<int>(
                 std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

/// "  name ....... value" with whatever is before it; false if the line is another.
bool take_dump_line(const std::string& line, int number, NamedArguments& into) {
  std::size_t dots = line.find(" ...");
  std::size_t value = dots == line.npos ? dots : line.find_first_not_of('.', dots + 1);
  if (dots == line.npos) {  // a name that leaves no room for dots
    dots = line.find("  ", std::min(line.find_first_not_of(" \t"), line.size()));
    value = dots;
  }
  if (value == line.npos || value + 1 > line.size() || dots == 0) return false;
  std::size_t begin = dots;
  while (begin > 0 && is_name_character(line[begin - 1])) --begin;
  if (begin == dots) return false;
  std::string text = line.substr(std::min(line.find_first_not_of(' ', value), line.size()));
  text = text.substr(0, text.find_last_not_of(" \t\r") + 1);
  const std::string name = line.substr(begin, dots - begin);
  std::vector<std::string> values = {text};
  if (text.starts_with('[')) {
    const auto items = python_items("(list=" + text + ")");
    if (!items.empty()) values = items.front().values;
  }
  add_value(name, std::move(values), number, into);
  return true;
}

void add_node(const YamlValue& value, const std::string& name, bool last_only, int first_line,
              NamedArguments& into) {
  if (value.is_map()) {
    const YamlMap map = value.map();
    for (const std::string& key : map.keys()) {
      if (const auto member = map.find(key)) {
        const std::string full = last_only || name.empty() ? key : name + "." + argument_name(key);
        add_node(*member, full, last_only, first_line, into);
      }
    }
    return;
  }
  std::vector<std::string> values;
  if (value.is_list()) {
    for (const YamlValue& item : value.list()) {
      if (item.is_scalar()) values.push_back(item.string());
    }
  } else if (value.is_scalar()) {
    values.push_back(value.string());
  }
  if (!name.empty()) add_value(name, values, value.line() + first_line - 1, into);
}

}  // namespace

std::vector<PythonItem> python_items(std::string_view text) { return PythonReader(text).all(); }

std::optional<NamedArguments> megatron_dump(const std::string& text, const std::string& file) {
  NamedArguments dump(file, text);
  std::istringstream lines(text);
  int number = 0;
  bool inside = false, any = false;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line = plain_line(line);
    if (line.find("end of arguments ---") != line.npos) {
      if (any) break;
    } else if (line.find("- arguments ---") != line.npos) {
      inside = true;
    } else if (inside) {
      any = take_dump_line(line, number, dump) || any;
    }
  }
  if (!any) return std::nullopt;
  return dump;
}

std::optional<NamedArguments> python_dump(const std::string& text, const std::string& mark,
                                          const std::string& file) {
  const std::size_t at = text.find(mark);
  if (at == text.npos) return std::nullopt;
  const std::size_t open = text.find_first_of("({", at + mark.size());
  if (open == text.npos) return std::nullopt;
  NamedArguments dump(file, text);
  const int line = line_at(text, open);
  for (const PythonItem& item : python_items(std::string_view(text).substr(open))) {
    add_value(item.name, item.values, line, dump);
  }
  return dump;
}

void add_members(std::string_view value, const NamedArgument& of, NamedArguments& into) {
  for (const PythonItem& item : python_items(value)) {
    add_value(of.name + "." + argument_name(item.name), item.values, of.line, into);
  }
}

void add_yaml(const std::string& text, const std::string& file, bool last_only, int first_line,
              NamedArguments& into) {
  const auto document = YamlDocument::from_text(text, file);
  add_node(document->root(), "", last_only, first_line, into);
}

}  // namespace moesim
