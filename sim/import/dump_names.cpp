// SPDX-License-Identifier: Apache-2.0
#include "sim/import/dump_names.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "sim/base/parse_integer.h"
#include "sim/import/table_values.h"

namespace moesim {
namespace {

/// The number behind a word of a file's name; at most one character is between them. Of several
/// such words ("ranking_rank3") the first with a number.
template <typename T>
std::optional<T> number_after(std::string_view word, const std::string& path) {
  const std::string name = std::filesystem::path(path).stem().string();
  for (auto at = name.find(word); at != std::string::npos; at = name.find(word, at + 1)) {
    const auto digit = name.find_first_of("0123456789", at);
    T number = 0;
    if (digit != std::string::npos && digit <= at + word.size() + 1 &&
        std::from_chars(name.data() + digit, name.data() + name.size(), number).ec == std::errc()) {
      return number;
    }
  }
  return std::nullopt;
}

}  // namespace

std::int64_t number_of_name(std::string_view text) {
  return parse_integer<std::int64_t>(text).value_or(-1);
}

std::optional<std::int64_t> rank_in_name(const std::string& path) {
  return number_after<std::int64_t>("rank", path);
}

std::optional<std::int64_t> layer_of_file(const std::string& path) {
  const std::string name = std::filesystem::path(path).stem().string();
  const auto layer = number_after<std::int64_t>("layer", path);
  const bool only = layer == layer_in_name(name) && name.find("layers") == std::string::npos;
  return only ? layer : std::nullopt;
}

std::vector<std::string> in_order_of_time(std::vector<std::string> paths) {
  std::ranges::stable_sort(
      paths, {}, [](const std::string& path) { return number_after<double>("timestamp", path); });
  return paths;
}

}  // namespace moesim
