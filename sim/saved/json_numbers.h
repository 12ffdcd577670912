// SPDX-License-Identifier: Apache-2.0
// Numbers of saved files; none is cut to the size of a type.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "sim/base/error.h"

namespace moesim {

/// Throws Error for a number that is not whole or does not fit, and nlohmann's exception for
/// others.
template <class Int>
Int whole_number(const nlohmann::ordered_json& json) {
  if (json.is_number_unsigned()) {
    const auto value = json.get<std::uint64_t>();
    if (std::in_range<Int>(value)) return static_cast<Int>(value);
  } else if (json.is_number_integer()) {
    const auto value = json.get<std::int64_t>();
    if (std::in_range<Int>(value)) return static_cast<Int>(value);
  }
  if (!json.is_number()) return json.get<Int>();  // throws, telling of what type it is
  throw Error(fmt::format("{} is not a number that is allowed here", json.dump()));
}

template <class Int>
std::vector<Int> whole_numbers(const nlohmann::ordered_json& list) {
  std::vector<Int> numbers;
  for (const auto& item : list) numbers.push_back(whole_number<Int>(item));
  return numbers;
}

}  // namespace moesim
