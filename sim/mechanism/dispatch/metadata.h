// SPDX-License-Identifier: Apache-2.0
// What dispatchers built on Megatron-LM exchange next to the rows. NVIDIA/Megatron-LM at d98e8a6,
// megatron/core/transformer/moe/token_dispatcher.py, MoEAlltoAllTokenDispatcher.
#pragma once

#include "sim/mechanism/dispatch.h"

namespace moesim {

/// - counts: before the rows, every rank of an EP group tells every other its int64 counts of all
///   experts (an all-gather), and the host reads them, which takes `host`.
/// - probs: after the rows of every phase an all-to-all of fp32 probabilities on the same paths,
///   forward, and of their gradients, backward. A row that stands for all choices of a token in a
///   group carries those of all top-k choices.
/// Going back the sizes are known.
struct DispatchMetadata {
  bool counts = false, probs = false;
  Seconds host{0};
};

/// Reads a dispatch's `metadata`, none by default: counts and probs (false) and host_wait (0 s),
/// which needs counts.
DispatchMetadata read_metadata(const YamlMap& dispatch);

/// Adds it to a dispatch; `merged`: rows stand for several choices.
void add_metadata(Dispatch& dispatch, const DispatchMetadata& metadata,
                  const DispatchContext& context, bool merged);

}  // namespace moesim
