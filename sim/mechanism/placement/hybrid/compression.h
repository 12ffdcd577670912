// SPDX-License-Identifier: Apache-2.0
// Expert compression of HybridEP (arXiv 2510.19470): the largest differences from a shared expert.
#pragma once

#include <cstdint>

#include "sim/model/moe_model.h"

namespace moesim {

/// How an expert travels: as (value, index) pairs of its largest differences from the shared
/// expert. A ratio of 1 sends the expert itself. The kernels' bytes are ours: the paper prints
/// times only, and only in a figure.
struct ExpertCodec {
  double ratio = 1;                  // bytes of the expert over bytes sent; the paper uses 50
  DataType values = DataType::fp32;  // parameters
  int index_bytes = 4;               // of its position
  std::int64_t parameters = 0;       // of one expert
  /// Whether encoding is a part of the optimizer's step before, and decoding one of the experts:
  /// the published parts of their times that this saves (Fig. 15, "up to").
  bool fused = false;
  static constexpr double encode_saved = 0.30, decode_saved = 0.45;

  bool compresses() const { return ratio > 1; }
  /// q = b / (ratio (b + b_idx)) with b bytes of a parameter, scales included; 1 for a ratio of 1.
  /// Throws Error for ratios below 1.
  double kept_fraction() const;
  /// Parameters sent: q of them rounded down, at least one.
  std::int64_t kept() const;
  /// Bytes of one uncompressed expert, and of one as it travels.
  Bytes expert() const { return bytes_of(parameters, values); }
  Bytes message() const;
};

/// Bytes that a memory-bound kernel reads and writes.
struct KernelTraffic {
  Bytes read;
  Bytes written;
  bool operator==(const KernelTraffic&) const = default;
};

/// Encoding one expert: reads it and the shared expert once, writes the pairs. Nothing when the
/// codec does not compress. Selecting the largest in one pass is a lower bound. Fused, both kernels
/// have as many bytes fewer as they save time.
KernelTraffic encode_traffic(const ExpertCodec& codec);
/// Decoding one expert: reads the pairs and the shared expert, writes the expert.
KernelTraffic decode_traffic(const ExpertCodec& codec);
/// Payload of the shared expert's all-reduce per layer and iteration: one expert, or nothing.
Bytes shared_expert_payload(const ExpertCodec& codec);

}  // namespace moesim
