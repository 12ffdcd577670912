// SPDX-License-Identifier: Apache-2.0
#include "sim/import/log_values.h"

#include <algorithm>
#include <cctype>

namespace moesim {
namespace {

constexpr auto npos = std::string_view::npos;

std::vector<std::string> names_of_words(const std::vector<std::string>& words) {
  std::vector<std::string> names;
  std::string joined;
  for (auto word = words.rbegin(); word != words.rend() && names.size() < 3; ++word) {
    joined = *word + joined;
    names.push_back(joined);
  }
  return names;
}

/// Where a list ends that begins at a bracket; the line's end if it does not.
std::size_t end_of_list(std::string_view line, std::size_t at) {
  for (std::int64_t open = 0; at < line.size(); ++at) {
    open += line[at] == '[' ? 1 : line[at] == ']' ? -1 : 0;
    if (open == 0) return at + 1;
  }
  return line.size();
}

/// Whether a word calls a function that prints a list: "tensor([1, 6], device='cuda:0')".
bool prints_list(std::string_view word, std::string_view after) {
  return after.starts_with('(') && (word == "tensor" || word == "array");
}

std::string word_after(std::string_view line, std::size_t at) {
  at = std::min(line.find_first_not_of(' ', at), line.size());
  std::size_t end = at;
  while (end < line.size() && is_word_letter(line[end])) ++end;
  return std::string(line.substr(at, end - at));
}

std::size_t end_of_digits(std::string_view line, std::size_t at) {
  return std::min(line.find_first_not_of("0123456789", at), line.size());
}

/// The end of "12", "1.5e-05" or "20%".
std::size_t end_of_number(std::string_view line, std::size_t at) {
  std::size_t end = std::min(line.find_first_not_of("0123456789.", at), line.size());
  if (end < line.size() && (line[end] == 'e' || line[end] == 'E')) {
    const std::size_t sign = line.find_first_of("+-", end) == end + 1 ? 1 : 0;
    const std::size_t after = end_of_digits(line, end + 1 + sign);
    const bool ends = after == line.size() || !is_word_letter(line[after]);
    if (after > end + 1 + sign && ends) end = after;
  }
  return end < line.size() && line[end] == '%' ? end + 1 : end;
}

/// Whether a sign begins a number, and does not join it to a word or number before.
bool is_sign(std::string_view line, std::size_t at) {
  return line[at] == '-' && at + 1 < line.size() && is_digit(line[at + 1]) &&
         (at == 0 || std::string_view(" \t=:,({\"'").find(line[at - 1]) != npos);
}

bool is_assigned(std::string_view line, std::size_t at) {
  const std::size_t last = at == 0 ? npos : line.find_last_not_of(" \t\"'", at - 1);
  return last != npos && (line[last] == '=' || line[last] == ':');
}

/// The end of "model.layers.3.mlp" if that begins here, else where it does.
std::size_t end_of_module(std::string_view line, std::size_t at) {
  std::size_t end = at;
  bool numbered = false;
  for (;;) {
    const std::size_t from = end;
    while (end < line.size() && (is_word_letter(line[end]) || is_digit(line[end]))) ++end;
    numbered = numbered || (from > at && end > from && end_of_digits(line, from) == end);
    if (end == from || end == line.size() || line[end] != '.') break;
    ++end;
  }
  const bool is =
      numbered && (is_assigned(line, at) || line.substr(at, end - at).find("layers.") != npos);
  return is ? end : at;
}

class LineValues {
 public:
  LineValues(std::string_view line, const TakesWord& takes_word)
      : line_(line), takes_word_(takes_word) {}

  std::vector<NamedValue> read() {
    for (std::size_t at = 0; at < line_.size();) at = read_at(at);
    return std::move(values_);
  }

 private:
  /// Returns where what begins here ends.
  std::size_t read_at(std::size_t at) {
    if (begins_word(at)) return add_word(at);
    if (is_word_letter(line_[at])) {
      const std::size_t module = end_of_module(line_, at);
      return module > at ? add(at, module) : read_word(at);
    }
    if (is_digit(line_[at])) return add(at, end_of_number(line_, at));
    if (is_sign(line_, at)) return add(at, end_of_number(line_, at + 1));
    const bool list = line_[at] == '[' && line_.find(']', at) != npos;
    return list ? add(at, end_of_list(line_, at)) : at + 1;
  }

  bool begins_word(std::size_t at) const {
    const char c = line_[at];
    if (!takes_word_ || words_.empty() || !(is_word_letter(c) || is_digit(c))) return false;
    return is_assigned(line_, at) && std::ranges::any_of(names_of_words(words_), takes_word_);
  }

  /// Up to its closing quote, or to a blank or comma.
  std::size_t add_word(std::size_t at) {
    const char quote = line_[at - 1] == '"' || line_[at - 1] == '\'' ? line_[at - 1] : 0;
    const std::size_t end = std::min(
        quote != 0 ? line_.find(quote, at) : line_.find_first_of(" \t,;)]}", at), line_.size());
    add(at, end);
    values_.back().is_word = true;
    return end;
  }

  /// "expert_3" is a word and a number.
  std::size_t read_word(std::size_t at) {
    std::size_t end = at;
    while (end < line_.size() && (is_word_letter(line_[end]) || is_digit(line_[end]))) ++end;
    const std::size_t digits = line_.find_last_not_of("0123456789", end - 1) + 1;
    if (!prints_list(line_.substr(at, digits - at), line_.substr(digits))) {
      words_.emplace_back(line_.substr(at, digits - at));
    }
    return digits;
  }

  std::size_t add(std::size_t at, std::size_t end) {
    const bool follows = !values_.empty() && words_.empty() &&
                         line_.substr(last_, at - last_).find_first_not_of(", \t") == npos;
    values_.push_back({names_of_words(words_), std::string(line_.substr(at, end - at)), follows,
                       !words_.empty() && is_assigned(line_, at), word_after(line_, end)});
    words_.clear();
    last_ = end;
    return end;
  }

  std::string_view line_;
  const TakesWord& takes_word_;
  std::vector<NamedValue> values_;
  std::vector<std::string> words_;  // since the value before
  std::size_t last_ = 0;            // where that ends
};

}  // namespace

bool is_word_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

bool is_module(const NamedValue& value) { return is_word_letter(value.text.front()); }

std::vector<NamedValue> values_of_line(std::string_view line, const TakesWord& takes_word) {
  return LineValues(line, takes_word).read();
}

}  // namespace moesim
