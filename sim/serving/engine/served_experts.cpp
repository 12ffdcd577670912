// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/engine/served_experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/units.h"
#include "sim/base/unsuitable.h"

namespace moesim {

Bytes ServedExperts::more(int ranks, int lost) const {
  const auto all = static_cast<double>(experts.value);
  const double left = static_cast<double>(gpus) * (ranks - lost) / ranks;
  return Bytes(std::llround(std::max(0.0, all / left - all / holders)));
}

std::int64_t ServedExperts::tokens_left(std::int64_t capacity, int ranks, int lost) const {
  if (experts.value == 0 || per_token.value == 0 || lost == ranks) return capacity;
  const Bytes needed = more(ranks, lost);
  const auto tokens = static_cast<std::int64_t>(
      std::ceil(share * static_cast<double>(needed.value) / static_cast<double>(per_token.value)));
  const std::int64_t left = std::min(capacity, capacity + spare - tokens);
  if (left >= longest) return left;
  throw Unsuitable(
      fmt::format("{} of {} ranks are lost: experts take {} more of each GPU that is left, which "
                  "has {} for keys and values; a request needs {}",
                  lost, ranks, to_string(needed), to_string(per_token * (capacity + spare)),
                  to_string(per_token * longest)),
      "fewer ranks lost at once, or more GPUs per instance");
}

}  // namespace moesim
