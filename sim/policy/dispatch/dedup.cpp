// SPDX-License-Identifier: Apache-2.0
// Flat all-to-all with token deduplication: one copy per token and destination GPU.
// HD1 of HierMoE (arXiv 2508.09591), collaborative communication of Occult (arXiv 2505.13345).
#include "sim/policy/dispatch/flat.h"
#include "sim/policy/policies.h"

namespace moesim {

DispatchMaker read_dedup(const YamlMap&) {
  return [](const DispatchContext& c) {
    return in_every_group(c, [](const RankSpace& ranks) { return Flat<true>(ranks); });
  };
}

}  // namespace moesim
