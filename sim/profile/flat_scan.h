// SPDX-License-Identifier: Apache-2.0
// Reads JSON values of a text from a place on, without copies.
#pragma once

#include <cstring>
#include <string_view>
#include <vector>

#include "sim/base/text.h"
#include "sim/profile/flat_json.h"

namespace moesim {

inline constexpr bool is_json_blank(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/// The text ended inside of a value.
struct CutShort {};
/// What is there is not JSON.
struct NotJson {
  const char* what;
};

/// Reads values of a text from a place on.
class FlatScan {
 public:
  FlatScan(const char* from, const char* end) : at_(from), end_(end) {}
  const char* at() const { return at_; }

  void blanks() {
    while (at_ != end_ && is_json_blank(*at_)) ++at_;
  }
  char peek() {
    blanks();
    if (at_ == end_) throw CutShort();
    return *at_;
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  /// What is between the quotes.
  std::string_view string() {
    if (!take('"')) throw NotJson{"expected a string"};
    const char* const begin = at_;
    for (;;) {
      const void* const quote = std::memchr(at_, '"', static_cast<std::size_t>(end_ - at_));
      if (quote == nullptr) throw CutShort();
      const char* const found = static_cast<const char*>(quote);
      const char* before = found;
      while (before != begin && before[-1] == '\\') --before;
      at_ = found + 1;
      if ((found - before) % 2 == 0) {
        return {begin, static_cast<std::size_t>(found - begin)};
      }
    }
  }
  /// Any value as it is written, of strings what is between the quotes.
  std::string_view value() {
    const char c = peek();
    if (c == '"') return string();
    const char* const begin = at_;
    if (c == '{' || c == '[') {
      nested();
    } else {
      while (at_ != end_ && *at_ != ',' && *at_ != '}' && *at_ != ']' && !is_json_blank(*at_))
        ++at_;
      if (at_ == begin) throw NotJson{"expected a value"};
      if (at_ == end_) throw CutShort();
    }
    return {begin, static_cast<std::size_t>(at_ - begin)};
  }
  /// Members of an object to `use(key)`, which takes the value.
  template <class Use>
  void members(const Use& use) {
    if (!take('{')) throw NotJson{"expected an object"};
    if (take('}')) return;
    do {
      const std::string_view key = string();
      if (!take(':')) throw NotJson{"expected ':' after a key"};
      use(key);
    } while (take(','));
    if (!take('}')) throw NotJson{"expected ',' or '}' after a member"};
  }

 private:
  void nested() {
    int depth = 0;
    for (; at_ != end_; ++at_) {
      const char c = *at_;
      if (c == '"') {
        string();
        --at_;
      } else if (c == '{' || c == '[') {
        if (++depth > max_nesting) throw NotJson{"is nested too deeply"};
      } else if ((c == '}' || c == ']') && --depth == 0) {
        ++at_;
        return;
      }
    }
    throw CutShort();
  }

  const char* at_;
  const char* end_;
};

inline void scan_object(FlatScan& scan, std::vector<FlatField>& fields) {
  fields.clear();
  scan.members([&](std::string_view key) {
    if (scan.peek() != '{') {
      fields.push_back({"", key, scan.value()});
      return;
    }
    const char* const begin = scan.at();
    scan.members([&](std::string_view inner) { fields.push_back({key, inner, scan.value()}); });
    fields.push_back({"", key, {begin, static_cast<std::size_t>(scan.at() - begin)}});
  });
}

}  // namespace moesim
