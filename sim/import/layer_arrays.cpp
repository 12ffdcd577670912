// SPDX-License-Identifier: Apache-2.0
#include "sim/import/layer_arrays.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <string_view>

#include "sim/base/lower_case.h"
#include "sim/base/most.h"
#include "sim/base/parse_integer.h"

namespace moesim {
namespace {

constexpr std::string_view decimal_digits = "0123456789";

/// Letters before a place of a name, without what separates them: "layer" in "moe.layer_3".
std::string word_before(std::string_view name, std::size_t end) {
  while (end > 0 && std::string_view("._-/").find(name[end - 1]) != std::string_view::npos) --end;
  std::size_t first = end;
  while (first > 0 && std::isalpha(static_cast<unsigned char>(name[first - 1])) != 0) --first;
  return lower_case(name.substr(first, end - first));
}

/// A name's number of a layer, and the rest of the name.
struct NumberedName {
  std::string stem;
  int number = 0;
  bool counted_by_numpy = false;
};

std::optional<NumberedName> numbered(std::string_view name) {
  static constexpr std::array<std::string_view, 10> words = {
      "layer", "layers", "moelayer", "l", "blk", "block", "blocks", "h", "arr", ""};
  for (std::size_t at = name.find_first_of(decimal_digits); at != std::string_view::npos;) {
    const std::size_t end = std::min(name.find_first_not_of(decimal_digits, at), name.size());
    const std::string word = word_before(name, at);
    const auto number = parse_integer<std::int64_t>(name.substr(at, end - at));
    if (std::ranges::find(words, word) != words.end() && number && *number <= max_layer_number) {
      return NumberedName{std::string(name.substr(0, at)) + '#' + std::string(name.substr(end)),
                          static_cast<int>(*number), word == "arr"};
    }
    at = name.find_first_of(decimal_digits, end);
  }
  return std::nullopt;
}

bool says_any_of(const std::string& stem, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(
      words, [&](std::string_view word) { return stem.find(word) != std::string::npos; });
}

bool can_be(ArrayRole role, const std::string& name) {
  const std::string stem = lower_case(name);
  const bool weights = says_any_of(stem, {"weight", "prob", "score", "gate"});
  if (says_any_of(stem, {"logit", "length", "len", "count", "load", "hidden", "bias", "mask"})) {
    return false;
  }
  return role == ArrayRole::weights ? weights : !weights;
}

bool is_named_ids(const std::string& stem) {
  return says_any_of(lower_case(stem),
                     {"id", "expert", "indic", "topk", "top_k", "rout", "select", "choice"});
}

}  // namespace

std::optional<LayerArrays> find_layer_arrays(const std::vector<std::string>& names, ArrayRole role,
                                             std::size_t expected) {
  std::map<std::string, std::map<int, std::string>> sets;  // by stem
  bool by_numpy = false;
  for (const std::string& name : names) {
    const auto its = numbered(name);
    if (!its || !can_be(role, its->stem)) continue;
    if (!sets[its->stem].emplace(its->number, name).second) return std::nullopt;
    by_numpy = by_numpy || its->counted_by_numpy;
  }
  const bool named =
      std::ranges::any_of(sets, [](const auto& set) { return is_named_ids(set.first); });
  if (role == ArrayRole::ids && named) {
    std::erase_if(sets, [](const auto& set) { return !is_named_ids(set.first); });
  }
  if (sets.size() != 1) return std::nullopt;
  const auto& set = sets.begin()->second;
  if (by_numpy && (expected < 2 || set.size() != expected)) return std::nullopt;
  LayerArrays found;
  for (const auto& [number, name] : set) {
    found.names.push_back(name);
    if (!by_numpy) found.layers.push_back(number);
  }
  return found;
}

}  // namespace moesim
