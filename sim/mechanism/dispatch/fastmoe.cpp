// SPDX-License-Identifier: Apache-2.0
// FastMoE's exchange: one all-to-all after the other, each for one expert of every rank. He et al.,
// arXiv 2103.13262; laekov/fastmoe at ee3c561, cuda/global_exchange.h.
#include <fmt/format.h>

#include <algorithm>

#include "sim/mechanism/dispatch/flat.h"
#include "sim/mechanism/mechanisms.h"

namespace moesim {
namespace {

constexpr int local_count_bytes = 8;  // int64

class FastMoe : public Flat<false> {
 public:
  FastMoe(const RankSpace& ranks, int experts_per_rank, Seconds host)
      : Flat(ranks), phases_(std::max(1, experts_per_rank)), host_(host) {}

  /// Every rank tells every other how many rows each of its experts gets; the host reads the counts
  /// to issue sends and receives.
  DispatchShape shape(const MoeModel& model) const {
    DispatchShape shape(model);
    for (int p = 0; p < phases_; ++p) shape.add(fmt::format("expert-{}", p), all()).previous = -1;
    shape.wire(Stage::dispatch, Pass::forward).sides = {
        {"counts", Bytes(0), Bytes(local_count_bytes * phases_), true, host_}};
    return shape;
  }

  /// The choices of the slots that are at a phase's place on their GPU. Unstated in the paper,
  /// whose ranks hold E / G experts each: further slots (replicas) join the phases in turn.
  Choices part(int phase, Choices choices, const int* local) const {
    Choices result = 0;
    for_each_choice(choices, [&](int k) {
      if (local[k] % phases_ == phase) result |= Choices{1} << k;
    });
    return result;
  }

 private:
  int phases_;
  Seconds host_;
};

}  // namespace

// host_wait: until the host has read the counts.
DispatchMaker read_fastmoe(const YamlMap& params) {
  return [host = params.seconds("host_wait", Seconds(0))](const DispatchContext& c) {
    const int per_rank = (c.model.experts + c.groups.size() - 1) / c.groups.size();
    return in_every_group(c,
                          [&](const RankSpace& ranks) { return FastMoe(ranks, per_rank, host); });
  };
}

}  // namespace moesim
