// SPDX-License-Identifier: Apache-2.0
// Flat all-to-all with token deduplication: one copy per token and destination GPU.
// HD1 of HierMoE (arXiv 2508.09591), collaborative communication of Occult (arXiv 2505.13345).
#include <fmt/format.h>

#include "sim/base/figures.h"
#include "sim/mechanism/dispatch/flat.h"
#include "sim/mechanism/mechanisms.h"

namespace moesim {
namespace {

/// `fused`: experts' products read the arrived rows, and write one sum per row, through indices, so
/// that no kernel copies rows into the order of the experts (Occult's scatter and merge GEMM; BRIM
/// are its index tables). Rows are still gathered into the send buffer.
class Dedup : public Flat<true> {
 public:
  Dedup(const RankSpace& ranks, bool fused) : Flat(ranks), fused_(fused) {}
  DispatchShape shape(const MoeModel& model) const {
    DispatchShape shape = Flat::shape(model);
    shape.local_work.arrange = !fused_;
    return shape;
  }

 private:
  bool fused_;
};

std::unique_ptr<Dispatch> deduplicated(const DispatchContext& c, bool fused) {
  return in_every_group(c, [&](const RankSpace& ranks) { return Dedup(ranks, fused); });
}

}  // namespace

// permute: kernels, or fused into the experts' products.
DispatchMaker read_dedup(const YamlMap& params) {
  const bool fused = params.choice("permute", {"kernels", "fused"}, 0) == 1;
  return [fused](const DispatchContext& c) { return deduplicated(c, fused); };
}

// Rows stored into the memory of other GPUs, which NVLink has to join.
DispatchMaker read_nvlink_one_sided(const YamlMap&) {
  return [](const DispatchContext& c) {
    auto made = deduplicated(c, false);
    if (const int hosts = c.groups.most_hosts(); hosts > 1) {
      made->forbid(fmt::format("one-sided NVLink joins the GPUs of one host, an EP group has {}",
                               counted(hosts, "host")));
    }
    return made;
  };
}

}  // namespace moesim
