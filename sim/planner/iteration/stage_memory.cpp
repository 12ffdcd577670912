// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/stage_memory.h"

#include <algorithm>
#include <map>

namespace moesim {
namespace {

bool is_backward(WorkKind kind) {
  return kind == WorkKind::backward || kind == WorkKind::input_gradient;
}

}  // namespace

/// One GPU from turn to turn.
class StageMemory::Walk {
 public:
  Walk(const StageMemory& of, GpuId gpu) : of_(of), gpu_(gpu.index()) {}

  /// Calls seen(use besides state, turn, work, block) at every moment that may be the fullest.
  template <class Seen>
  void run(const Seen& seen) {
    const Timetable& turns = of_.pipeline_.of(of_.number_);
    for (std::size_t t = 0; t < turns.size(); ++t) {
      const Turn& turn = turns[t];
      // What drafts works on less than the pass before it.
      if (of_.stage_.drafts(turn.work.microbatch)) continue;
      Side first(of_, turn.work, gpu_);
      if (!turn.beside) {
        while (first.left()) step(first, nullptr, static_cast<int>(t), seen);
        continue;
      }
      Side second(of_, *turn.beside, gpu_);
      while (first.left() || second.left()) {
        if (first.left()) step(first, &second, static_cast<int>(t), seen);
        if (second.left()) step(second, &first, static_cast<int>(t), seen);
      }
    }
  }

  /// The most that was in a paged stash at once: rows in whole pages, and means.
  std::int64_t most_paged() const { return most_paged_; }
  double most_mean() const { return most_mean_; }

 private:
  /// A work on its way through the blocks of its chunk.
  class Side {
   public:
    Side(const StageMemory& of, const StageWork& work, std::size_t gpu)
        : work_(work),
          blocks_(of.blocks_[static_cast<std::size_t>(work.chunk)]),
          experts_(of.experts(work)),
          gpu_(gpu),
          ahead_(of.stage_.model().pattern.empty() ? 4 : 2),
          transfers_(of.transfers(work)) {}

    bool left() const { return done_ < blocks_.size(); }
    const StageWork& work() const { return work_; }
    Bytes transfers() const { return transfers_; }
    const ChunkBlock& block() const { return at(done_); }
    /// Sums over the block at work.
    Bytes sum(Bytes PassBytes::*part) const { return sum(block(), part); }
    /// Rows of the block at work in a paged stash; null: it has no routed experts.
    const PassBytes* stashed() const {
      if (block().moe < 0) return nullptr;
      return &experts_[static_cast<std::size_t>(block().moe)][gpu_];
    }
    Bytes working() const {
      if (!left()) return Bytes(0);
      if (work_.kind == WorkKind::forward) return sum(&PassBytes::forward);
      if (work_.kind == WorkKind::weight_gradient) return Bytes(0);
      return sum(&PassBytes::backward) + sum(&PassBytes::again);
    }
    /// Sums over the layer at work and the next one, which is on its way: of hybrids a block each,
    /// else two.
    Bytes gathered() const {
      Bytes bytes;
      for (std::size_t i = done_; i < std::min(done_ + ahead_, blocks_.size()); ++i) {
        bytes += sum(at(i), &PassBytes::gathered);
      }
      return bytes;
    }
    void next() { ++done_; }

   private:
    /// With the routed experts on this GPU.
    Bytes sum(const ChunkBlock& block, Bytes PassBytes::*part) const {
      Bytes bytes = block.bytes.*part;
      if (block.moe >= 0) bytes += experts_[static_cast<std::size_t>(block.moe)][gpu_].*part;
      return bytes;
    }
    const ChunkBlock& at(std::size_t i) const {
      return blocks_[work_.kind == WorkKind::forward ? i : blocks_.size() - 1 - i];
    }

    const StageWork& work_;
    const std::vector<ChunkBlock>& blocks_;
    const Experts& experts_;
    std::size_t gpu_, ahead_;
    Bytes transfers_;
    std::size_t done_ = 0;
  };

  template <class Seen>
  void step(Side& side, const Side* beside, int turn, const Seen& seen) {
    const WorkKind kind = side.work().kind;
    if (kind == WorkKind::forward) live_ += side.sum(&PassBytes::kept);
    stash(side, kind == WorkKind::forward ? 1 : is_backward(kind) ? -1 : 0);
    MemoryUse use;
    use.of(MemoryPart::activations) = live_;
    use.of(MemoryPart::working) = side.working();
    use.of(MemoryPart::gathered) = side.gathered();
    use.of(MemoryPart::transfers) = side.transfers();
    if (beside != nullptr) {
      use.of(MemoryPart::working) += beside->working();
      use.of(MemoryPart::gathered) += beside->gathered();
      use.of(MemoryPart::transfers) += beside->transfers();
    }
    seen(use, turn, side.work(), side.block().held);
    if (is_backward(kind)) live_ += side.sum(&PassBytes::kept) * -1;
    if (kind == WorkKind::input_gradient) live_ += side.sum(&PassBytes::waiting);
    if (kind == WorkKind::weight_gradient) live_ += side.sum(&PassBytes::waiting) * -1;
    side.next();
  }

