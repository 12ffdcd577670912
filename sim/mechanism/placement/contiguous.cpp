// SPDX-License-Identifier: Apache-2.0
// The static baseline: experts in id order over the ranks of every expert-parallel group.
#include "sim/mechanism/mechanisms.h"

namespace moesim {
namespace {

class Contiguous final : public Placer {
 public:
  explicit Contiguous(const PlacementContext& c)
      : assignment_(c.groups.in_every_group(Assignment(
            contiguous_placement(c.experts, c.groups.size(), c.groups.size()), c.groups.size()))) {}
  LayerDecision decide(const LayerRoutingNow&) override { return LayerDecision(assignment_); }

  bool looks() const override { return false; }

 private:
  Assignment assignment_;
};

}  // namespace

PlacementMaker read_contiguous(const YamlMap&) {
  return [](const PlacementContext& context) { return std::make_unique<Contiguous>(context); };
}

}  // namespace moesim
