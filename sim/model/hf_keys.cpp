// SPDX-License-Identifier: Apache-2.0
#include "sim/model/hf_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t most_of_a_key = std::int64_t{1} << 30;

std::string quoted(const HfNames& names) { return fmt::format("'{}'", fmt::join(names, "' or '")); }

/// The value of one name, whose dots lead into objects; none if the file lacks it.
const Json* stated(const Json& root, const std::string& name) {
  const Json* value = &root;
  for (std::size_t from = 0; value != nullptr && from <= name.size();) {
    const std::size_t dot = std::min(name.find('.', from), name.size());
    const auto at = value->is_object() ? value->find(name.substr(from, dot - from)) : value->end();
    value = value->is_object() && at != value->end() ? &*at : nullptr;
    from = dot + 1;
  }
  return value;
}

/// The same if it says anything.
const Json* value_of(const Json& root, const std::string& name) {
  const Json* value = stated(root, name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

}  // namespace

const Json* HfKeys::find(const HfNames& names) const {
  for (const std::string& name : names) {
    if (const Json* value = value_of(root_, name)) return value;
  }
  return nullptr;
}

std::optional<std::int64_t> HfKeys::number(const HfNames& names, std::int64_t least) {
  const Json* value = find(names);
  if (value == nullptr) return std::nullopt;
  const auto name = std::ranges::find_if(
      names, [&](const std::string& n) { return value_of(root_, n) != nullptr; });
  const auto sound = [&](const Json& v) {
    return v.is_number_integer() && v >= least && v <= most_of_a_key;
  };
  if (value->is_array() && !value->empty() && std::ranges::all_of(*value, sound)) {
    std::int64_t largest = least;
    for (const Json& item : *value) largest = std::max(largest, item.get<std::int64_t>());
    if (std::ranges::adjacent_find(*value, std::not_equal_to<>()) != value->end()) {
      note(fmt::format("{} differs between layers: all have {} here", *name, largest));
    }
    return largest;
  }
  if (sound(*value)) return value->get<std::int64_t>();
  refuse(fmt::format("'{}' is {}, no whole number from {}", *name,
                     value->dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 40),
                     least));
  return std::nullopt;
}

std::int64_t HfKeys::need(const HfNames& names, std::int64_t least) {
  const auto value = number(names, least);
  if (value) return *value;
  const auto is_null = [&](const std::string& name) { return stated(root_, name) != nullptr; };
  if (const auto null = std::ranges::find_if(names, is_null); !has(names) && null != names.end()) {
    refuse(fmt::format("'{}' is null or no number, where a whole number from {} should be", *null,
                       least));
  } else if (!has(names)) {
    refuse(fmt::format("the file lacks the key {}", quoted(names)));
  }
  return std::max<std::int64_t>(least, 1);
}

bool HfKeys::flag(const HfNames& names, bool absent) const {
  const Json* value = find(names);
  return value != nullptr && value->is_boolean() ? value->get<bool>() : absent;
}

std::string HfKeys::text(const HfNames& names) const {
  const Json* value = find(names);
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

std::vector<std::int64_t> HfKeys::numbers(const HfNames& names) {
  std::vector<std::int64_t> numbers;
  const Json* value = find(names);
  if (value == nullptr || !value->is_array()) return numbers;
  for (const Json& item : *value) {
    if (item.is_boolean()) {
      numbers.push_back(item.get<bool>() ? 1 : 0);
    } else if (item.is_number_integer() && item >= 0 && item <= most_of_a_key) {
      numbers.push_back(item.get<std::int64_t>());
    } else {
      refuse(fmt::format("{} holds something that is not a number of a layer", quoted(names)));
      return {};
    }
  }
  return numbers;
}

void HfKeys::refuse(const std::string& message, const std::string& hint) {
  mistakes_.push_back({Severity::error, path_, 0, 0, message, "", hint});
}

void HfKeys::note(const std::string& text) {
  if (std::ranges::find(notes_, text) == notes_.end()) notes_.push_back(text);
}

void HfKeys::finish() const {
  if (mistakes_.empty()) return;
  auto mistakes = mistakes_;
  if (mistakes.back().hint.empty()) {
    mistakes.back().hint = "models/README.md describes model files, which say the same";
  }
  throw Error(std::move(mistakes));
}

}  // namespace moesim
