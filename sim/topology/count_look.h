// SPDX-License-Identifier: Apache-2.0
// The counts of RateLooks, which threads share.
#pragma once

#include <atomic>
#include <cstdint>

namespace moesim {

/// Cheaper than a sum that loses no count of another thread: each is a change.
inline void count_look(std::uint64_t& looks) {
  const std::atomic_ref<std::uint64_t> shared(looks);
  shared.store(shared.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

}  // namespace moesim
