// SPDX-License-Identifier: Apache-2.0
// Schedule mechanisms: in which order the ops of a step's layers are issued.
#pragma once

#include <memory>

#include "sim/policy/layer_ops.h"

namespace moesim {

/// What a schedule may know when it is made; it may keep the references.
struct ScheduleContext {
  const Topology& topology;
  const MoeModel& model;
};

class Schedule {
 public:
  virtual ~Schedule() = default;
  /// Issues forward (and, where asked, backward) of all layers into the plan, with the parameters
  /// that they migrate, gather and reduce.
  virtual void issue(LayerOps& ops, bool backward) const = 0;
};

}  // namespace moesim
