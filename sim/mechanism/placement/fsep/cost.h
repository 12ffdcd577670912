// SPDX-License-Identifier: Apache-2.0
// What LAER-MoE's planner thinks a placement costs.
#pragma once

#include <functional>
#include <span>

#include "sim/mechanism/placement/fsep/spread.h"

namespace moesim::fsep {

/// Figures of the cost; the defaults are those of LAER-MoE's released code (A100, hidden 4096).
struct CostParameters {
  BytesPerSecond same_rank{1e18};
  BytesPerSecond same_node{216.269e9};
  BytesPerSecond other_node{88.9539e9};
  Seconds per_token_slot{6.709568e-3 / 4096};  // forward of one expert, v_comp
  Bytes token{8192};                           // one token's hidden vector on the wire
  bool activation_checkpointing = true;        // the backward repeats the forward
};

/// How t choices count that meet w slots in reach.
enum class Counting {
  planner,  // t/w each and one more for the first t mod w: t + t mod w in all, as released
  integer,  // what lite routing really sends
};

/// Ranks placements; no iteration time: the sum over ranks of what they send, dispatch and combine
/// forward and backward, and the most loaded rank's computation.
struct Cost {
  Seconds communication;  // 4 x sum over ranks
  Seconds computation;    // (3, or 4 with activation checkpointing) x maximum over ranks
  Seconds total() const { return communication + computation; }
};

/// The cost on nodes of equal ranks in O(N*E + slots); throws Error when the shapes differ.
Cost cost(const LoadMatrix& loads, const Reach& reach, const CostParameters& parameters,
          Counting counting = Counting::planner);

/// Fills in the seconds per byte from `source` to every rank, itself included.
using Links = std::function<void(GpuId source, std::span<double> seconds_per_byte)>;

/// The same cost over any links, in place of the three bandwidths of the parameters: O(N x slots).
Cost cost(const LoadMatrix& loads, const Reach& reach, const CostParameters& parameters,
          const Links& links, Counting counting = Counting::planner);

}  // namespace moesim::fsep
