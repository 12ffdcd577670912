// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/phases.h"

#include <array>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "sim/base/hash.h"

namespace moesim {
namespace {

/// How often each GPU has been the first of an exchange of one key. The communicators of a phase
/// follow each other in a plan, and so they do when they repeat.
class Repetitions {
 public:
  /// How often before this time.
  std::size_t count(GpuId first) {
    if (next_ == seen_.size() || seen_[next_].first != first.value) next_ = place(first.value);
    return seen_[next_ == seen_.size() - 1 ? std::exchange(next_, 0) : next_++].second++;
  }

 private:
  std::size_t place(std::int32_t first) {
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      if (seen_[i].first == first) return i;
    }
    seen_.emplace_back(first, 0);
    return seen_.size() - 1;
  }

  std::vector<std::pair<std::int32_t, std::uint32_t>> seen_;  // GPU, times
  std::size_t next_ = 0;                                      // that is likely
};

struct OfKey {
  Repetitions repetitions = {};
  std::vector<std::size_t> phases = {};  // [repetition]
};

struct HashOfKey {
  std::size_t operator()(const OpKey& key) const {
    return hash_in_order(std::array{static_cast<int>(key.kind), static_cast<int>(key.role),
                                    static_cast<int>(key.pass), static_cast<int>(key.stage),
                                    key.layer, key.microbatch, key.chunk, key.part});
  }
};

}  // namespace

std::vector<std::vector<OpId>> exchange_phases(const Plan& plan) {
  std::vector<std::vector<OpId>> phases;
  std::unordered_map<OpKey, OfKey, HashOfKey> by_key;
  const OpKey* last = nullptr;
  OfKey* of_last = nullptr;
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const Op& op = plan.ops[i];
    if (op.exchange() == nullptr) continue;
    const OpId id(static_cast<std::int64_t>(i));
    if (op.key.layer < 0) {
      phases.push_back({id});
      continue;
    }
    if (last == nullptr || *last != op.key) of_last = &by_key[op.key];
    last = &op.key;
    const GpuId first = op.group.empty() ? GpuId(-1) : op.group.front();
    const std::size_t repetition = of_last->repetitions.count(first);
    if (repetition == of_last->phases.size()) {
      of_last->phases.push_back(phases.size());
      phases.emplace_back();
    }
    phases[of_last->phases[repetition]].push_back(id);
  }
  return phases;
}

bool is_minimum_time(const Op& op) { return op.key.kind == OpKind::minimum_time; }

}  // namespace moesim
