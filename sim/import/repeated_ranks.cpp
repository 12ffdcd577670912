// SPDX-License-Identifier: Apache-2.0
#include "sim/import/repeated_ranks.h"

#include <algorithm>

namespace moesim {

bool same_choices(const ChoiceTable& a, const ChoiceTable& b) {
  if (a.tokens() != b.tokens() || a.layers() != b.layers() || a.choices() != b.choices()) {
    return false;
  }
  for (std::int64_t t = 0; t < a.tokens(); ++t) {  // token by token: the first ones differ
    for (std::int64_t l = 0; l < a.layers(); ++l) {
      for (std::int64_t k = 0; k < a.choices(); ++k) {
        if (a.at(t, l, k) != b.at(t, l, k)) return false;
      }
    }
  }
  return true;
}

void RepeatedRanks::begin(std::int64_t pass) {
  if (pass_ == pass) return;
  pass_ = pass;
  seen_.clear();
}

bool RepeatedRanks::repeats(const ChoiceTable& ids) {
  if (ids.tokens() == 0) return false;
  const auto same = [&](const ChoiceTable& other) { return same_choices(ids, other); };
  if (std::ranges::any_of(seen_, same)) return true;
  seen_.push_back(ids);
  return false;
}

}  // namespace moesim
