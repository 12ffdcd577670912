// SPDX-License-Identifier: Apache-2.0
// Objects of JSON with many members.
#pragma once

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <utility>

namespace moesim {

/// Gives an object its members. nlohmann's objects that keep their order look through all keys for
/// each new one: a file of a megabyte can make that take minutes.
class JsonMembers {
 public:
  /// The object has no members yet, and gets them only here.
  explicit JsonMembers(nlohmann::ordered_json& object)
      : members_(object.get_ref<nlohmann::ordered_json::object_t&>()) {}

  /// The value of that key, null if it is new; it stays where it is until the next one.
  nlohmann::ordered_json& operator[](std::string key) {
    if (members_.size() < few) {
      const auto at = std::ranges::find(members_, key, &Members::value_type::first);
      if (at != members_.end()) return at->second;
      return members_.emplace_back(std::move(key), nullptr).second;
    }
    if (places_.empty()) {
      for (std::size_t i = 0; i < members_.size(); ++i) places_.emplace(members_[i].first, i);
    }
    const auto [at, is_new] = places_.try_emplace(key, members_.size());
    if (is_new) members_.emplace_back(std::move(key), nullptr);
    return members_[at->second].second;
  }

 private:
  using Members = nlohmann::ordered_json::object_t::Container;
  static constexpr std::size_t few = 16;  // looked through as fast as looked up
  Members& members_;
  std::unordered_map<std::string, std::size_t> places_;  // of more than few
};

}  // namespace moesim
