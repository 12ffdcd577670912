// SPDX-License-Identifier: Apache-2.0
// Places in the text of what overrides were applied to: YAML::Clone forgets them.
#include <algorithm>

#include "sim/base/yaml_state.h"

namespace moesim {
namespace {

using Marks = std::unordered_map<const std::string*, YAML::Mark>;

/// Whether two keys of a mapping read the same.
bool is_same_key(const YAML::Node& a, const YAML::Node& b) {
  return a.Type() == b.Type() && (!a.IsScalar() || a.Scalar() == b.Scalar());
}

void add_marks(const YAML::Node& copy, const YAML::Node& parsed, Marks& marks);

/// Keys of the copy are in the order of the text; some are gone, others were added.
void add_marks_of_map(const YAML::Node& copy, const YAML::Node& parsed, Marks& marks) {
  auto next = parsed.begin();
  for (const auto& item : copy) {
    auto at = next;
    while (at != parsed.end() && !is_same_key(at->first, item.first)) ++at;
    if (at == parsed.end()) continue;
    marks.emplace(&item.first.Tag(), at->first.Mark());
    add_marks(item.second, at->second, marks);
    next = ++at;
  }
}

/// What an override put in a value's place gets the place of that value.
void add_marks(const YAML::Node& copy, const YAML::Node& parsed, Marks& marks) {
  if (parsed.IsScalar() && !copy.IsScalar()) return;  // made of the scalar, and nowhere in the text
  marks.emplace(&copy.Tag(), parsed.Mark());
  if (copy.IsMap() && parsed.IsMap()) {
    add_marks_of_map(copy, parsed, marks);
  } else if (copy.IsSequence() && parsed.IsSequence()) {
    for (std::size_t i = 0; i < std::min(copy.size(), parsed.size()); ++i) {
      add_marks(copy[i], parsed[i], marks);
    }
  }
}

}  // namespace

YAML::Mark YamlDocument::State::mark_of(const YAML::Node& node) {
  if (root.is(parsed)) return node.Mark();
  if (!marks_of_copy_) add_marks(root, parsed, marks_of_copy_.emplace());
  const auto found = marks_of_copy_->find(&node.Tag());
  return found == marks_of_copy_->end() ? node.Mark() : found->second;
}

}  // namespace moesim
