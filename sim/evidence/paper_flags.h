// SPDX-License-Identifier: Apache-2.0
// What keys of a published table say to read_scenario.
#pragma once

#include <string>
#include <vector>

#include "sim/base/yaml.h"

namespace moesim {

class PaperFlags {
 public:
  /// A key of the scenario, in place of what was said of it; the changes of a `set` add to earlier
  /// ones.
  void add(const std::string& key, const YamlValue& value);
  /// The same key by key: {ep: 8} leaves what was said of other keys of the mapping.
  void merge(const std::string& key, const YamlValue& value);
  /// Everything that others say of a scenario, each in place of what was said of its key.
  void take(const PaperFlags& others);
  /// The same of one flag.
  void take(const Override& flag);
  /// A change as of `set`.
  void change(const std::string& text);

  /// The value of a key, as a dotted path; nullptr: nothing says it.
  const std::string* find(const std::string& path) const;
  const std::vector<Override>& list() const { return flags_; }

 private:
  std::vector<Override> flags_;
};

}  // namespace moesim
