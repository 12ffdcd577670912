// SPDX-License-Identifier: Apache-2.0
// One layer after the other, forward then backward, nothing overlapped.
#include "sim/policy/policies.h"

namespace moesim {
namespace {

class Sequential final : public Schedule {
 public:
  void issue(LayerOps& ops, int layers, bool backward) const override {
    for (int layer = 0; layer < layers; ++layer) ops.forward(layer);
    if (!backward) return;
    for (int layer = layers - 1; layer >= 0; --layer) ops.backward(layer);
  }
};

}  // namespace

ScheduleMaker read_sequential(const YamlMap&) {
  return [](const ScheduleContext&) { return std::make_unique<Sequential>(); };
}

}  // namespace moesim
