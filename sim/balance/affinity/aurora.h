// SPDX-License-Identifier: Apache-2.0
// Aurora (arXiv 2410.17043): the least time of one exchange behind a big switch, and the order of
// sends that reaches it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/byte_matrix.h"
#include "sim/base/types.h"

namespace moesim {

/// b_max x B: the most bytes that a GPU sends or receives; the diagonal does not count.
Bytes busiest_port(const ByteMatrix& traffic);

/// b_max, the time no order of sends can beat: the largest row or column over its GPU's bandwidth.
/// One bandwidth per GPU (Error).
Seconds aurora_lower_bound(const ByteMatrix& traffic, std::span<const BytesPerSecond> bandwidth);

/// One round: every GPU sends to at most one and receives from at most one.
struct SendRound {
  struct Send {
    GpuId from;
    GpuId to;
    Bytes bytes;  // at most the round's length
    bool operator==(const Send&) const = default;
  };
  Bytes length;             // bytes at full bandwidth until the next round may start
  std::vector<Send> sends;  // by sender
};

/// Rounds whose lengths add up to busiest_port: traffic padded until every row and column has that
/// sum, then peeled into perfect matchings (Birkhoff), each as long as its least entry. GPUs have
/// one bandwidth. The paper orders sends greedily from the bottleneck GPU; the peeling is ours.
std::vector<SendRound> peel_rounds(const ByteMatrix& traffic);

/// The GPU of every expert when GPUs differ and hold as many experts each: by falling load onto
/// GPUs by falling speed, ties by lowest id.
std::vector<GpuId> place_by_speed(std::span<const std::int64_t> loads,
                                  std::span<const double> speeds);

}  // namespace moesim
