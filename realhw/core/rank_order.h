// SPDX-License-Identifier: Apache-2.0
// Which ops one rank may start: those at the head of their lane whose waits have ended on it.
#pragma once

#include <vector>

#include "sim/plan/plan.h"

namespace moesim {

class RankOrder {
 public:
  /// The plan must be checked and outlive it.
  RankOrder(const Plan& plan, GpuId rank);
  void reset();
  /// Ops that may start and were not told before, ascending.
  std::vector<OpId> take_ready();
  /// Tells that an op has ended on this rank.
  void end(OpId op);
  bool done() const { return left_ == 0; }
  /// Ops that have not ended, ascending.
  std::vector<OpId> open() const;

 private:
  struct Step {
    OpId op;
    int waits = 0;                // ops of this rank that must end before it
    std::vector<int> dependents;  // steps
  };
  std::vector<Step> steps_;   // the ops of this rank, ascending
  std::vector<int> step_of_;  // [op] -1: it runs elsewhere
  std::vector<int> waiting_;  // [step] waits that have not ended; -1: it has ended itself
  std::vector<OpId> ready_;
  std::size_t left_ = 0;
};

}  // namespace moesim
