// SPDX-License-Identifier: Apache-2.0
// TensorRT-LLM's online balancer (moeLoadBalancer.cpp, moeLoadBalanceKernels.cu): a few layers are
// placed anew per iteration, by loads that fade, and changed slots are filled from host memory.
#include <algorithm>
#include <cmath>

#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/serving/prediction.h"
#include "sim/mechanism/placement/serving/serving.h"
#include "sim/mechanism/placement/serving/trt_llm.h"

namespace moesim {
namespace {

struct TrtLlmOptions {
  PlanningOptions when;
  int slots = 0;
  int updates = 0;  // layers per iteration, 0: static
  double decay = 0.9;
  bool offset_by_rank = true;
  BytesPerSecond host_bandwidth;
};

/// Slots of rank r hold experts from r x experts / ranks on, as upstream without a balancer.
SlotTable initial_slots(int experts, int ranks, int slots) {
  SlotTable table(static_cast<std::size_t>(ranks));
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    for (int s = 0; s < slots; ++s) {
      table[static_cast<std::size_t>(rank)].emplace_back((rank * experts / ranks + s) % experts);
    }
  }
  return table;
}

class TrtLlm final : public Serving {
 public:
  TrtLlm(const PlacementContext& c, const TrtLlmOptions& o, int slots)
      : Serving(c, o.when, initial_slots(c.experts, c.groups.size(), slots)),
        o_(o),
        slots_(slots),
        rotation_(c.layers, std::max(o.updates, 1)),
        loads_(cells(), prediction::FadingLoad::decayed(o.decay)) {}
  std::vector<FirstPlan> first_plans() const override {
    if (o_.updates == 0) return {};
    return Serving::first_plans();
  }

  bool may_be_told() const override { return o_.updates > 0; }

 protected:
  bool due(const GroupLayer& at) const override {
    if (at.told) return true;
    if (o_.updates == 0 || at.steps < options().first) return false;
    const std::vector<int> now = rotation_.layers_at(at.steps - options().first);
    return std::binary_search(now.begin(), now.end(), at.layer);
  }
  std::optional<SlotTable> plan(const GroupLayer& at) override {
    return trt_llm::place(loads_[at.cell].load(), ep(), slots_);
  }
  Assignment assign(const GroupStep& at, Placement slots) override {
    return assign_by_choice(at, slots, [&](GpuId rank, ExpertId, auto choices, auto replicas) {
      const int offset = o_.offset_by_rank ? rank.value : 0;
      return trt_llm::round_robin(choices, at.ids.top_k(), replicas, offset);
    });
  }
  void observe(const GroupStep& at) override { loads_[at.cell].add(at.loads, at.begins); }
  /// What every GPU reads over its link to the memory of the host, which few clusters state, takes
  /// its time on the copy stream, after an exchange of the GPU with itself.
  void move(LayerDecision& decision, const SlotTable& before,
            const SlotTable& after) const override {
    const std::size_t gpus = after.size();
    std::vector<HostWork> loads(gpus);
    ByteMatrix filled(payload());
    for (std::size_t g = 0; g < gpus; ++g) {
      std::uint32_t changed = 0;
      for (std::size_t s = 0; s < after[g].size(); ++s) changed += after[g][s] != before[g][s];
      const ByteMatrix::Entry own{GpuId(static_cast<std::int64_t>(g)), changed};
      filled.add_row({&own, changed > 0 ? 1u : 0u});
      const Seconds time = payload() * std::int64_t{changed} / o_.host_bandwidth;
      loads[g].nanoseconds = std::llround(time.value * 1e9);
    }
    decision.migrate.push_back({"load", std::move(filled), {}, {}, std::move(loads)});
  }

 private:
  TrtLlmOptions o_;
  int slots_;
  trt_llm::Rotation rotation_;
  std::vector<prediction::FadingLoad> loads_;  // [cell]
};

}  // namespace

// updates_per_iteration: layers placed anew in one step, in rotation (default 0: static, as
// upstream); warm_up: steps before the first update counts (0); decay: of loads per step (0.9).
// slots_per_gpu: default the experts of a rank, rounded up, and one more (upstream: num_slots).
// offset: rank (default) or none, whether replicas are dealt from another one on every rank.
// host_bandwidth: of every GPU's link to host memory, over which changed slots are filled (50 GB/s,
// assumed); planning_time: of one placement (0 us); planning: hidden (default) or blocks;
// migration: overlapped (default: the layer's experts wait) or blocks (the step waits).
PlacementMaker read_trt_llm(const YamlMap& params) {
  TrtLlmOptions o;
  o.when.moves_optimizer = false;
  o.when.first = 1 + static_cast<int>(params.integer("warm_up", {0, 1 << 20}, 0));
  o.when.planning = params.seconds("planning_time", Seconds(0));
  o.when.planning_blocks = params.choice("planning", {"hidden", "blocks"}, 0) == 1;
  o.when.migration =
      static_cast<Migration>(params.choice("migration", {"blocks", "overlapped"}, 1));
  o.updates = static_cast<int>(params.integer("updates_per_iteration", {0, 4096}, 0));
  o.decay = params.number("decay", {0, 1}, 0.9);
  o.slots = static_cast<int>(params.integer("slots_per_gpu", {1, 4096}, 0));
  o.offset_by_rank = params.choice("offset", {"none", "rank"}, 1) == 1;
  o.host_bandwidth = params.bandwidth("host_bandwidth", BytesPerSecond(50e9));
  return [o](const PlacementContext& c) {
    return std::make_unique<TrtLlm>(c, o, slots_per_gpu(c, o.slots));
  };
}

}  // namespace moesim
