// SPDX-License-Identifier: Apache-2.0
// Schedule mechanisms: in which order the ops of a step's layers are issued.
#pragma once

#include <memory>

#include "sim/policy/layer_ops.h"

namespace moesim {

/// What a schedule may know when it is made: nothing yet.
struct ScheduleContext {};

class Schedule {
 public:
  virtual ~Schedule() = default;
  /// Issues forward (and, where asked, backward) of layers 0..layers-1 into the plan.
  virtual void issue(LayerOps& ops, int layers, bool backward) const = 0;
};

}  // namespace moesim
