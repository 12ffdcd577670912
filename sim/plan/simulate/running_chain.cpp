// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/simulate/running_chain.h"

#include <limits>

namespace moesim {
namespace {

double factor_of(const KernelFactors& factors, bool bound_by_compute) {
  return bound_by_compute ? factors.bound_by_compute : factors.others;
}

}  // namespace

void RunningChain::start(const Progress& progress, OpId first, std::int32_t participant,
                         Seconds now) {
  op_ = first;
  participant_ = participant;
  bound_by_compute_ = progress.is_bound_by_compute(first, participant);
  since_ = now;
  left_ = progress.duration(first, participant);
}

void RunningChain::run(Progress& progress, const KernelFactors& factors, Seconds now) {
  while (running() && since_ <= now) {
    const double factor = factor_of(factors, bound_by_compute_);
    const Seconds end = since_ + left_ * factor;
    if (end > now) {
      left_ -= (now - since_) * (1 / factor);
      since_ = now;
      return;
    }
    since_ = end;
    left_ = Seconds(0);
    const OpId next = progress.next_in_chain(op_);
    if (next.value < 0) return;
    progress.pass_on(op_, participant_, end);
    start(progress, next, participant_, progress.start(next, participant_, end));
  }
}

Seconds RunningChain::end(const Progress& progress, const KernelFactors& factors) const {
  if (!running()) return Seconds(std::numeric_limits<double>::infinity());
  Seconds end = since_ + left_ * factor_of(factors, bound_by_compute_);
  for (OpId op = progress.next_in_chain(op_); op.value >= 0; op = progress.next_in_chain(op)) {
    const double factor = factor_of(factors, progress.is_bound_by_compute(op, participant_));
    end = progress.start(op, participant_, end) + progress.duration(op, participant_) * factor;
  }
  return end;
}

}  // namespace moesim
