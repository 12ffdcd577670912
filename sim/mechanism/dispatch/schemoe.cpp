// SPDX-License-Identifier: Apache-2.0
// ScheMoE's Pipe-A2A: pairs inside a node and pairs across nodes exchange on two streams at once.
// Shi et al., EuroSys 2024; Fragile-azalea/ScheMoE at 402975e, schemoe/custom/comm/pipe.cpp. With
// exact row counts instead of capacity padding. `bits` per element of a row on the wire, if ZFP
// encodes it; its kernels are taken to be bound by memory.
#include <fmt/format.h>

#include "sim/mechanism/evaluate.h"
#include "sim/mechanism/mechanisms.h"

namespace moesim {
namespace {

class PipeA2A {
 public:
  PipeA2A(const RankSpace& ranks, int bits) : ranks_(ranks), bits_(bits) {}

  DispatchShape shape(const MoeModel& model) const {
    DispatchShape shape(model);
    if (bits_ > 0) {
      shape.local_work.coded = true;
      shape.rows = {bits_, fmt::format("{}-bit", bits_)};
      for (WireFormat& wire : shape.wires) {
        wire.row = Bytes((model.routed_width() * bits_ + 7) / 8);
      }
    }
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
  int bits_;  // 0: rows travel as they are
};

}  // namespace

DispatchMaker read_schemoe_pipe(const YamlMap& params) {
  const auto bits = static_cast<int>(params.integer("bits", {1, 32}, 0));
  return [bits](const DispatchContext& c) {
    return in_every_group(c, [bits](const RankSpace& ranks) { return PipeA2A(ranks, bits); });
  };
}

}  // namespace moesim
