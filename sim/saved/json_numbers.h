// SPDX-License-Identifier: Apache-2.0
// Numbers and ids of saved files; none is cut to the size of a type.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/types.h"

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

template <class Tag>
std::vector<std::int32_t> values(const std::vector<Id<Tag>>& ids) {
  std::vector<std::int32_t> result;
  for (const auto id : ids) result.push_back(id.value);
  return result;
}

/// Throws Error for a number below -1 or too large, besides what whole_number() throws.
template <class IdType>
std::vector<IdType> ids(const nlohmann::ordered_json& json) {
  const auto numbers = whole_numbers<std::int64_t>(json);
  for (const std::int64_t number : numbers) {
    if (number < -1 || number > std::numeric_limits<std::int32_t>::max()) {
      throw Error(fmt::format("{} is not an id", number));
    }
  }
  return {numbers.begin(), numbers.end()};
}

}  // namespace moesim
