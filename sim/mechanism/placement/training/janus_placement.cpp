// SPDX-License-Identifier: Apache-2.0
// Janus: per layer tokens travel to the experts or experts to the tokens, whichever moves fewer
// bytes. Liu et al., SIGCOMM 2023.
#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/training/expert_copies.h"
#include "sim/mechanism/placement/training/janus.h"
#include "sim/mechanism/placement/training/planner_rates.h"

namespace moesim {
namespace {

enum class Centric { cheaper, experts, data };

class Janus final : public Copier {
 public:
  Janus(const PlacementContext& context, Centric centric, bool after_gate)
      : Copier(context, {Broadcast::by_node}),
        centric_(centric),
        after_gate_(after_gate),
        node_size_(group_nodes(context).gpus_per_node),
        sizes_{context.model.row_bytes(), weight_bytes(context),
               context.backward ? gradient_bytes(context) : Bytes(0), context.backward ? 2 : 1} {}

  bool reacts() const override { return after_gate_; }
  bool looks() const override { return after_gate_; }

 private:
  StepSlots in_step(const GroupStep& at) override {
    StepSlots step{at.slots};
    step.planned = step.after_gate = after_gate_;
    const JanusLayer layer =
        after_gate_ ? janus_layer(at.loads, at.slots, node_size_, sizes_) : ahead(at);
    const bool data = centric_ == Centric::cheaper ? layer.data_centric : centric_ == Centric::data;
    if (data) fetch(layer, step);
    return step;
  }

  /// Before the gate any expert may be needed and choices are taken to be even: tokens x K / E for
  /// each expert. Everything is multiplied by E, to compare whole bytes.
  JanusLayer ahead(const GroupStep& at) const {
    LoadMatrix even(ep(), context().experts);
    const auto choices = static_cast<std::int64_t>(mean_tokens(at.batch) * at.ids.top_k());
    for (int s = 0; s < ep(); ++s) {
      for (int e = 0; e < context().experts; ++e) even.at(GpuId(s), ExpertId(e)) = choices;
    }
    JanusSizes of_all = sizes_;
    of_all.parameters = sizes_.parameters * context().experts;
    of_all.gradients = sizes_.gradients * context().experts;
    return janus_layer(even, at.slots, node_size_, of_all);
  }

  void fetch(const JanusLayer& layer, StepSlots& step) const {
    const std::vector<GpuId> homes = owners_of(step.table);
    for (const ExpertTransfer& t : layer.fetches) {
      const GpuId home = homes[t.expert.index()];
      step.table[t.to.index()].push_back(t.expert);
      step.gather.push_back({t.expert, home, t.to, sizes_.parameters});
      step.reduce.push_back({t.expert, t.to, home, sizes_.gradients});
    }
  }

  Centric centric_;
  bool after_gate_;
  int node_size_;
  JanusSizes sizes_;
};

}  // namespace

// centric (cheaper): what stays, experts or data, by default what moves fewer bytes; fetch (all):
// every expert ahead of the gate, decided for even choices, or those needed, after the gate, by its
// exact counts. Fetches go once to each node, then to its GPUs; gradients return the same way.
PlacementMaker read_janus(const YamlMap& params) {
  const auto centric =
      static_cast<Centric>(params.choice("centric", {"cheaper", "experts", "data"}, 0));
  const bool after_gate = params.choice("fetch", {"all", "needed"}, 0) == 1;
  return [=](const PlacementContext& context) {
    return std::make_unique<Janus>(context, centric, after_gate);
  };
}

}  // namespace moesim
