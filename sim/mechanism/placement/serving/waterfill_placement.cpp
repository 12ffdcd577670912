// SPDX-License-Identifier: Apache-2.0
// Waterfill: every rank holds the shared expert next to its routed ones, in id order.
#include <fmt/format.h>

#include "sim/base/unsuitable.h"
#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/serving/replica_choice.h"
#include "sim/mechanism/placement/serving/spilling.h"
#include "sim/mechanism/placement/serving/waterfill.h"

namespace moesim {
namespace {

class Waterfill final : public Placer {
 public:
  Waterfill(const PlacementContext& c, Seconds planning)
      : groups_(c.groups), shared_(c.experts), planning_(planning) {
    table_ = contiguous_homes(c.experts, ep(), ep());
    for (auto& slots : table_) slots.push_back(shared_);
    for (int g = 0; g < ep(); ++g) {
      for (const ExpertId e : table_[static_cast<std::size_t>(g)]) {
        if (e != shared_) homes_.emplace_back(g);
      }
    }
  }
  bool reacts() const override { return true; }
  bool routes_shared() const override { return true; }

  LayerDecision decide(const LayerRoutingNow& now) override {
    std::vector<Assignment> assignments;
    for (int g = 0; g < groups_.count(); ++g) {
      assignments.push_back(
          assign(groups_.part(now.batch, g), now.ids, groups_.part(now.loads, g)));
    }
    LayerDecision decision(Assignment::joined(assignments));
    decision.shared_routed = decision.planned = decision.after_gate = true;
    decision.planning = planning_;
    decision.planning_blocks = true;
    return decision;
  }

 private:
  int ep() const { return groups_.size(); }

  Assignment assign(const Batch& batch, IdRows ids, const LoadMatrix& loads) const {
    std::vector<std::int64_t> routed(static_cast<std::size_t>(ep())), tokens;
    for (int r = 0; r < ep(); ++r) {
      const auto of_rank = loads.row(GpuId(r));
      for (std::size_t e = 0; e < homes_.size(); ++e) routed[homes_[e].index()] += of_rank[e];
      tokens.push_back(of_rank[shared_.index()]);
    }
    const auto water = waterfill::fill(routed, tokens, ids.top_k() - 1);
    Placement slots(shared_.value + 1, table_);
    std::vector<std::vector<Shares>> shares;
    for (int r = 0; r < ep(); ++r) {
      auto& of_rank = shares.emplace_back();
      for (int e = 0; e < shared_.value; ++e) {
        of_rank.push_back({{slots.slots_of(ExpertId(e)).front(), 1}});
      }
      of_rank.push_back(of_shared(slots, water, batch, ids, GpuId(r)));
    }
    return Assignment(std::move(slots), shares);
  }

  /// Who computes the shared expert for a rank's tokens, one after the other.
  Shares of_shared(const Placement& slots, const waterfill::Water& water, const Batch& batch,
                   IdRows ids, GpuId source) const {
    const std::vector<SlotId>& of_rank = slots.slots_of(shared_);  // one on every rank
    const std::int64_t tokens = tokens_of(batch.ranks[source.index()]);
    if (tokens < waterfill::least_tokens) return {{of_rank[source.index()], 1}};
    std::vector<SlotId> sequence;
    std::vector<GpuId> visits;
    for (const TokenRun& run : batch.ranks[source.index()]) {
      for (std::int64_t t = run.first; t < run.first + run.count; ++t) {
        visits.clear();
        for (int k = 0; k + 1 < ids.top_k(); ++k) {
          const int expert = ids.at(t, k);
          if (expert < shared_.value) visits.push_back(homes_[static_cast<std::size_t>(expert)]);
        }
        const GpuId rank = waterfill::rank_for(water, source, std::ssize(sequence), visits);
        sequence.push_back(of_rank[rank.index()]);
      }
    }
    return run_length(sequence);
  }

  EpGroups groups_;
  ExpertId shared_;
  Seconds planning_;
  SlotTable table_;           // [rank]
  std::vector<GpuId> homes_;  // [routed expert]
};

void check_model(const PlacementContext& c) {
  const MoeModel& m = c.model;
  if (c.backward) {
    throw Unsuitable("it serves: no gradients of a shared expert come back from other ranks",
                     "a forward pass, or placement: contiguous");
  }
  if (m.shared_experts != 1 || m.shared_ffn != m.expert_ffn || m.latent > 0) {
    throw Unsuitable(
        fmt::format("its shared expert is a routed one more: {} has {} of width {}, routed ones of "
                    "{}{}",
                    m.name, m.shared_experts, m.shared_ffn, m.expert_ffn,
                    m.latent > 0 ? " in a latent" : ""),
        "a model with one shared expert as wide as the routed ones, such as deepseek-v3");
  }
  if (m.top_k > 31) {
    throw Unsuitable(fmt::format("its shared expert is one choice more than {}", m.top_k),
                     "a model whose tokens have at most 31 choices");
  }
  check_native(c);
}

}  // namespace

// planning_time: all-reduce of counts and choice of ranks, per layer; the dispatch waits (0 us).
PlacementMaker read_waterfill(const YamlMap& params) {
  const Seconds planning = params.seconds("planning_time", Seconds(0));
  return [planning](const PlacementContext& context) {
    check_model(context);
    return std::make_unique<Waterfill>(context, planning);
  };
}

}  // namespace moesim
