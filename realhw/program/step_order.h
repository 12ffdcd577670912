// SPDX-License-Identifier: Apache-2.0
// Which ops one rank may start: those at the head of their stream whose waits have ended on it.
#pragma once

#include <vector>

#include "realhw/program/program.h"

namespace moesim {

/// Per step of a program the steps that must end before it, by index: the one before it on its
/// stream, and those it waits for.
std::vector<std::vector<std::size_t>> steps_before(const std::vector<RankStep>& steps);

class StepOrder {
 public:
  explicit StepOrder(const std::vector<RankStep>& steps);
  void reset();
  /// Indices of steps that may start and were not returned before, ascending.
  std::vector<std::size_t> take_ready();
  /// Marks a step as ended.
  void end(std::size_t step);
  bool done() const { return left_ == 0; }
  /// Steps that have not ended, ascending.
  std::vector<std::size_t> open() const;

 private:
  std::vector<int> waits_;                            // [step] how many must end before it
  std::vector<std::vector<std::size_t>> dependents_;  // [step]
  std::vector<int> waiting_;  // [step] waits that have not ended; -1: it has ended itself
  std::vector<std::size_t> ready_;
  std::size_t left_ = 0;
};

}  // namespace moesim
