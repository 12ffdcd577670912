// SPDX-License-Identifier: Apache-2.0
#include "sim/launched/shell_evaluation.h"

#include <algorithm>
#include <cstdint>

#include "sim/base/read_number.h"
#include "sim/base/text.h"
#include "sim/launched/shell_expansion.h"

namespace moesim {
namespace {

std::optional<bool> compared(std::int64_t left, const std::string& sign, std::int64_t right) {
  if (sign == "-eq") return left == right;
  if (sign == "-ne") return left != right;
  if (sign == "-lt") return left < right;
  if (sign == "-le") return left <= right;
  if (sign == "-gt") return left > right;
  if (sign == "-ge") return left >= right;
  return std::nullopt;
}

using Number = std::optional<std::int64_t>;

Number joined(std::int64_t left, char sign, std::int64_t right) {
  std::int64_t result = 0;
  bool over = false;
  switch (sign) {
    case '+':
      over = __builtin_add_overflow(left, right, &result);
      break;
    case '-':
      over = __builtin_sub_overflow(left, right, &result);
      break;
    case '*':
      over = __builtin_mul_overflow(left, right, &result);
      break;
    default:
      if (right == 0 || right == -1) return std::nullopt;
      result = sign == '/' ? left / right : left % right;
  }
  return over ? std::nullopt : Number(result);
}

class Sum {
 public:
  explicit Sum(std::string_view text) : rest_(text) {}

  Number all() {
    const Number value = terms(0);
    return end() ? value : std::nullopt;
  }

 private:
  bool end() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size()));
    return rest_.empty();
  }

  bool at(std::string_view signs) { return !end() && signs.find(rest_[0]) != signs.npos; }

  Number chain(int depth, std::string_view signs, Number (Sum::*part)(int)) {
    Number value = (this->*part)(depth);
    while (value && at(signs)) {
      const char sign = rest_[0];
      rest_.remove_prefix(1);
      const Number right = (this->*part)(depth);
      value = right ? joined(*value, sign, *right) : std::nullopt;
    }
    return value;
  }

  Number terms(int depth) { return chain(depth, "+-", &Sum::factors); }
  Number factors(int depth) { return chain(depth, "*/%", &Sum::factor); }

  Number factor(int depth) {
    if (end() || depth > max_nesting) return std::nullopt;
    if (rest_[0] == '(') {
      rest_.remove_prefix(1);
      const Number inner = terms(depth + 1);
      if (!at(")")) return std::nullopt;
      rest_.remove_prefix(1);
      return inner;
    }
    const std::size_t length = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    const Number number = parse_integer<std::int64_t>(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return number;
  }

  std::string_view rest_;
};

}  // namespace

std::optional<bool> shell_test(std::vector<std::string> words) {
  const bool brackets = !words.empty() && (words.front() == "[" || words.front() == "[[");
  if (brackets && words.back() != (words.front() == "[" ? "]" : "]]")) return std::nullopt;
  if (!brackets && (words.empty() || words.front() != "test")) return std::nullopt;
  words.erase(words.begin());
  if (brackets) words.pop_back();
  for (const std::string& word : words) {
    if (has_unknown(word)) return std::nullopt;
  }
  if (!words.empty() && words.front() == "!") {
    words.insert(words.begin(), brackets ? "[" : "test");
    words.erase(words.begin() + 1);
    if (brackets) words.emplace_back("]");
    const auto inner = shell_test(words);
    return inner ? std::optional<bool>(!*inner) : std::nullopt;
  }
  if (words.size() == 2 && words[0] == "-z") return words[1].empty();
  if (words.size() == 2 && words[0] == "-n") return !words[1].empty();
  if (words.size() != 3) return std::nullopt;
  if (words[1] == "=" || words[1] == "==") return words[0] == words[2];
  if (words[1] == "!=") return words[0] != words[2];
  const auto left = parse_integer<std::int64_t>(words[0]);
  const auto right = parse_integer<std::int64_t>(words[2]);
  return left && right ? compared(*left, words[1], *right) : std::nullopt;
}

std::optional<std::int64_t> shell_arithmetic(std::string_view text) { return Sum(text).all(); }

}  // namespace moesim
