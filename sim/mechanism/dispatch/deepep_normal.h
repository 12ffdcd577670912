// SPDX-License-Identifier: Apache-2.0
// The mechanism of DeepEP's normal kernels: RDMA hops and NVLink forwards that overlap by rounds.
#pragma once

#include "sim/mechanism/dispatch/hierarchical.h"

namespace moesim {

/// Tokens in one RDMA put of the dispatch and of the combine. The published defaults for `ep` ranks
/// (deepseek-ai/DeepEP, deep_ep/buffers/legacy.py); unlisted sizes take those of the next smaller.
struct RdmaChunks {
  int dispatch = 6;
  int combine = 6;
};
RdmaChunks published_chunks(int ep);

/// Two streaming multiprocessors each: 12 of the default 24.
inline constexpr int published_channels = 12;

struct DeepEpParameters {
  bool fp8 = true;             // of the forward dispatch
  bool fp8_gradients = false;  // of gradients that leave for the experts
  int channels = published_channels;
  RdmaChunks chunks;
  int rounds = 1;         // at most
  Seconds chunk_time{0};  // a chunk's turn in its ring
  Seconds host_wait{0};   // until the host has read how many rows come; 0: it does not wait
};

/// One copy per token and node to the GPU with the same index there, which forwards one copy per
/// GPU. The tokens of a rank are cut into equal rounds, and the forwards of one overlap the RDMA
/// hops of the next; inside one node there is but one round and no RDMA.
class DeepEpNormal : public Hierarchical {
 public:
  DeepEpNormal(const RankSpace& ranks, const DeepEpParameters& parameters, int rounds);

  /// The kernels read tokens where they are, and forward and add up rows themselves. Between two
  /// nodes every channel has one ring, through which chunks go in turn.
  DispatchShape shape(const MoeModel& model) const;

  /// Token i of n is of round floor(i x rounds / n).
  TokenRange taken(int phase, std::int64_t count) const {
    const auto first = [&](std::int64_t round) { return (round * count + rounds_ - 1) / rounds_; };
    return {first(phase / hops_), first(phase / hops_ + 1)};
  }
  int hop(int phase) const { return phase % hops_; }
  template <class Hops>
  void next(int phase, GpuId holder, Choices choices, const GpuId* target, Hops& hops) const {
    Hierarchical::next(hop(phase), holder, choices, target, hops);
  }

 private:
  Bytes message_bytes(const MoeModel& model, Stage stage, Pass pass) const;

  DeepEpParameters parameters_;
  int hops_;
  int rounds_;
};

/// Rounds of a layer whose fullest rank has `tokens`: the chunks that fill every channel's share of
/// them, the last maybe in part. Rounds are equal, so that two may be less than a chunk each.
int rounds_for(std::int64_t tokens, const DeepEpParameters& parameters);

}  // namespace moesim
