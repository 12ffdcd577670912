// SPDX-License-Identifier: Apache-2.0
// ScheMoE's Pipe-A2A: pairs inside a node and pairs across nodes exchange on two streams at once.
// Shi et al., EuroSys 2024; Fragile-azalea/ScheMoE at 402975e, schemoe/custom/comm/pipe.cpp. With
// exact row counts instead of capacity padding.
#include "sim/policy/evaluate.h"
#include "sim/policy/policies.h"

namespace moesim {
namespace {

class PipeA2A {
 public:
  explicit PipeA2A(const RankSpace& ranks) : ranks_(ranks) {}

  DispatchShape shape(const MoeModel& model) const {
    DispatchShape shape(model);
    shape.add("intra", ranks_.hosts().groups());
    if (!ranks_.spread()) return shape;
    PhaseShape& inter = shape.add("inter", ranks_.all());
    inter.previous = -1;
    inter.stream = Stream::ep_2;
    return shape;
  }

  bool merges() const { return false; }
  template <class Hops>
  void next(int phase, GpuId holder, Choices choices, const GpuId* target, Hops& hops) const {
    for_each_choice(choices, [&](int k) {
      const bool inside = ranks_.hosts().group_of(holder) == ranks_.hosts().group_of(target[k]);
      if (inside == (phase == 0)) hops.add(target[k], Choices{1} << k);
    });
  }

 private:
  RankSpace ranks_;
};

}  // namespace

DispatchMaker read_schemoe_pipe(const YamlMap&) {
  return [](const DispatchContext& c) {
    return in_every_group(c, [](const RankSpace& ranks) { return PipeA2A(ranks); });
  };
}

}  // namespace moesim
