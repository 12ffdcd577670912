// SPDX-License-Identifier: Apache-2.0
// Activations and their gradients on the way between pipeline stages.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "sim/iteration/block_ops.h"
#include "sim/iteration/stage_space.h"

namespace moesim {

/// Sends what a pass of a microbatch leaves on one stage to the next: every GPU to that of the same
/// number. One op per cell; nobody who sends waits for it.
class Transfers {
 public:
  /// `stages` must outlive it.
  explicit Transfers(const std::vector<StageSpace>& stages) : stages_(stages) {}

  /// What the receivers wait for: the transfers, or `done` itself within a stage. `tensors`: that
  /// travel, each of a microbatch's activations.
  std::vector<OpId> add(Plan& plan, int from, int to, WorkCell cell, Pass pass, int position,
                        const Mark& done, int tensors = 1);

 private:
  struct Way {
    std::vector<Group> groups;  // [cell] senders and receivers, numbers of the plan
    std::vector<ByteMatrix> traffic;
  };
  const Way& way(int from, int to);
  /// Neighbours of a stage on different streams, so that it sends to one while it receives from the
  /// other.
  Stream stream(int from, int to) const;

  const std::vector<StageSpace>& stages_;
  std::map<std::pair<int, int>, Way> ways_;
};

}  // namespace moesim
