// SPDX-License-Identifier: Apache-2.0
#include "sim/report/fused_memory.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "sim/model/kernel.h"

namespace moesim {
namespace {

/// A part of FusedBytes for a while.
struct FusedHeld {
  Seconds from, to;
  Bytes FusedBytes::*part;
  Bytes bytes;
};

struct FusedWaveOps {
  std::optional<OpId> dispatch, combine;
  std::vector<OpId> products;
};

using FusedPassKey = std::tuple<int, int, Pass>;  // layer, microbatch, pass

struct FusedPass {
  std::map<int, FusedWaveOps> waves;  // [part of the key]
  std::vector<OpId> all;
  bool fused = false;
};

const GroupedGemm* wave_of(const Op& op, std::size_t member = 0) {
  if (op.kernels() == nullptr) return nullptr;
  const auto* gemm = std::get_if<GroupedGemm>(&op.kernels()->of(member));
  return gemm != nullptr && gemm->wave ? gemm : nullptr;
}

/// Products of a fused kernel wait for exchanges themselves; whole tiles of other kernels do not.
bool waits_for_rows(const Plan& plan, const Op& op) {
  return std::ranges::any_of(op.after, [&](OpId id) {
    return plan[id].exchange() != nullptr && plan[id].key.stage == Stage::dispatch;
  });
}

using FusedPasses = std::map<FusedPassKey, FusedPass>;

FusedPasses fused_passes(const Plan& plan) {
  FusedPasses passes;
  for (OpId id(0); id.index() < plan.ops.size(); ++id.value) {
    const Op& op = plan[id];
    if (op.key.layer < 0) continue;
    FusedPass& pass = passes[{op.key.layer, op.key.microbatch, op.key.pass}];
    pass.all.push_back(id);
    if (op.exchange() != nullptr && op.key.kind == OpKind::token_exchange) {
      FusedWaveOps& wave = pass.waves[op.key.part];
      (op.key.stage == Stage::combine ? wave.combine : wave.dispatch) = id;
    } else if (wave_of(op) != nullptr) {
      pass.waves[op.key.part].products.push_back(id);
      pass.fused = pass.fused || waits_for_rows(plan, op);
    }
  }
  std::erase_if(passes, [](const auto& entry) { return !entry.second.fused; });
  return passes;
}

/// One GPU's view of a pass.
class FusedGpu {
 public:
  FusedGpu(const Plan& plan, const Timeline& timeline, GpuId gpu)
      : plan_(plan), timeline_(timeline), gpu_(gpu) {}

  Seconds end_of(const std::vector<OpId>& ops) const {
    Seconds end;
    for (const OpId id : ops) {
      if (const auto time = at(id)) end = std::max(end, time->end);
    }
    return end;
  }

  /// `kept`: until when, if a backward pass needs what the forward pass has made.
  void add(const FusedWaveOps& ops, Seconds pass_ends, std::optional<Seconds> kept,
           FusedMemory& to) {
    if (!ops.dispatch || !ops.combine || !at(*ops.dispatch)) return;
    FusedWave& wave = to.waves.emplace_back();
    wave.sent = at(*ops.dispatch)->start;
    wave.begins = wave.ends = wave.left = wave.sent;
    Seconds read = at(*ops.dispatch)->end, first = Seconds(-1);
    Bytes inner;
    for (const OpId id : ops.products) {
      const std::optional<Interval> time = at(id);
      if (!time) continue;
      const OpKey& key = plan_[id].key;
      const auto& gemm = *wave_of(plan_[id], plan_[id].group.member(gpu_));
      wave.rows = std::reduce(gemm.m.begin(), gemm.m.end());
      const bool forward = key.pass == Pass::forward;
      if (forward == (key.kind == OpKind::fc1)) read = std::max(read, time->end);
      if (first < Seconds(0)) first = time->start;
      wave.ends = std::max(wave.ends, time->end);
      // The second product's input; backward it is the gradient of the first one's output.
      const bool second =
          forward ? key.kind == OpKind::fc2 : key.kind == OpKind::fc1 && key.role == Role::dgrad;
      if (second) inner += bytes_of(wave.rows * gemm.k, gemm.type);
      if (kept && key.kind == OpKind::fc1) inner += bytes_of(wave.rows * gemm.n, gemm.type);
    }
    if (first < Seconds(0)) first = wave.ends = read;
    wave.begins = first;
    hold(wave.sent, kept.value_or(read), &FusedBytes::received, arriving(*ops.dispatch));
    hold(first, kept.value_or(wave.ends), &FusedBytes::inner, inner);
    if (const auto back = at(*ops.combine)) {
      wave.left = back->end;
      hold(back->start, pass_ends, &FusedBytes::results, arriving(*ops.combine));
    }
  }

