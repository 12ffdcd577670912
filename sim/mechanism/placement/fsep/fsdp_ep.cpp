// SPDX-License-Identifier: Apache-2.0
// FSDP around expert parallelism, the reference point of FSEP: every EP group holds the experts
// once, and the copies of an expert in all groups keep a shard each.
#include "sim/collective/ring.h"
#include "sim/mechanism/mechanisms.h"

namespace moesim {
namespace {

/// Rank p holds the experts e with e mod ep = p, as LAER-MoE's authors place them.
SlotTable strided_slots(const PlacementContext& context) {
  SlotTable slots(static_cast<std::size_t>(context.groups.size()));
  for (int e = 0; e < context.experts; ++e) {
    slots[static_cast<std::size_t>(e) % slots.size()].emplace_back(e);
  }
  return slots;
}

/// Parameters of one expert on one of R copies; padded to whole parameters, as PyTorch's FSDP pads.
std::int64_t shard_parameters(const PlacementContext& context) {
  const int copies = context.groups.count();
  return (context.model.expert_parameters() + copies - 1) / copies;
}

/// Ring all-gathers, or reduce-scatters, over the holders of every expert in all groups: G - 1
/// rounds in which each passes one shard on. One exchange: latency counts once.
ParamExchange rings(const PlacementContext& context, std::string name) {
  const EpGroups& groups = context.groups;
  const SlotTable slots = strided_slots(context);
  std::vector<Ring> experts(static_cast<std::size_t>(context.experts));
  for (std::size_t r = 0; r < slots.size(); ++r) {
    for (const ExpertId e : slots[r]) {
      for (int g = 0; g < groups.count(); ++g) {
        experts[e.index()].push_back(groups.gpu(g, GpuId(static_cast<std::int64_t>(r))));
      }
    }
  }
  const Bytes shard = bytes_of(shard_parameters(context), context.model.weights);
  return {
      std::move(name),
      ring_traffic(experts, groups.gpus(), shard, static_cast<std::uint32_t>(groups.count() - 1)),
      {},
      {}};
}

/// Shards all the time; while a layer computes its gathered weights, and their gradients.
std::vector<ExpertMemory> memory(const PlacementContext& context) {
  const int copies = context.groups.count();
  std::vector<ExpertMemory> of_group;
  for (const auto& slots : strided_slots(context)) {
    const std::int64_t kept = shard_parameters(context) * std::ssize(slots);
    const Bytes gathered = bytes_of(kept * copies, context.model.weights);
    of_group.push_back({bytes_of(kept, context.model.weights), Bytes(kept * context.state.gradient),
                        Bytes(kept * context.state.optimizer),
                        gathered * std::int64_t{context.backward ? 2 : 1}});
  }
  return context.groups.in_every_group(of_group);
}

class FsdpEp final : public Placer {
 public:
  explicit FsdpEp(const PlacementContext& context)
      : decision_(context.groups.in_every_group(Assignment(
            Placement(context.experts, strided_slots(context)), context.groups.size()))) {
    decision_.memory = memory(context);
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
