// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

namespace moesim {

/// A set of values of an enumeration that counts from 0 to at most 31.
template <typename Enum>
class EnumSet {
 public:
  constexpr EnumSet() = default;
  constexpr EnumSet(std::initializer_list<Enum> values) {
    for (const Enum value : values) add(value);
  }

  constexpr void add(Enum value) { bits_ |= bit(value); }
  constexpr bool has(Enum value) const { return (bits_ & bit(value)) != 0; }
  constexpr bool has_any(EnumSet others) const { return (bits_ & others.bits_) != 0; }
  constexpr bool empty() const { return bits_ == 0; }

  /// Of those in the set; `all` has a name for every value.
  std::vector<std::string> names(const std::vector<std::string>& all) const {
    std::vector<std::string> names;
    for (std::size_t value = 0; value < all.size(); ++value) {
      if (has(static_cast<Enum>(value))) names.push_back(all[value]);
    }
    return names;
  }

  bool operator==(const EnumSet&) const = default;

 private:
  static constexpr unsigned bit(Enum value) { return 1U << static_cast<unsigned>(value); }

  unsigned bits_ = 0;
};

}  // namespace moesim
