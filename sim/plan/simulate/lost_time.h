// SPDX-License-Identifier: Apache-2.0
// What work of one kind loses on a GPU while work of another kind runs.
#pragma once

#include "sim/base/types.h"

namespace moesim {

/// Exchanges of one GPU, which take `factor` times as long at times: of each second they lose
/// 1 - 1 / factor.
class LostTime {
 public:
  /// From now on; at least 1.
  void set_factor(Seconds now, double factor) {
    if (factor == factor_) return;
    lost_ = until(now);
    changed_ = now;
    factor_ = factor;
    rate_ = 1 - 1 / factor;
  }
  double factor() const { return factor_; }
  /// Since the plan began, up to `now`, which is not before the last change.
  Seconds until(Seconds now) const {
    return factor_ > 1 ? lost_ + (now - changed_) * rate_ : lost_;
  }
  /// When work ends if nothing changes: `due` if it loses nothing, and until(it began) was
  /// `before`.
  Seconds end_of(Seconds due, Seconds before, Seconds now) const {
    const Seconds delayed = due + (until(now) - before);
    return factor_ > 1 && delayed > now ? now + (delayed - now) * factor_ : delayed;
  }

 private:
  double factor_ = 1;
  double rate_ = 0;  // of each second: 1 - 1 / factor_
  Seconds changed_, lost_;
};

}  // namespace moesim
