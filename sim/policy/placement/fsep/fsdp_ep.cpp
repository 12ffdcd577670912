// SPDX-License-Identifier: Apache-2.0
// FSDP around expert parallelism, the reference point of FSEP: every run of `ep` ranks holds the
// experts once, and the copies of an expert in all runs keep a shard each.
#include "sim/policy/gradient_sum.h"
#include "sim/policy/policies.h"

namespace moesim {
namespace {

/// Rank p of every run holds the experts e with e mod ep = p, as LAER-MoE's authors place them.
SlotTable strided_slots(const PlacementContext& context) {
  SlotTable slots(static_cast<std::size_t>(context.gpus));
  for (int rank = 0; rank < context.gpus; ++rank) {
    for (int e = rank % context.ep; e < context.experts; e += context.ep) {
      slots[static_cast<std::size_t>(rank)].emplace_back(e);
    }
  }
  return slots;
}

/// Of one expert on one of R copies; padded to whole parameters, as PyTorch's FSDP pads.
std::int64_t shard_parameters(const PlacementContext& context) {
  const int copies = context.gpus / context.ep;
  return (context.model.expert_parameters() + copies - 1) / copies;
}

/// Ring all-gathers, or reduce-scatters, over the holders of every expert in all groups: G - 1
/// rounds in which each passes one shard on. One exchange: latency counts once.
ParamExchange rings(const PlacementContext& context, std::string name) {
  const int copies = context.gpus / context.ep;
  std::vector<PartHolders> experts(static_cast<std::size_t>(context.experts));
  for (int e = 0; e < context.experts; ++e) {
    for (int first = 0; first < context.gpus; first += context.ep) {
      experts[static_cast<std::size_t>(e)].emplace_back(first + e % context.ep);
    }
  }
  const Bytes shard(shard_parameters(context) * size_of(context.model.weights));
  return {std::move(name),
          group_rings(experts, context.gpus, shard, static_cast<std::uint32_t>(copies - 1)),
          {},
          {}};
}

/// Shards all the time; while a layer computes its gathered weights, and their gradients.
std::vector<ExpertMemory> memory(const PlacementContext& context, const Placement& placement) {
  const int copies = context.gpus / context.ep;
  std::vector<ExpertMemory> all;
  for (int rank = 0; rank < context.gpus; ++rank) {
    const std::int64_t kept = shard_parameters(context) * placement.slots_on(GpuId(rank));
    const Bytes gathered(kept * copies * size_of(context.model.weights));
    all.push_back({Bytes(kept * size_of(context.model.weights)),
                   Bytes(kept * context.state.gradient), Bytes(kept * context.state.optimizer),
                   gathered * std::int64_t{context.backward ? 2 : 1}});
  }
  return all;
}

class FsdpEp final : public Placer {
 public:
  explicit FsdpEp(const PlacementContext& context)
      : decision_(Assignment(Placement(context.experts, strided_slots(context)), context.ep)) {
    const Placement& placement = decision_.assignment.placement();
    decision_.memory = memory(context, placement);
    decision_.gather = {rings(context, "all-gather")};
    if (!context.backward) return;
    decision_.regather = decision_.gather;
    decision_.reduce = {rings(context, "reduce-scatter")};
    decision_.gradients = GradientLayout::summed;
  }
  LayerDecision decide(const LayerRoutingNow&) override { return decision_; }
  bool looks() const override { return false; }

 private:
  LayerDecision decision_;
};

}  // namespace

PlacementMaker read_fsdp_ep(const YamlMap&) {
  return [](const PlacementContext& context) { return std::make_unique<FsdpEp>(context); };
}

}  // namespace moesim
