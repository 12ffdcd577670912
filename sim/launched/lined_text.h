// SPDX-License-Identifier: Apache-2.0
// Text that knows which line of a file each of its characters is from.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moesim {

struct LinedText {
  std::string text;
  std::vector<int> lines = {};  // [character], from 1
  bool maybe = false;           // only there under a condition that is not known

  /// Counts lines from `first` on.
  static LinedText of(std::string_view text, int first) {
    LinedText lined{std::string(text)};
    for (const char c : text) {
      lined.lines.push_back(first);
      if (c == '\n') ++first;
    }
    return lined;
  }

  void add(char c, int line) {
    text += c;
    lines.push_back(line);
  }
  void add(std::string_view all, int line) {
    for (const char c : all) add(c, line);
  }
  void add(const LinedText& other) {
    text += other.text;
    lines.insert(lines.end(), other.lines.begin(), other.lines.end());
    maybe = maybe || other.maybe;
  }
  LinedText part(std::size_t begin, std::size_t end) const {
    const auto at = [&](std::size_t i) { return lines.begin() + static_cast<std::ptrdiff_t>(i); };
    return {text.substr(begin, end - begin), {at(begin), at(end)}, maybe};
  }
  /// Of a character, or of the last one behind the end; 0 for an empty text.
  int line(std::size_t at = 0) const {
    return lines.empty() ? 0 : at < lines.size() ? lines[at] : lines.back();
  }
};

}  // namespace moesim
