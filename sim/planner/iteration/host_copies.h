// SPDX-License-Identifier: Apache-2.0
// Copies of what blocks keep to the memory of the host, and back before their backward pass: the
// schedule of Megatron-LM's fine_grained_activation_offload.py (d98e8a64).
#pragma once

#include <array>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/planner/iteration/block_ops.h"

namespace moesim {

/// Whether a work computes gradients of inputs.
constexpr bool goes_backward(WorkKind kind) {
  return kind == WorkKind::backward || kind == WorkKind::input_gradient;
}

/// What leaves the GPU together.
enum class MovedPart { attention, moe, experts };  // blocks, and the rows of routed experts

/// [microbatch, chunk] whose last layer stays on the GPU: the stage's first backward pass needs it,
/// or the next one after its forward.
std::set<std::pair<int, int>> keeping_last_layer(const Timetable& turns);

/// Of the GPUs of one stage. A part is copied out once it has been computed, and nobody waits for
/// that. It comes back while a layer behind it goes backward: from when the same part of that layer
/// has ended. Two copy engines work at the same time, each in the order of the passes.
class HostCopies {
 public:
  /// All must outlive it. `joins`: GPUs that copy equal bytes by equal links are one op, which they
  /// start and end together unless they are `apart`.
  HostCopies(const StageSpace& stage, const Topology& topology, bool joins, bool apart);

  /// Bytes of a unit, and how many units every GPU of the stage moves, under its own number.
  struct Moved {
    Bytes unit;
    std::vector<std::int64_t> units;
  };
  /// A part of this cell and layer leaves: after all that the chain has done.
  void store(OpChain& chain, WorkCell cell, int layer, MovedPart part, const Moved& moved);
  /// Brings it back, once. Returns the copies that whatever needs it waits for.
  std::vector<OpId> load(OpChain& chain, WorkCell cell, int layer, MovedPart part);
  /// The backward pass of a part has ended.
  void ended(const OpChain& chain, MovedPart part) {
    ended_[static_cast<std::size_t>(part)] = chain.mark();
  }

 private:
  struct Stored {
    std::vector<GroupExchange> exchanges;
    std::vector<OpId> ops;
  };
  using Key = std::tuple<int, int, int, MovedPart>;  // microbatch, chunk, layer
  const std::vector<GroupExchange>& exchanges_of(const Moved& moved);
  std::vector<GroupExchange> made(const Moved& moved) const;
  bool same_links() const;

  const StageSpace& stage_;
  const Topology& topology_;
  bool joins_, apart_;
  std::map<Key, Stored> stored_;
  std::array<Mark, 3> ended_;  // [part]
  std::map<std::pair<std::int64_t, std::vector<std::int64_t>>, std::vector<GroupExchange>> made_;
};

}  // namespace moesim
