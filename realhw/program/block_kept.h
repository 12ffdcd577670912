// SPDX-License-Identifier: Apache-2.0
// What a block keeps from its forward to its backward pass. Private to the block program.
#pragma once

#include <optional>

#include "realhw/program/block_program.h"

namespace moesim {

/// `h` and `a` are a product's result and what the next product takes: of dense products, of shared
/// experts, of the head; the output of attention is an `a`. With a tensor group, `n` and `dout` are
/// of all rows once these have been gathered, and `dn` until these are scattered.
struct BlockProgram::Kept {
  RowMatrix x, n, projected, normed, rotated, h, a;
  RowMatrix dout, da, dh, dn;
  RowMatrix shares, losses, sums;  // of the loss; sums: of the tensor group's words
  RowMatrix partial;  // what the last product adds to the stream, before the group has summed it
  std::optional<RowMatrix> shared_dn;  // by the input of shared experts
  bool entered = false;                // the gradient has been handed to the routed experts
};

}  // namespace moesim
