// SPDX-License-Identifier: Apache-2.0
// A request on its way through an engine.
#pragma once

#include <cstdint>
#include <span>

#include "sim/serving/engine/kv_cache.h"

namespace moesim {

struct ServingSequence {
  std::int64_t request = 0;               // its place in the log
  std::span<const std::uint64_t> hashes;  // of the prompt; the log outlives the run
  std::int64_t known = 0;     // tokens whose ids are known: the prompt and what was generated
  std::int64_t computed = 0;  // of them, those whose keys and values are in the cache
  std::int64_t output = 0;    // tokens to generate in all
  std::int64_t emitted = 0;   // of them, generated ones
  std::int64_t carried = 0;   // tokens whose keys and values come from another instance
  bool hands_over = false;    // another instance continues: blocks stay until they are copied
  bool admitted = false;      // at least once
  HeldKv kv;

  /// Whether the next pass computes prompt tokens, or tokens that were computed before.
  bool in_prompt() const { return emitted == 0 || known - computed > 1; }
  std::int64_t remaining() const { return output - emitted; }
};

}  // namespace moesim
