// SPDX-License-Identifier: Apache-2.0
// One layer after the other, forward then backward, nothing overlapped.
#include "sim/policy/policies.h"

namespace moesim {
namespace {

class Sequential final : public Schedule {
 public:
  void issue(LayerOps& ops, bool backward) const override {
    for (int layer = 0; layer < ops.layers(); ++layer) ops.migrate(layer, {});
    ops.wait_for_parameters();
    for (int layer = 0; layer < ops.layers(); ++layer) ops.forward(layer);
    if (!backward) return;
    for (int layer = ops.layers() - 1; layer >= 0; --layer) ops.backward(layer);
  }
};

}  // namespace

ScheduleMaker read_sequential(const YamlMap&) {
  return [](const ScheduleContext&) { return std::make_unique<Sequential>(); };
}

}  // namespace moesim
