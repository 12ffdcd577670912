// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/asynchronous_moves.h"

#include <map>
#include <utility>

namespace moesim {

AsynchronousMoves::AsynchronousMoves(int layers, int layers_per_step, int experts_per_step)
    : layers_per_step_(layers_per_step),
      experts_per_step_(experts_per_step),
      coming_(static_cast<std::size_t>(layers)) {}

void AsynchronousMoves::plan(int layer, SlotTable slots, std::vector<ExpertTransfer> moves) {
  coming_[static_cast<std::size_t>(layer)] = Coming{std::move(slots), moves, moves};
}

std::optional<SlotTable> AsynchronousMoves::arrived(int layer) {
  auto& coming = coming_[static_cast<std::size_t>(layer)];
  if (!coming || !coming->begun || !coming->left.empty()) return std::nullopt;
  SlotTable slots = std::move(coming->slots);
  coming.reset();
  --moving_;
  return slots;
}

std::vector<ExpertTransfer> AsynchronousMoves::next(int layer) {
  auto& coming = coming_[static_cast<std::size_t>(layer)];
  if (!coming) return {};
  if (!coming->begun) {
    if (moving_ == layers_per_step_) return {};
    coming->begun = true;
    ++moving_;
  }
  std::vector<ExpertTransfer> now, later;
  std::map<GpuId, int> received;
  for (const ExpertTransfer& move : coming->left) {
    const bool fits = experts_per_step_ == 0 || received[move.to]++ < experts_per_step_;
    (fits ? now : later).push_back(move);
  }
  coming->left = std::move(later);
  return now;
}

std::vector<Bytes> AsynchronousMoves::buffered(int layer, int gpus) const {
  std::vector<Bytes> bytes(static_cast<std::size_t>(gpus));
  const auto& coming = at(layer);
  if (!coming || !coming->begun) return bytes;
  for (const ExpertTransfer& move : coming->moves) bytes[move.to.index()] += move.bytes;
  for (const ExpertTransfer& move : coming->left) {
    bytes[move.to.index()] = Bytes(bytes[move.to.index()].value - move.bytes.value);
  }
  return bytes;
}

}  // namespace moesim
