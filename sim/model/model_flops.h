// SPDX-License-Identifier: Apache-2.0
// Model flop of training, from which TFLOP/s and MFU follow. What is computed twice is counted
// once.
#pragma once

#include "sim/model/moe_model.h"

namespace moesim {

struct FlopCount {
  std::int64_t sequence = 4096;
  bool causal = true;   // half of the scores, as Megatron counts; otherwise all of them
  bool windows = true;  // window layers count as such; otherwise as full ones
  bool mtp = true;      // with multi-token-prediction layers and their heads
  bool router = false;  // Megatron leaves it out
};

/// Flop per token of forward and backward, by what computes them.
struct ModelFlops {
  double projections = 0;  // of attention and of Mamba mixers
  double scores = 0;       // of attention; of Mamba mixers convolution and scan
  double ffn = 0;          // of dense layers
  double router = 0;
  double shared = 0;
  double routed = 0;
  double mtp = 0;   // only of its projections; the rest of its layers is in the other parts
  double head = 0;  // logits, of each multi-token-prediction layer too
  double total() const {
    return projections + scores + ffn + router + shared + routed + mtp + head;
  }
};

/// 3 x 2 x weights that a token meets, plus 3 x 2 x keys x score width: forward, and both gradients
/// of each product. Megatron-Bridge's count (flop_utils.py), less its norms. Throws Error when
/// the file describes no whole model.
ModelFlops training_flops(const MoeModel& model, const FlopCount& count = {});

}  // namespace moesim
