// SPDX-License-Identifier: Apache-2.0
// The bytes that move among a group of GPUs: a matrix over its members, read either way.
#pragma once

#include <span>

#include "sim/base/byte_matrix.h"
#include "sim/base/place_of.h"
#include "sim/base/types.h"

namespace moesim {

/// Entry (i, j) of the matrix goes from member i to member j; if it is transposed, from j to i.
/// Looks at what others own.
struct GroupTraffic {
  const ByteMatrix& matrix;        // members x members
  std::span<const GpuId> members;  // ascending
  bool transposed = false;         // so that the way back needs no matrix of its own
  int rounds = 1;                  // steps whose latency counts, of one collective
  bool ring = false;               // they go round one or several rings
  /// Entry (i, i) goes from member i to the memory of its host; if it is transposed, back.
  bool with_hosts = false;

  /// The GPU of a row or column of the matrix.
  GpuId gpu(GpuId member) const { return members[member.index()]; }

  /// Calls visit(from, to, bytes) with GPUs for every entry, by rows of the matrix: if the order of
  /// the senders counts, go through moved().
  template <class Visit>
  void for_each(Visit visit) const {
    for (int row = 0; row < matrix.ranks(); ++row) {
      const GpuId member(row), here = gpu(member);
      for (const ByteMatrix::Entry& entry : matrix.row(member)) {
        const GpuId there = gpu(entry.to);
        const Bytes bytes = matrix.bytes(entry);
        transposed ? visit(there, here, bytes) : visit(here, there, bytes);
      }
    }
  }

  /// From one GPU to another, both members.
  Bytes at(GpuId from, GpuId to) const {
    const auto member = [&](GpuId gpu) { return GpuId(place_of(members, gpu)); };
    return transposed ? matrix.at(member(to), member(from)) : matrix.at(member(from), member(to));
  }

  /// members x members as the bytes move: a copy of its own if it is transposed.
  ByteMatrix moved() const { return transposed ? matrix.transposed() : matrix; }
};

}  // namespace moesim
