// SPDX-License-Identifier: Apache-2.0
// All-gather of every row to every rank, local selection, reduce-scatter back: volumes do not
// depend on the routing. NVIDIA/Megatron-LM at d98e8a6,
// megatron/core/transformer/moe/token_dispatcher.py, MoEAllGatherTokenDispatcher.
#include <fmt/format.h>

#include "sim/base/unsuitable.h"
#include "sim/mechanism/evaluate.h"
#include "sim/mechanism/mechanisms.h"

namespace moesim {
namespace {

class AllGather {
 public:
  static constexpr std::size_t max_hops = 512;

  /// `direct`: every rank to every other. Else across the nodes between equal indices and then
  /// inside each node, so that a row enters a node once, as on the rings and trees of NCCL.
  AllGather(const RankSpace& ranks, bool direct, DataType probabilities, bool maps)
      : ranks_(ranks),
        two_steps_(!direct && ranks.spread() && ranks.shared()),
        probabilities_(probabilities),
        maps_(maps) {}

  /// The collectives read and write the tensors themselves. Results are summed in the type of the
  /// probabilities, and so are their gradients gathered. Besides go a boolean and a probability for
  /// every expert of every token; gradients of the latter return.
  DispatchShape shape(const MoeModel& model) const {
    DispatchShape shape(model);
    if (two_steps_) {
      shape.add("inter", ranks_.hosts().across());
      shape.add("intra", ranks_.hosts().groups());
    } else {
      shape.add("allgather", ranks_.all());
    }
    shape.local_work = {false, false};
    const Bytes result(model.routed_width() * size_of(probabilities_));
    shape.wire(Stage::combine, Pass::forward).row = result;
    shape.wire(Stage::dispatch, Pass::backward).row = result;
    if (!maps_) return shape;
    const SideExchange probs{"probs", Bytes(std::int64_t{model.experts} * size_of(probabilities_)),
                             Bytes(0)};
    shape.wire(Stage::dispatch, Pass::forward).sides = {
        {"routing-map", Bytes(model.experts), Bytes(0)}, probs};
    shape.wire(Stage::combine, Pass::backward).sides = {probs};
    return shape;
  }

  template <class Hops>
  void next(int phase, GpuId holder, Choices choices, const GpuId* target, Hops& hops) const {
    const RankLevel& hosts = ranks_.hosts();
    if (two_steps_ && phase == 0) {
      for (int host = 0; host < hosts.size(); ++host) {
        hops.add(hosts.counterpart(holder, host),
                 those(choices, [&](int k) { return hosts.group_of(target[k]) == host; }));
      }
      return;
    }
    for (const GpuId to :
         two_steps_ ? hosts.members(hosts.group_of(holder)) : ranks_.all().front()) {
      hops.add(to, those(choices, [&](int k) { return target[k] == to; }));
    }
  }

 private:
  template <class Condition>
  static Choices those(Choices choices, Condition condition) {
    Choices result = 0;
    for_each_choice(choices, [&](int k) { result |= condition(k) ? Choices{1} << k : 0; });
    return result;
  }

  RankSpace ranks_;
  bool two_steps_;
  DataType probabilities_;
  bool maps_;
};

}  // namespace

// algorithm: by-node (default) or direct; probs: fp32 (default) or bf16, the router's data type;
// maps: true (default), or false where every rank computes the gate of all rows.
DispatchMaker read_all_gather(const YamlMap& params) {
  const bool direct = params.choice("algorithm", {"by-node", "direct"}, 0) == 1;
  const DataType probabilities =
      params.choice("probs", {"fp32", "bf16"}, 0) == 0 ? DataType::fp32 : DataType::bf16;
  const bool maps = params.boolean("maps", true);
  return [=](const DispatchContext& c) {
    if (static_cast<std::size_t>(c.groups.size()) > AllGather::max_hops) {
      throw Unsuitable(fmt::format("'allgather' is made for up to {} ranks, not for {}",
                                   AllGather::max_hops, c.groups.size()));
    }
    return in_every_group(
        c, [&](const RankSpace& ranks) { return AllGather(ranks, direct, probabilities, maps); });
  };
}

}  // namespace moesim
