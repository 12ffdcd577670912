// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/parallel/layout_text.h"

#include <fmt/format.h>

#include <charconv>

#include "sim/base/text.h"

namespace moesim {
namespace {

/// More than any model has: *n must not fill the memory.
constexpr std::size_t most_symbols = 1 << 16;

class LayoutReader {
 public:
  LayoutReader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  std::string run() {
    std::string symbols;
    while (at_ < text_.size()) {
      const std::size_t start = at_;
      symbols += text_[at_] == '(' ? group() : symbol();
      if (symbols.size() > most_symbols) fail(start, "the layout is too long");
    }
    return symbols;
  }

 private:
  [[noreturn]] void fail(std::size_t offset, const std::string& message,
                         const std::string& hint = "") const {
    throw error_at(file_, text_, offset, message, hint);
  }

  /// One symbol with its repetition, nothing for a comma.
  std::string symbol() {
    const char c = text_[at_];
    if (std::string_view("EtmL|,").find(c) == std::string_view::npos) {
      fail(at_, fmt::format("'{}' is not a part of a layout", c),
           "E embedding, t layer, m multi-token prediction, L loss, | next stage, *n repeats");
    }
    ++at_;
    if (c == ',') return "";
    return repeated(std::string(1, c));
  }

  std::string group() {
    const std::size_t open = at_++;
    std::string symbols;
    while (at_ < text_.size() && text_[at_] != ')') {
      if (text_[at_] == '(') fail(at_, "a group within a group", "write one of them out");
      symbols += symbol();
    }
    if (at_ == text_.size()) fail(open, "this '(' is never closed");
    if (symbols.empty()) fail(open, "an empty group");
    ++at_;
    if (at_ == text_.size() || text_[at_] != '*') {
      fail(open, "a group that is not repeated", "(tt|)*4, or without parentheses");
    }
    return repeated(symbols);
  }

  /// The symbols n times, if *n follows; else once.
  std::string repeated(const std::string& symbols) {
    std::size_t times = 1;
    if (at_ < text_.size() && text_[at_] == '*') {
      const std::size_t star = at_++;
      const char* const first = text_.data() + at_;
      const auto [end, failure] = std::from_chars(first, text_.data() + text_.size(), times);
      if (failure != std::errc() || times == 0) fail(star, "'*' without a number of times");
      if (times > most_symbols / symbols.size()) fail(star, "the layout is too long");
      at_ += static_cast<std::size_t>(end - first);
    }
    std::string all;
    for (std::size_t i = 0; i < times; ++i) all += symbols;
    return all;
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<std::string> unroll_layout(std::string_view text, const std::string& file) {
  std::vector<std::string> stages(1);
  for (const char symbol : LayoutReader(text, file).run()) {
    if (symbol == '|') {
      stages.emplace_back();
    } else {
      stages.back() += symbol;
    }
  }
  return stages;
}

}  // namespace moesim
