// SPDX-License-Identifier: Apache-2.0
// What a serving engine runs in one forward pass.
#pragma once

#include <cstdint>
#include <vector>

namespace moesim {

/// Sequences of one pass that are alike.
struct SequenceStep {
  std::int64_t context = 0;   // tokens of each in the KV cache before the pass
  std::int64_t tokens = 1;    // new ones of each: a chunk of a prompt, 1 of decode, 1 + drafts
  std::int64_t count = 1;     // how many sequences
  std::int64_t request = -1;  // whose recorded tokens they are; -1: not stated
  bool operator==(const SequenceStep&) const = default;
};

/// New tokens that every rank must have for a pass to be split into parts that take turns: where
/// all sequences decode, and elsewhere. 0: any pass is split.
struct OverlapFrom {
  std::int64_t decode = 0, prompts = 0;
  bool operator==(const OverlapFrom&) const = default;
};

/// New tokens, and sequences, of a rank's list.
inline std::int64_t tokens_of(const std::vector<SequenceStep>& list) {
  std::int64_t sum = 0;
  for (const SequenceStep& each : list) sum += each.tokens * each.count;
  return sum;
}
inline std::int64_t sequences_of(const std::vector<SequenceStep>& list) {
  std::int64_t sum = 0;
  for (const SequenceStep& each : list) sum += each.count;
  return sum;
}

/// Prefill, decode and mixed passes differ in their lists only.
struct ServingBatch {
  std::vector<std::vector<SequenceStep>> ranks;  // [rank of attention data parallelism]
  bool operator==(const ServingBatch&) const = default;
};

}  // namespace moesim
