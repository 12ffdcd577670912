// SPDX-License-Identifier: Apache-2.0
// FasterMoE's dynamic shadowing: once the gate has spoken, loaded experts go to every GPU for this
// one step. He et al., PPoPP 2022; laekov/fastmoe at ee3c561, fmoe/fastermoe/shadow_policy.py.
#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/training/expert_copies.h"
#include "sim/mechanism/placement/training/planner_rates.h"
#include "sim/mechanism/placement/training/shadowing.h"

namespace moesim {
namespace {

/// The published model is of experts of two matrices; one of three has the width that gives it its
/// parameters.
ShadowModel model_of(const PlacementContext& context, const PlannerRates& rates) {
  const MoeModel& model = context.model;
  ShadowModel shadow;
  shadow.hidden = static_cast<double>(model.routed_width());
  shadow.alpha =
      static_cast<double>(model.expert_parameters()) / (2 * shadow.hidden) / shadow.hidden;
  shadow.element_bytes = size_of(model.activations);
  shadow.bandwidth = bandwidth_of(rates, context, CountedBytes::all_gpus);
  shadow.throughput = throughput_of(rates, context);
  return shadow;
}

class Shadower final : public Copier {
 public:
  Shadower(const PlacementContext& context, ShadowRule rule, Broadcast how,
           const PlannerRates& rates)
      : Copier(context, {how}), rule_(rule), model_(model_of(context, rates)) {}

  bool reacts() const override { return true; }

 private:
  StepSlots in_step(const GroupStep& at) override {
    const auto shadows = choose_shadows(rule_, model_, at.loads, at.slots);
    Shadowing s = shadow(at.slots, shadows, weight_bytes(context()), gradient_bytes(context()));
    return {std::move(s.table), std::move(s.broadcast), std::move(s.reduce), true, true};
  }

  ShadowRule rule_;
  ShadowModel model_;
};

}  // namespace

// variant (code): who is shadowed, by the paper's algorithm, the code of laekov/fastmoe over the
// totals that it means, or its corrected form in thu-pacman/SmartMoE-AE; broadcast (chain): of
// parameters and, reversed, gradients: chain, by-node or direct; bandwidth of a GPU (default: its
// share of a uniform all-to-all) and throughput (default: that of its GEMMs) in the performance
// model.
PlacementMaker read_shadowing(const YamlMap& params) {
  const auto rule =
      static_cast<ShadowRule>(params.choice("variant", {"paper", "code", "corrected"}, 1));
  const auto how = static_cast<Broadcast>(params.choice("broadcast", broadcast_names, 2));
  const PlannerRates rates = read_planner_rates(params);
  return [=](const PlacementContext& context) {
    return std::make_unique<Shadower>(context, rule, how, rates);
  };
}

}  // namespace moesim
