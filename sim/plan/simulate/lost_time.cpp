// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/simulate/lost_time.h"

namespace moesim {

Seconds LostTime::until(Seconds now) const {
  return factor_ > 1 ? lost_ + (now - changed_) * rate_ : lost_;
}

void LostTime::set_factor(Seconds now, double factor) {
  if (factor == factor_) return;
  lost_ = until(now);
  changed_ = now;
  factor_ = factor;
  rate_ = 1 - 1 / factor;
}

Seconds LostTime::end_of(Seconds due, Seconds before, Seconds now) const {
  const Seconds delayed = due + (until(now) - before);
  return factor_ > 1 && delayed > now ? now + (delayed - now) * factor_ : delayed;
}

}  // namespace moesim
