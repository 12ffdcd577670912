// SPDX-License-Identifier: Apache-2.0
// The keys of a config.json, which architectures call by different names.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/error.h"

namespace moesim {

using HfNames = std::vector<std::string>;

class HfKeys {
 public:
  /// `root` is the part that describes the text model.
  HfKeys(const nlohmann::ordered_json& root, std::string path)
      : root_(root), path_(std::move(path)) {}

  /// The value of the first of some names that is there and not null. A name may be dotted.
  const nlohmann::ordered_json* find(const HfNames& names) const;
  bool has(const HfNames& names) const { return find(names) != nullptr; }
  /// A whole number of at least `least`; of a list, whose items are of layers, the largest, which
  /// is noted if they differ. An error is noted for anything else.
  std::optional<std::int64_t> number(const HfNames& names, std::int64_t least = 0);
  /// The same, which must be there: its absence is noted, and gives 1.
  std::int64_t need(const HfNames& names, std::int64_t least = 1);
  bool flag(const HfNames& names, bool absent) const;
  std::string text(const HfNames& names) const;
  /// Whole numbers of a list; nothing if there is none.
  std::vector<std::int64_t> numbers(const HfNames& names);

  void refuse(const std::string& message, const std::string& hint = "");
  /// What the model file cannot hold, once.
  void note(const std::string& text);
  const std::vector<std::string>& notes() const { return notes_; }
  /// Throws Error with all that was noted.
  void finish() const;

 private:
  const nlohmann::ordered_json& root_;
  std::string path_;
  std::vector<Diagnostic> mistakes_;
  std::vector<std::string> notes_;
};

/// The text of a key of the text model's part; of the keys around it if that lacks it.
inline std::string text_of(const HfKeys& keys, const HfKeys& outer, const HfNames& names) {
  return (keys.has(names) ? keys : outer).text(names);
}

}  // namespace moesim
