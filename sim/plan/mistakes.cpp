// SPDX-License-Identifier: Apache-2.0
// Throws the mistakes of one input together.
#include "sim/plan/mistakes.h"

#include <fmt/format.h>

namespace moesim {

void Mistakes::throw_if_any() const {
  if (empty()) return;
  std::vector<Diagnostic> all = kept_;
  if (count_ > limit) {
    Diagnostic rest;
    rest.file = all.back().file;
    rest.message = fmt::format("{} more mistakes", count_ - limit);
    all.push_back(std::move(rest));
  }
  throw Error(std::move(all));
}

}  // namespace moesim
