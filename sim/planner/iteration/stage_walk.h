// SPDX-License-Identifier: Apache-2.0
// What a GPU of a stage holds from block to block. Private to StageMemory.
#pragma once

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "sim/planner/iteration/stage_memory.h"

namespace moesim {

/// One GPU from turn to turn.
class StageMemory::Walk {
 public:
  Walk(const StageMemory& of, GpuId gpu) : of_(of), gpu_(gpu.index()) {
    for (const Turn& turn : of_.pipeline_.of(of_.number_)) {
      add_returns(turn.work);
      if (turn.beside) add_returns(*turn.beside);
    }
  }

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
  Bytes most_on_host() const { return most_on_host_; }

 private:
  /// A work on its way through the blocks of its chunk.
  class Side {
   public:
    Side(const StageMemory& of, const StageWork& work, std::size_t gpu)
        : work_(work),
          blocks_(of.blocks_[static_cast<std::size_t>(work.chunk)]),
          last_(of.last_[static_cast<std::size_t>(work.chunk)]),
          keeps_last_(of.keeping_last_.contains({work.microbatch, work.chunk})),
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
    /// What the block at work keeps on the GPU, and leaves to the memory of the host.
    Bytes kept() const {
      return sum(&PassBytes::kept) + (stays() ? sum(&PassBytes::moved) : Bytes());
    }
    Bytes moved() const { return stays() ? Bytes() : sum(&PassBytes::moved); }
    bool at_end() const { return done_ + 1 == blocks_.size(); }
    void next() { ++done_; }

   private:
    bool stays() const {
      return keeps_last_ &&
             last_[work_.kind == WorkKind::forward ? done_ : last_.size() - 1 - done_];
    }
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
    const std::vector<bool>& last_;
    bool keeps_last_;
    const Experts& experts_;
    std::size_t gpu_, ahead_;
    Bytes transfers_;
    std::size_t done_ = 0;
  };

  template <class Seen>
  void step(Side& side, const Side* beside, int turn, const Seen& seen) {
    const WorkKind kind = side.work().kind;
    if (kind == WorkKind::forward) {
      live_ += side.kept();
      on_host_ += side.moved();
    } else {
      leaving_ = Bytes();
    }
    stash(side, kind == WorkKind::forward ? 1 : goes_backward(kind) ? -1 : 0);
    MemoryUse use;
    const Bytes here = here_of_moved(side);
    most_on_host_ = std::max(most_on_host_, on_host_ + here * -1);
    use.of(MemoryPart::activations) = live_ + here;
    use.of(MemoryPart::working) = side.working();
    use.of(MemoryPart::gathered) = side.gathered();
    use.of(MemoryPart::transfers) = side.transfers();
    if (beside != nullptr) {
      use.of(MemoryPart::working) += beside->working();
      use.of(MemoryPart::gathered) += beside->gathered();
      use.of(MemoryPart::transfers) += beside->transfers();
    }
    seen(use, turn, side.work(), side.block().held);
    if (kind == WorkKind::forward) end_forward(side);
    if (goes_backward(kind)) {
      live_ += side.kept() * -1;
      on_host_ += side.moved() * -1;
      ++returned_;
    }
    if (kind == WorkKind::input_gradient) live_ += side.sum(&PassBytes::waiting);
    if (kind == WorkKind::weight_gradient) live_ += side.sum(&PassBytes::waiting) * -1;
    side.next();
  }

  /// Blocks in the order of their backward passes, with what has to come back for each.
  void add_returns(const StageWork& work) {
    if (!goes_backward(work.kind) || of_.stage_.options().spec.offload.empty()) return;
    for (Side side(of_, work, gpu_); side.left(); side.next()) {
      returns_.push_back({{work.microbatch, work.chunk}, side.moved()});
    }
  }

  void end_forward(const Side& side) {
    leaving_ = side.moved();
    if (side.at_end()) forwarded_.insert({side.work().microbatch, side.work().chunk});
  }

  /// What is on the GPU of all that waits in the memory of the host: leaving, or coming back.
  Bytes here_of_moved(const Side& side) const {
    constexpr std::size_t ahead = 2;  // the block that is next, and the one behind it
    Bytes here = leaving_;
    if (side.work().kind == WorkKind::forward) here += side.moved();
    for (std::size_t i = returned_; i < std::min(returned_ + ahead, returns_.size()); ++i) {
      if (forwarded_.contains(returns_[i].first)) here += returns_[i].second;
    }
    return here;
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
  std::vector<std::pair<std::pair<int, int>, Bytes>> returns_;  // of microbatch and chunk
  std::size_t returned_ = 0;
  std::set<std::pair<int, int>> forwarded_;
  Bytes leaving_, on_host_, most_on_host_;
};

}  // namespace moesim
