// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/fsep/fsep_transport.h"

#include "sim/mechanism/placement/fsep/baselines.h"
#include "sim/mechanism/placement/fsep/exchange.h"

namespace moesim {
namespace {

std::int64_t shard_parameters(const MoeModel& model, const fsep::SlotGrid& grid) {
  return (model.expert_parameters() + grid.ranks - 1) / grid.ranks;
}

template <class T>
std::vector<T> in_every_rank(const PlacementContext& context, const T& value) {
  const auto ranks = static_cast<std::size_t>(context.groups.size());
  return context.groups.in_every_group(std::vector<T>(ranks, value));
}

/// Any layout will do: all move the same.
Placement any_layout(const PlacementContext& context, const fsep::SlotGrid& grid) {
  return Placement(context.experts, fsep::initial_slots(context.experts, grid));
}

}  // namespace

Bytes fsep_chunk(const MoeModel& model, const fsep::SlotGrid& grid) {
  return bytes_of(shard_parameters(model, grid), model.weights);
}

ParamExchange fsep_restore(const PlacementContext& context, const fsep::SlotGrid& grid) {
  const Bytes chunk = fsep_chunk(context.model, grid);
  const ByteMatrix group = fsep::restore_exchange(any_layout(context, grid), chunk);
  return {"restore", context.groups.in_every_group(group), {}, {}};
}

ParamExchange fsep_reduce(const PlacementContext& context, const fsep::SlotGrid& grid) {
  constexpr int sum_bytes = 4;  // fp32
  const Bytes chunk = fsep_chunk(context.model, grid);
  const ByteMatrix group = fsep::reduce_exchange(any_layout(context, grid), chunk);
  const MemoryBound sum{chunk * std::int64_t{grid.slots()},
                        Bytes(shard_parameters(context.model, grid) * context.experts * sum_bytes)};
  return {"reduce", context.groups.in_every_group(group), {}, in_every_rank(context, sum)};
}

std::vector<ExpertMemory> fsep_memory(const PlacementContext& context, const fsep::SlotGrid& grid) {
  const std::int64_t kept = shard_parameters(context.model, grid) * context.experts;
  const Bytes restored = fsep_chunk(context.model, grid) * std::int64_t{grid.slots()};
  const Bytes training(restored.value * 5 / 2);
  const ExpertMemory memory{
      bytes_of(kept, context.model.weights), Bytes(kept * context.state.gradient),
      Bytes(kept * context.state.optimizer), context.backward ? training : restored};
  return in_every_rank(context, memory);
}

}  // namespace moesim
