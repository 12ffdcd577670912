// SPDX-License-Identifier: Apache-2.0
// The groups of a plan's text.
#pragma once

#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "sim/plan/group.h"
#include "sim/plan/line_reader.h"

namespace moesim {

/// Ops of one group share its list, which is read once for each way to write it: most of the ops of
/// a plan repeat a few lists of thousands of GPUs.
class WrittenGroups {
 public:
  /// The next word of a line, which must outlive this.
  Group read(LineReader& reader, std::int64_t last_gpu) {
    const std::string_view word = reader.word("a GPU");
    if (const auto known = by_word_.find(word); known != by_word_.end()) return known->second;
    const auto ids = reader.ids_in(word, "a GPU", last_gpu);
    const Group& group = *lists_.emplace(std::vector<GpuId>(ids.begin(), ids.end())).first;
    return by_word_.emplace(word, group).first->second;
  }

 private:
  std::map<std::string_view, Group> by_word_;
  std::set<Group> lists_;
};

}  // namespace moesim
