// SPDX-License-Identifier: Apache-2.0
// One layer after the other, forward then backward, nothing overlapped.
#include "sim/planner/schedule/schedule.h"

namespace moesim {
namespace {

class Sequential final : public Schedule {
 public:
  /// Parameters are gathered before the experts, gradients reduced after the layer, and everything
  /// waits for both.
  void at(Point point, LayerOps& ops, int layer, Pass pass) const override {
    if (point == Point::dispatched) ops.gather(layer, pass, ops.mark());
    if (point != Point::combined || pass == Pass::forward) return;
    ops.reduce(layer, ops.mark());
    ops.wait_for_parameters();
  }
};

}  // namespace

ScheduleMaker read_sequential(const YamlMap&) {
  return [](const ScheduleContext&) { return std::make_unique<Sequential>(); };
}

}  // namespace moesim
