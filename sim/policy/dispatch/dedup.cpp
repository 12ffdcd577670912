// SPDX-License-Identifier: Apache-2.0
// Flat all-to-all with token deduplication: one copy per token and destination GPU.
// HD1 of HierMoE (arXiv 2508.09591), collaborative communication of Occult (arXiv 2505.13345).
#include <fmt/format.h>

#include <algorithm>

#include "sim/policy/dispatch/flat.h"
#include "sim/policy/policies.h"

namespace moesim {
namespace {

std::unique_ptr<Dispatch> deduplicated(const DispatchContext& c) {
  return in_every_group(c, [](const RankSpace& ranks) { return Flat<true>(ranks); });
}

}  // namespace

DispatchMaker read_dedup(const YamlMap&) { return deduplicated; }

// Rows stored into the memory of other GPUs, which NVLink has to join.
DispatchMaker read_nvlink_one_sided(const YamlMap&) {
  return [](const DispatchContext& c) {
    auto made = deduplicated(c);
    int hosts = 1;
    for (const RankSpace& ranks : c.groups.spaces()) hosts = std::max(hosts, ranks.hosts().size());
    if (hosts > 1) {
      made->add_note(fmt::format(
          "cannot run so: one-sided NVLink joins the GPUs of one host, an EP group has {}", hosts));
    }
    return made;
  };
}

}  // namespace moesim
