// SPDX-License-Identifier: Apache-2.0
#include "sim/launched/shell_expansion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/read_number.h"
#include "sim/launched/shell_evaluation.h"
#include "sim/launched/shell_lexer.h"

namespace moesim {
namespace {

constexpr std::size_t longest_word = 1U << 20;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/// What an expansion stands for; none: not known. A list is several fields even in quotes.
struct Expansion {
  std::optional<std::vector<LinedText>> items;
  bool list = false;
};

/// "${NAME[@]:-default}" in its parts.
struct Parameter {
  std::string name, index, sign;
  LinedText operand;
};

Parameter parameter_in(const LinedText& inside) {
  const std::string& text = inside.text;
  Parameter parameter;
  std::size_t at = shell_name_length(text);
  if (at == 0 && !text.empty()) at = 1;  // $1, $@
  parameter.name = text.substr(0, at);
  if (at < text.size() && text[at] == '[') {
    const std::size_t close = std::min(text.find(']', at), text.size() - 1);
    parameter.index = text.substr(at + 1, close - at - 1);
    at = close + 1;
  }
  if (at < text.size() && text[at] == ':' && at + 1 < text.size()) {
    const bool known = std::string_view("-=+?").find(text[at + 1]) != std::string_view::npos;
    parameter.sign = text.substr(at, known ? 2 : 1);
  } else if (at < text.size()) {
    parameter.sign = text.substr(at, 1);
  }
  parameter.operand = inside.part(at + parameter.sign.size(), text.size());
  return parameter;
}

class Expander {
 public:
  Expander(const LinedText& word, const ShellVariables& variables, const std::string& file)
      : word_(word), variables_(variables), file_(file) {}

  std::vector<LinedText> fields(bool split) {
    const std::string& text = word_.text;
    for (std::size_t at = 0; at < text.size();) {
      const char c = text[at];
      if (c == '\'' && !quoted_) {
        const std::size_t end = std::min(text.find('\'', at + 1), text.size());
        add(word_.part(at + 1, end));
        at = end + 1;
      } else if (c == '"') {
        quoted_ = !quoted_;
        any_ = any_ || quoted_;
        ++at;
      } else if (c == '\\' && at + 1 < text.size()) {
        const bool escapes =
            !quoted_ || std::string_view("$`\"\\\n").find(text[at + 1]) != std::string_view::npos;
        if (!escapes) add(word_.part(at, at + 1));
        if (text[at + 1] != '\n') add(word_.part(at + 1, at + 2));
        at += 2;
      } else if (c == '$' || c == '`') {
        at = take_expansion(at, split);
      } else if (!quoted_ && (c == '<' || c == '>') && text.compare(at + 1, 1, "(") == 0) {
        const std::size_t end = std::min(end_of_nested(text, at + 1), text.size());
        add(word_.part(at, end));  // what a command prints
        at = end;
      } else {
        add(word_.part(at, at + 1));
        ++at;
      }
    }
    end_field();
    return std::move(fields_);
  }

 private:
  void add(const LinedText& part) {
    if (field_.text.size() + part.text.size() > longest_word) {
      throw error_in(file_, "a word of this line grows longer than 1 MiB", "", word_.line());
    }
    field_.add(part);
    any_ = true;
  }

  void end_field() {
    if (any_) fields_.push_back(std::exchange(field_, {}));
    any_ = false;
  }

  void add_split(const LinedText& value) {
    for (std::size_t i = 0; i < value.text.size(); ++i) {
      if (is_space(value.text[i])) {
        end_field();
      } else {
        add(value.part(i, i + 1));
      }
    }
  }

  std::size_t take_expansion(std::size_t at, bool split) {
    const auto [end, expansion] = expansion_at(at);
    if (!expansion.items) {
      add(word_.part(at, end));
      return end;
    }
    // An empty array is no word, even in quotes.
    if (expansion.list && expansion.items->empty() && field_.text.empty()) any_ = false;
    bool first = true;
    for (const LinedText& item : *expansion.items) {
      if (!std::exchange(first, false)) {
        if (split && (expansion.list || !quoted_)) {
          end_field();
        } else {
          add(LinedText{" ", {item.line()}, false});
        }
      }
      if (quoted_ || !split || has_unknown(item.text)) {
        add(item);
      } else {
        add_split(item);
      }
    }
    return end;
  }

