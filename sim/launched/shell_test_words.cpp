// SPDX-License-Identifier: Apache-2.0
#include "sim/launched/shell_test_words.h"

#include <cstdint>

#include "sim/base/parse_integer.h"
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

}  // namespace moesim
