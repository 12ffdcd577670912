// SPDX-License-Identifier: Apache-2.0
// Janus: per layer tokens travel to the experts or experts to the tokens, whichever moves fewer
// bytes. Liu et al., SIGCOMM 2023.
#include "sim/balance/training/janus.h"

#include "sim/policy/placement/lagged.h"
#include "sim/policy/placement/training/expert_copies.h"
#include "sim/policy/placement/training/planner_rates.h"
#include "sim/policy/policies.h"

namespace moesim {
namespace {

enum class Centric { cheaper, experts, data };

class Janus final : public Placer {
 public:
  Janus(const PlacementContext& context, Centric centric, bool after_gate)
      : context_(context),
        centric_(centric),
        after_gate_(after_gate),
        node_size_(node_size(context, "janus")),
        homes_(contiguous_placement(context.experts, context.gpus, context.ep).table()),
        sizes_{context.model.row_bytes(), weight_bytes(context), gradient_bytes(context)} {}

  LayerDecision decide(const LayerRoutingNow& now) override {
    std::vector<StepCopies> runs;
    for (int first = 0; first < context_.gpus; first += context_.ep) {
      StepCopies run{run_of(homes_, first, context_.ep), {}, {}};
      const JanusLayer layer = after_gate_ ? janus_layer(rows_of(now.loads, first, context_.ep),
                                                         run.table, node_size_, sizes_)
                                           : ahead(now, run.table);
      const bool data =
          centric_ == Centric::cheaper ? layer.data_centric : centric_ == Centric::data;
      if (data) fetch(layer, run);
      runs.push_back(std::move(run));
    }
    LayerDecision decision = with_copies(context_, homes_, runs, {Broadcast::by_node, false});
    decision.after_gate = after_gate_;
    return decision;
  }

  bool reacts() const override { return after_gate_; }
  bool looks() const override { return after_gate_; }

 private:
  /// Before the gate any expert may be needed and choices are taken to be even: tokens x K / E for
  /// each expert. Everything is multiplied by E, to compare whole bytes.
  JanusLayer ahead(const LayerRoutingNow& now, const SlotTable& homes) const {
    LoadMatrix even(context_.ep, context_.experts);
    const auto choices = static_cast<std::int64_t>(mean_tokens(now.batch) * now.ids.top_k());
    for (int s = 0; s < context_.ep; ++s) {
      for (int e = 0; e < context_.experts; ++e) even.at(GpuId(s), ExpertId(e)) = choices;
    }
    return janus_layer(
        even, homes, node_size_,
        {sizes_.row, sizes_.parameters * context_.experts, sizes_.gradients * context_.experts});
  }

  void fetch(const JanusLayer& layer, StepCopies& run) const {
    const std::vector<GpuId> homes = owners_of(run.table);
    for (const ExpertTransfer& t : layer.fetches) {
      const GpuId home = homes[t.expert.index()];
      run.table[t.to.index()].push_back(t.expert);
      run.gather.push_back({t.expert, home, t.to, sizes_.parameters});
      run.reduce.push_back({t.expert, t.to, home, sizes_.gradients});
    }
  }

  PlacementContext context_;
  Centric centric_;
  bool after_gate_;
  int node_size_;
  SlotTable homes_;
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