  /// The end of the expansion, and what it is.
  std::pair<std::size_t, Expansion> expansion_at(std::size_t at) {
    const std::string& text = word_.text;
    if (text[at] == '`' || text.compare(at, 2, "$(") == 0) {
      const std::size_t end = std::min(end_of_nested(text, at), text.size());
      const bool sum = text.compare(at, 3, "$((") == 0 && end >= at + 5;
      return {end, sum ? number(word_.part(at + 3, end - 2)) : Expansion{}};
    }
    if (text.compare(at, 2, "${") == 0) {
      const std::size_t end = std::min(end_of_nested(text, at), text.size());
      return {end, parameter(word_.part(at + 2, std::max(end - 1, at + 2)))};
    }
    std::size_t length = shell_name_length(std::string_view(text).substr(at + 1));
    const char next = at + 1 < text.size() ? text[at + 1] : '\0';
    if (length == 0 && (std::isdigit(static_cast<unsigned char>(next)) != 0 || next == '@' ||
                        next == '*' || next == '#' || next == '?' || next == '$')) {
      length = 1;
    }
    if (length == 0) return {at + 1, {std::vector{word_.part(at, at + 1)}}};
    return {at + 1 + length, parameter(word_.part(at + 1, at + 1 + length))};
  }

  Expansion number(const LinedText& inside) {
    std::string text = expanded_text(inside, variables_, file_).text;
    // Names need no dollar here.
    std::string plain;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = shell_name_length(std::string_view(text).substr(at));
      const auto found = variables_.find(text.substr(at, length));
      if (length > 0 && found != variables_.end() && found->second.items.size() == 1) {
        plain += found->second.items[0].text;
        at += length;
      } else {
        plain += text[at++];
      }
    }
    const auto value = shell_arithmetic(plain);
    if (!value) return {};
    LinedText digits;
    digits.add(std::to_string(*value), inside.line());
    return {std::vector{digits}};
  }

  Expansion parameter(const LinedText& inside) {
    if (inside.text.starts_with('#') && inside.text.size() > 1) return count(inside);
    const Parameter p = parameter_in(inside);
    const auto found = variables_.find(p.name);
    const bool set = found != variables_.end();
    if (set && !found->second.undecided.empty()) return {};
    const bool all = p.index == "@" || p.index == "*";
    std::vector<LinedText> items;
    if (set) items = found->second.items;
    if (set && !all && !p.index.empty()) {
      const auto index = parse_integer<std::size_t>(p.index);
      if (!index) return {};
      items = *index < items.size() ? std::vector{items[*index]} : std::vector<LinedText>();
    } else if (set && !all && items.size() > 1) {
      items.resize(1);  // $ARRAY is its first item
    }
    const bool filled = std::ranges::any_of(items, [](const auto& i) { return !i.text.empty(); });
    const bool there = p.sign.starts_with(':') ? filled : set;
    const std::string sign = p.sign.starts_with(':') ? p.sign.substr(1) : p.sign;
    if (p.sign == ":") return {};  // a part of the text
    if (sign == "+") return there ? operand(p) : Expansion{std::vector<LinedText>()};
    if (sign == "-" || sign == "=") return there ? Expansion{items, p.index == "@"} : operand(p);
    if (!sign.empty() && sign != "?") return {};
    return set ? Expansion{items, p.index == "@"} : Expansion{};
  }

  Expansion operand(const Parameter& p) {
    return {std::vector{expanded_text(p.operand, variables_, file_)}};
  }

  Expansion count(const LinedText& inside) {
    const Parameter p = parameter_in(inside.part(1, inside.text.size()));
    const auto found = variables_.find(p.name);
    if (found == variables_.end() || !found->second.undecided.empty()) return {};
    const std::vector<LinedText>& items = found->second.items;
    const std::size_t length = items.empty() ? 0 : items[0].text.size();
    LinedText digits;
    digits.add(std::to_string(p.index == "@" ? items.size() : length), inside.line());
    return {std::vector{digits}};
  }

  const LinedText& word_;
  const ShellVariables& variables_;
  const std::string& file_;
  bool quoted_ = false, any_ = false;
  LinedText field_;
  std::vector<LinedText> fields_;
};

}  // namespace

std::size_t shell_name_length(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size() &&
         (text[length] == '_' || std::isalpha(static_cast<unsigned char>(text[length])) != 0 ||
          (length > 0 && std::isdigit(static_cast<unsigned char>(text[length])) != 0))) {
    ++length;
  }
  return length;
}

std::vector<LinedText> expanded(const LinedText& word, const ShellVariables& variables,
                                const std::string& file) {
  return Expander(word, variables, file).fields(true);
}

LinedText expanded_text(const LinedText& word, const ShellVariables& variables,
                        const std::string& file) {
  LinedText text;
  for (const LinedText& field : Expander(word, variables, file).fields(false)) text.add(field);
  return text;
}

bool has_unknown(const std::string& text) { return text.find_first_of("$`") != text.npos; }

std::string unknown_name(const std::string& text) {
  const std::size_t at = text.find_first_of("$`");
  if (at == text.npos || text[at] == '`') return "";
  std::string_view rest = std::string_view(text).substr(at + 1);
  if (rest.starts_with('{')) rest.remove_prefix(1);
  if (rest.starts_with('(')) return "";
  const std::size_t length = shell_name_length(rest);
  return std::string(rest.substr(0, std::max<std::size_t>(length, rest.empty() ? 0 : 1)));
}

}  // namespace moesim
