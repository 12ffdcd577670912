// SPDX-License-Identifier: Apache-2.0
// Aurora (arXiv 2410.17043): the least time of one exchange behind a big switch, and rounds of
// sends that reach it.
#pragma once

#include <vector>

#include "sim/base/byte_matrix.h"

namespace moesim::test {

/// b_max x B: the most bytes that a GPU sends or receives; the diagonal does not count. Over a
/// port's bandwidth it is the time that no order of sends beats.
Bytes busiest_port(const ByteMatrix& traffic);

/// One round: every GPU sends to at most one and receives from at most one.
struct SendRound {
  struct Send {
    GpuId from;
    GpuId to;
    Bytes bytes;  // at most the round's length
  };
  Bytes length;             // bytes at full bandwidth until the next round may start
  std::vector<Send> sends;  // by sender
};

/// Rounds whose lengths add up to busiest_port: traffic padded until every row and column has that
/// sum, then peeled into perfect matchings (Birkhoff), each as long as its least entry. GPUs have
/// one bandwidth. The paper orders sends greedily from the bottleneck GPU; the peeling is ours.
std::vector<SendRound> peel_rounds(const ByteMatrix& traffic);

}  // namespace moesim::test
