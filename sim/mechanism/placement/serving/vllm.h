// SPDX-License-Identifier: Apache-2.0
// vLLM's online balancer (eplb_state.py, policy/default.py, base_router.py): EPLB over a window of
// passes, keeping experts that stay on a GPU in their slot.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/mechanism/placement/serving/eplb.h"
#include "sim/mechanism/placement/serving/replica_choice.h"

namespace moesim::vllm {

/// The passes before the first rebalance: a quarter of those between two.
constexpr int first_rebalance(int interval) { return interval < 4 ? interval : interval / 4; }

/// The new table with every GPU's slots permuted so that experts it held before keep their slot;
/// the others fill its free slots in order. Throws Error when the tables' shapes differ.
SlotTable keep_slots(const SlotTable& before, const SlotTable& after);

/// EPLB's table for the window's loads, with slots kept.
SlotTable rebalance(std::span<const double> loads, const eplb::Shape& shape,
                    const SlotTable& before);

/// How a version of vLLM picks a replica: from the place of the choice in the flat list of choices,
/// or only from the token's index (Knuth's multiplicative hash).
enum class Rule { place, token_hash };

/// The replica of a choice: (token x k + position) or (token x 2654435769 mod 2^32), modulo the
/// replicas.
constexpr std::size_t replica_of(Rule rule, const Choice& choice, int k, std::size_t replicas) {
  const std::uint64_t token = static_cast<std::uint64_t>(choice.token);
  const std::uint64_t key = rule == Rule::place ? token * static_cast<std::uint64_t>(k) +
                                                      static_cast<std::uint64_t>(choice.position)
                                                : token * 2654435769U % (std::uint64_t{1} << 32);
  return static_cast<std::size_t>(key % replicas);
}

/// The shares of one (source rank, expert); replicas upstream in the order of EPLB's replica ranks.
Shares shares(Rule rule, std::span<const Choice> choices, int k, std::span<const SlotId> replicas);

}  // namespace moesim::vllm
