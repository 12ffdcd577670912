// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/phases.h"

#include <array>
#include <cstdint>
#include <memory>
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

/// The phases of one key, of which most have a single op.
struct OfKey {
  OpId only;
  std::size_t phase = 0;  // of it
  struct Several {
    Repetitions repetitions = {};
    std::vector<std::size_t> phases = {};  // [repetition]
  };
  std::unique_ptr<Several> several = nullptr;
};

struct HashOfKey {
  std::size_t operator()(const OpKey& key) const {
    return hash_in_order(std::array{static_cast<int>(key.kind), static_cast<int>(key.role),
                                    static_cast<int>(key.pass), static_cast<int>(key.stage),
                                    key.layer, key.microbatch, key.chunk, key.part});
  }
};

GpuId first_gpu(const Op& op) { return op.group.empty() ? GpuId(-1) : op.group.front(); }

/// Which phase another op of a key belongs to; `next` if it is one more.
std::size_t phase_of_another(const Plan& plan, OpId op, OfKey& key, std::size_t next) {
  if (!key.several) {
    key.several = std::make_unique<OfKey::Several>();
    key.several->repetitions.count(first_gpu(plan[key.only]));
    key.several->phases.push_back(key.phase);
  }
  auto& [repetitions, phases] = *key.several;
  const std::size_t repetition = repetitions.count(first_gpu(plan[op]));
  if (repetition == phases.size()) phases.push_back(next);
  return phases[repetition];
}

}  // namespace

std::vector<std::vector<OpId>> exchange_phases(const Plan& plan) {
  std::vector<std::vector<OpId>> phases;
  std::unordered_map<OpKey, OfKey, HashOfKey> by_key;
  by_key.reserve(plan.ops.size() / 2);
  const OpKey* last = nullptr;
  OfKey* of_last = nullptr;
  for (OpId id(0); id.index() < plan.ops.size(); ++id.value) {
    const Op& op = plan[id];
    if (op.exchange() == nullptr) continue;
    if (op.key.layer < 0) {
      phases.push_back({id});
      continue;
    }
    const bool same = last != nullptr && *last == op.key;
    bool fresh = false;
    if (!same) {
      const auto [known, is_new] = by_key.try_emplace(op.key, OfKey{id, phases.size()});
      of_last = &known->second;
      fresh = is_new;
    }
    last = &op.key;
    const std::size_t next = phases.size();
    const std::size_t phase = fresh ? next : phase_of_another(plan, id, *of_last, next);
    if (phase == next) phases.emplace_back();
    phases[phase].push_back(id);
  }
  return phases;
}

bool is_minimum_time(const Op& op) { return op.key.kind == OpKind::minimum_time; }

}  // namespace moesim