  void sweep(FusedMemory& to) const {
    std::map<double, FusedBytes> changes;
    for (const FusedHeld& held : held_) {
      changes[held.from.value].*held.part += held.bytes;
      changes[held.to.value].*held.part += held.bytes * -1;
    }
    FusedBytes now;
    for (const auto& [time, change] : changes) {
      now = {now.received + change.received, now.inner + change.inner,
             now.results + change.results};
      to.moments.emplace_back(Seconds(time), now);
      if (now.total() > to.peak.total()) to.peak = now;
      for (FusedWave& wave : to.waves) {
        const bool during = time >= wave.sent.value && time < wave.ends.value;
        if (during && now.total() > wave.most.total()) wave.most = now;
      }
    }
  }

 private:
  std::optional<Interval> at(OpId id) const {
    const std::size_t member = plan_[id].group.member(gpu_);
    if (member == plan_[id].group.size()) return std::nullopt;
    return timeline_.ops[id.index()][member];
  }
  Bytes arriving(OpId id) const {
    Bytes sum;
    plan_[id].traffic().for_each([&](GpuId, GpuId to, Bytes bytes) {
      if (to == gpu_) sum += bytes;
    });
    return sum;
  }
  void hold(Seconds from, Seconds to, Bytes FusedBytes::*part, Bytes bytes) {
    if (bytes.value > 0 && to > from) held_.push_back({from, to, part, bytes});
  }

  const Plan& plan_;
  const Timeline& timeline_;
  GpuId gpu_;
  std::vector<FusedHeld> held_;
};

std::vector<FusedMemory> memory_on(const Plan& plan, const FusedPasses& passes,
                                   const Timeline& timeline, GpuId gpu) {
  std::vector<FusedMemory> result;
  for (const auto& [key, pass] : passes) {
    FusedGpu on(plan, timeline, gpu);
    const auto& [layer, microbatch, direction] = key;
    FusedMemory memory{gpu, layer, microbatch, direction, {}, {}, {}};
    std::optional<Seconds> kept;
    const auto back = passes.find({layer, microbatch, Pass::backward});
    if (direction == Pass::forward && back != passes.end()) kept = on.end_of(back->second.all);
    const Seconds ends = on.end_of(pass.all);
    for (const auto& [part, ops] : pass.waves) on.add(ops, ends, kept, memory);
    on.sweep(memory);
    if (!memory.waves.empty()) result.push_back(std::move(memory));
  }
  return result;
}

}  // namespace

std::vector<FusedMemory> fused_memory(const Plan& plan, const Timeline& timeline,
                                      std::span<const GpuId> gpus) {
  const FusedPasses passes = fused_passes(plan);
  std::vector<FusedMemory> result;
  for (const GpuId gpu : gpus) {
    std::ranges::move(memory_on(plan, passes, timeline, gpu), std::back_inserter(result));
  }
  return result;
}

std::vector<FusedMemory> fullest_fused_memory(const Plan& plan, const Timeline& timeline) {
  const FusedPasses passes = fused_passes(plan);
  std::vector<FusedMemory> fullest;
  for (int g = 0; g < plan.gpus; ++g) {
    for (FusedMemory& memory : memory_on(plan, passes, timeline, GpuId(g))) {
      const auto same = std::ranges::find_if(fullest, [&](const FusedMemory& other) {
        return std::tie(other.layer, other.microbatch, other.pass) ==
               std::tie(memory.layer, memory.microbatch, memory.pass);
      });
      if (same == fullest.end()) {
        fullest.push_back(std::move(memory));
      } else if (memory.peak.total() > same->peak.total()) {
        *same = std::move(memory);
      }
    }
  }
  return fullest;
}

}  // namespace moesim
