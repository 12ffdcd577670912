// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/simulate/slowed_work.h"

#include <algorithm>
#include <limits>

namespace moesim {

Seconds SlowedWork::lost(Seconds now) const {
  return factor_ > 1 ? lost_ + (now - changed_) * (1 - 1 / factor_) : lost_;
}

void SlowedWork::set_factor(Seconds now, double factor) {
  lost_ = lost(now);
  changed_ = now;
  factor_ = factor;
}

Seconds SlowedWork::end_of(const Item& item, Seconds now) const {
  const Seconds due = item.due + (lost(now) - item.lost);
  return factor_ > 1 && due > now ? now + (due - now) * factor_ : due;
}

Seconds SlowedWork::next(Seconds now) const {
  Seconds first(std::numeric_limits<double>::infinity());
  for (const Item& item : items_) first = std::min(first, end_of(item, now));
  return first;
}

std::vector<SlowedWork::Item> SlowedWork::take_ended(Seconds now) {
  std::vector<Item> ended;
  std::erase_if(items_, [&](const Item& item) {
    const bool has = end_of(item, now) <= now;
    if (has) ended.push_back(item);
    return has;
  });
  return ended;
}

}  // namespace moesim
