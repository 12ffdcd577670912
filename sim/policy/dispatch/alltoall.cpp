// SPDX-License-Identifier: Apache-2.0
// Flat all-to-all without deduplication: one copy per token and choice.
// NVIDIA/Megatron-LM, megatron/core/transformer/moe/token_dispatcher.py,
// MoEAlltoAllTokenDispatcher.
#include "sim/policy/dispatch/flat.h"
#include "sim/policy/policies.h"

namespace moesim {

DispatchMaker read_alltoall(const YamlMap&) {
  return [](const DispatchContext& c) {
    return std::make_unique<Evaluated<Flat<false>>>(
        Flat<false>(runs_of(c.topology.gpu_count(), c.ep), "alltoall"));
  };
}

}  // namespace moesim
