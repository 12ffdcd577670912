// SPDX-License-Identifier: Apache-2.0
// A Mamba-2 mixer in detail (Dao and Gu, arXiv:2405.21060).
#pragma once

#include <cstdint>

namespace moesim {

/// Keeps one head_dim x state matrix per head, so its work does not grow with the sequence. The
/// heads of a group share the vectors that write their states (B) and read them (C).
struct MambaShape {
  /// Tokens of a chunk, within which products take the place of the recurrence: MambaMixer's
  /// default in Megatron-Core.
  static constexpr std::int64_t chunk = 128;

  int heads = 0;
  int head_dim = 0;
  int groups = 0;
  int state = 0;  // of one row of a head
  int conv = 0;   // tokens that its causal convolution sees
  std::int64_t inner() const { return std::int64_t{1} * heads * head_dim; }
  std::int64_t shared() const { return std::int64_t{1} * groups * state; }  // B, and as wide C
  std::int64_t convolved() const { return inner() + 2 * shared(); }         // input, B and C
  /// Columns of the input projection: output gate, input, B, C, and a time step per head.
  std::int64_t projected() const { return inner() + convolved() + heads; }
  std::int64_t projections(std::int64_t hidden) const { return hidden * (projected() + inner()); }
  /// All that one mixer learns, without the norm before it: projections; the convolution with its
  /// bias; a decay, a skip and a time step per head; the norm of the output.
  std::int64_t parameters(std::int64_t hidden) const {
    return projections(hidden) + convolved() * (conv + 1) + std::int64_t{3} * heads + inner();
  }
  /// Multiplications of the scan for one token: of B and C in its chunk, one for all heads of a
  /// group; of their results with the inputs; into the state of the chunk, and out of that before.
  std::int64_t group_products() const { return chunk * shared(); }
  std::int64_t head_products() const { return (chunk + std::int64_t{2} * state) * inner(); }
};

}  // namespace moesim
