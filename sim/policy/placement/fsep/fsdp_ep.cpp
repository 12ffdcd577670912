// SPDX-License-Identifier: Apache-2.0
// FSDP around expert parallelism, the reference point of FSEP: every run of `ep` ranks holds the
// experts once, and the copies of an expert in all runs keep a shard each.
#include <map>

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

/// Ring all-gathers, or reduce-scatters, over the ranks of the same place in all runs: R - 1 rounds
/// in which every rank passes one shard of its slots on. One exchange: latency counts once. As NCCL
/// does with its channels, half go round either way, which leaves and enters nodes by different
/// NICs; a rank receives as much as in one ring.
ParamExchange rings(const PlacementContext& context, const Placement& placement, std::string name) {
  const int copies = context.gpus / context.ep;
  ByteMatrix traffic(Bytes(shard_parameters(context) * size_of(context.model.weights)));
  for (int rank = 0; rank < context.gpus; ++rank) {
    const auto shards = static_cast<std::uint32_t>(placement.slots_on(GpuId(rank)) * (copies - 1));
    std::map<GpuId, std::uint32_t> to;  // one rank of two copies is both neighbours
    to[GpuId((rank + context.ep) % context.gpus)] += (shards + 1) / 2;
    to[GpuId((rank + context.gpus - context.ep) % context.gpus)] += shards / 2;
    std::vector<ByteMatrix::Entry> row;
    for (const auto& [gpu, units] : to) {
      if (units > 0) row.push_back({gpu, units});
    }
    traffic.add_row(row);
  }
  return {std::move(name), std::move(traffic), {}, {}};
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
    decision_.gather = {rings(context, placement, "all-gather")};
    if (!context.backward) return;
    decision_.regather = decision_.gather;
    decision_.reduce = {rings(context, placement, "reduce-scatter")};
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
