// SPDX-License-Identifier: Apache-2.0
// SmartMoE's online expert mapping: now and then the experts are dealt out anew, by their loads in
// the steps before. Zhai et al., USENIX ATC 2023; thu-pacman/SmartMoE-AE at e19b3a9.
#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/training/permuting.h"
#include "sim/mechanism/placement/training/smart_moe.h"

namespace moesim {
namespace {

class SmartMoe final : public Permuting {
 public:
  using Permuting::Permuting;

 private:
  std::optional<SlotTable> plan(const GroupLayer& at) override {
    return smart_moe_map(at.slots, loads_seen(at.cell), Bytes(0)).table;
  }
};

}  // namespace

// interval (10): steps between decisions, the first one after as many; window (2): newest steps
// whose loads are summed; payload (weights): or state, with the optimizer's; migration (blocks) or
// overlapped; planning_time (0 s) of one decision, planning (hidden or blocks).
PlacementMaker read_smart_moe(const YamlMap& params) {
  PlanningOptions defaults;
  defaults.interval = 10;
  defaults.moves_optimizer = false;
  PlanningOptions options = read_move_options(params, defaults);
  options.first = options.interval;
  options.window = static_cast<int>(params.integer("window", {1, 1 << 20}, 2));
  return [options](const PlacementContext& context) {
    return std::make_unique<SmartMoe>(context, options);
  };
}

}  // namespace moesim
