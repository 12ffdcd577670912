// SPDX-License-Identifier: Apache-2.0
// Flat all-to-all without deduplication: one copy per token and choice.
// NVIDIA/Megatron-LM at d98e8a6, megatron/core/transformer/moe/token_dispatcher.py,
// MoEAlltoAllTokenDispatcher.
#include "sim/mechanism/dispatch/flat.h"
#include "sim/mechanism/dispatch/metadata.h"
#include "sim/mechanism/mechanisms.h"

namespace moesim {

std::unique_ptr<Dispatch> flat_alltoall(const DispatchContext& context) {
  return in_every_group(context, [](const RankSpace& ranks) { return Flat<false>(ranks); });
}

// metadata: see read_metadata. Without it nothing but rows moves.
DispatchMaker read_alltoall(const YamlMap& params) {
  return [metadata = read_metadata(params)](const DispatchContext& c) {
    auto dispatch = flat_alltoall(c);
    add_metadata(*dispatch, metadata, c, false);
    return dispatch;
  };
}

}  // namespace moesim
