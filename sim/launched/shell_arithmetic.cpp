// SPDX-License-Identifier: Apache-2.0
#include "sim/launched/shell_arithmetic.h"

#include <algorithm>

#include "sim/base/parse_integer.h"
#include "sim/base/text.h"

namespace moesim {
namespace {

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

std::optional<std::int64_t> shell_arithmetic(std::string_view text) { return Sum(text).all(); }

}  // namespace moesim