  void stash(const Side& side, int sign) {
    const PassBytes* bytes = side.stashed();
    if (bytes == nullptr) return;
    paged_ += sign * bytes->paged;
    mean_ += sign * bytes->mean;
    most_paged_ = std::max(most_paged_, paged_);
    most_mean_ = std::max(most_mean_, mean_);
  }

  const StageMemory& of_;
  std::size_t gpu_;
  Bytes live_;
  std::int64_t paged_ = 0, most_paged_ = 0;
  double mean_ = 0, most_mean_ = 0;
};

StageMemory::StageMemory(const StageSpace& stage, const Pipeline& pipeline, int number,
                         const std::vector<const ChunkParts*>& chunks)
    : stage_(stage),
      pipeline_(pipeline),
      number_(number),
      chunks_(chunks),
      state_(static_cast<std::size_t>(stage.gpus()->size())) {
  for (const ChunkParts* chunk : chunks_) blocks_.push_back(blocks_of(*chunk));
  const auto add = [&](const StageWork& work) {
    const ChunkLayers& layers = layers_of(work);
    const auto [known, is_new] = experts_.try_emplace(&layers);
    if (is_new) known->second = expert_bytes(stage_, layers);
  };
  for (const Turn& turn : pipeline.of(number)) {
    add(turn.work);
    if (turn.beside) add(*turn.beside);
  }
  add_state();
}

const ChunkLayers& StageMemory::layers_of(const StageWork& work) const {
  const ChunkParts& chunk = *chunks_[static_cast<std::size_t>(work.chunk)];
  return chunk.of(work.microbatch);
}

/// A forward sends its output, a backward has received a gradient and sends one; what a forward
/// received is the kept input of its first block.
Bytes StageMemory::transfers(const StageWork& work) const {
  const int position = pipeline_.position_of({number_, work.chunk});
  const auto crosses = [&](int other) {
    return other >= 0 && other < pipeline_.positions() &&
           pipeline_.place(work.microbatch, other).stage != number_;
  };
  if (work.kind == WorkKind::weight_gradient) return Bytes(0);
  const int behind = crosses(position + 1) ? 1 : 0;
  const int before = is_backward(work.kind) && crosses(position - 1) ? 1 : 0;
  return stage_.handed_on() * (behind + before);
}

const StageMemory::Experts& StageMemory::experts(const StageWork& work) const {
  return experts_.at(&layers_of(work));
}

Bytes StageMemory::update(GpuId own) const {
  const Spec& options = stage_.options();
  if (!options.optimizer || options.state.optimizer == 0) return Bytes(0);
  const std::int64_t parameters =
      (state(own).of(MemoryPart::optimizer) - second_moments_).value / options.state.optimizer;
  return Bytes(parameters * options.spec.update_bytes);
}

MemoryPeak StageMemory::peak(GpuId own) const {
  MemoryPeak peak;
  peak.stage = number_;
  Bytes most;
  Walk(*this, own)
      .run([&](const MemoryUse& use, int turn, const StageWork& work, const HeldBlock& held) {
        const Bytes total = use.total();
        if (total <= most) return;
        most = total;
        const bool in_layer = held.block != BlockKind::embedding && held.block != BlockKind::head;
        peak.use = use;
        peak.turn = turn;
        peak.work = work;
        peak.layer = in_layer ? held.layer : -1;
        peak.block = held.block;
      });
  if (update(own) > most) {
    peak = {.use = {}, .stage = number_, .update = true};
    peak.use.of(MemoryPart::working) = update(own);
  }
  peak.use += state(own);
  peak.use.of(MemoryPart::activations) += stash(own);
  return peak;
}

Bytes StageMemory::stash(GpuId own) const {
  const auto& stash = stage_.options().spec.stash;
  if (!stash) return Bytes(0);
  Walk walk(*this, own);
  walk.run([](const MemoryUse&, int, const StageWork&, const HeldBlock&) {});
  stash->check_stash(walk.most_paged(), walk.most_mean(), number_);
  return kept_expert_row(stage_, stage_.shard().gemm_types.kept_of_experts()) *
         stash->stash_rows(walk.most_mean());
}

bool StageMemory::holds_as_first(GpuId own) const {
  const auto same = [&](const std::vector<PassBytes>& layer) {
    return layer[own.index()] == layer.front();
  };
  return state(own) == state_.front() && std::ranges::all_of(experts_, [&](const auto& of) {
           return std::ranges::all_of(of.second, same);
         });
}

std::vector<MemoryUse> StageMemory::curve(GpuId own) const {
  std::vector<MemoryUse> result(pipeline_.of(number_).size());
  Walk(*this, own).run([&](const MemoryUse& use, int turn, const StageWork&, const HeldBlock&) {
    MemoryUse& most = result[static_cast<std::size_t>(turn)];
    if (use.total() > most.total()) most = use;
  });
  if (update(own).value > 0) result.emplace_back().of(MemoryPart::working) = update(own);
  const Bytes pages = stash(own);
  for (MemoryUse& use : result) {
    use += state(own);
    use.of(MemoryPart::activations) += pages;
  }
  return result;
}

}  // namespace moesim
