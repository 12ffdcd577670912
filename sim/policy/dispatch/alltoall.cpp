// SPDX-License-Identifier: Apache-2.0
// Flat all-to-all without deduplication: one copy per token and choice.
// NVIDIA/Megatron-LM at d98e8a6, megatron/core/transformer/moe/token_dispatcher.py,
// MoEAlltoAllTokenDispatcher.
#include "sim/policy/dispatch/flat.h"
#include "sim/policy/policies.h"

namespace moesim {
namespace {

constexpr int count_bytes = 8;        // int64
constexpr int probability_bytes = 4;  // fp32

class AllToAll : public Flat<false> {
 public:
  struct Metadata {
    bool counts, probs;
    Seconds host;  // until the host has read the counts
  };
  AllToAll(const RankSpace& ranks, Metadata metadata) : Flat(ranks), metadata_(metadata) {}

  /// Every rank tells every other its counts of all experts (an all-gather) and waits for the split
  /// sizes on the host; a second all-to-all brings the probability of each row. Going back, the
  /// sizes are known and only gradients bring probabilities.
  DispatchShape shape(const MoeModel& model) const {
    DispatchShape shape = Flat::shape(model);
    auto& sides = shape.wire(Stage::dispatch, Pass::forward).sides;
    if (metadata_.counts) {
      sides.push_back(
          {"counts", Bytes(0), Bytes(count_bytes * model.experts), true, metadata_.host});
    }
    if (metadata_.probs) {
      const SideExchange probs{"probs", Bytes(probability_bytes), Bytes(0)};
      sides.push_back(probs);
      shape.wire(Stage::combine, Pass::backward).sides.push_back(probs);
    }
    return shape;
  }

 private:
  Metadata metadata_;
};

}  // namespace

// counts: all-gather them before the rows; host_wait: for the host to read them; probs: exchange
// the probabilities after the rows. Without metadata the rows go alone.
DispatchMaker read_alltoall(const YamlMap& params) {
  AllToAll::Metadata metadata{params.boolean("counts", false), params.boolean("probs", false),
                              params.seconds("host_wait", Seconds(0))};
  if (!metadata.counts) {
    if (const auto wait = params.find("host_wait")) {
      wait->error("'dispatch.host_wait' has no effect: there are no counts to read",
                  "say counts: true, or leave 'host_wait' out");
    }
  }
  return [metadata](const DispatchContext& c) {
    return in_every_group(c, [&](const RankSpace& ranks) { return AllToAll(ranks, metadata); });
  };
}

}  // namespace moesim
