// SPDX-License-Identifier: Apache-2.0
#include "sim/launched/python_literal.h"

#include <algorithm>
#include <utility>

#include "sim/base/text.h"

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

}  // namespace

std::vector<PythonItem> python_items(std::string_view text) { return PythonReader(text).all(); }

}  // namespace moesim
