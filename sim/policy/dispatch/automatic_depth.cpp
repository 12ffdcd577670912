// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/dispatch/automatic_depth.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <utility>

#include "sim/plan/exchange_time.h"

namespace moesim {
namespace {

Nesting nesting_of(const DispatchContext& context, const Hierarchy& hierarchy) {
  if (!hierarchy.uniform()) {
    throw Error(fmt::format("'dispatch.depth' cannot be automatic: the ranks of '{}' nest in "
                            "groups of different sizes",
                            context.topology.name()),
                "give the depth as a number");
  }
  Nesting nesting;
  nesting.gpus = context.ep;
  nesting.groups.clear();
  for (int level = 0; level < hierarchy.depth(); ++level) {
    nesting.groups.push_back(hierarchy.groups_per_run(level));
  }
  return nesting;
}

/// How long the slowest communicator of a collective takes.
Seconds collective_time(const Topology& topology, const CommunicatorTraffic& communicators) {
  std::vector<ExchangeDemand> demands;
  for (const ByteMatrix& traffic : communicators) demands.emplace_back(topology.loads(traffic));
  return std::ranges::max(shared_times(demands));
}

class AutomaticDepth final : public Dispatch {
 public:
  AutomaticDepth(const DispatchContext& context, Nesting nesting, Copies copies,
                 CountReading reading, std::vector<std::unique_ptr<Dispatch>> by_depth)
      : topology_(context.topology),
        nesting_(std::move(nesting)),
        copies_(copies),
        reading_(reading),
        row_bytes_(context.model.row_bytes()),
        by_depth_(std::move(by_depth)) {}

  const Dispatch& choose(const LayerTokens& tokens) const override {
    std::vector<Seconds> slowest(by_depth_.size());
    const std::size_t ranks = tokens.batch.ranks.size();
    const std::int64_t rows = tokens.batch.tokens() * tokens.ids.top_k();
    const CollectiveCosts& costs =
        costs_for(row_bytes_ * (rows / static_cast<std::int64_t>(ranks)));
    for (std::size_t first = 0; first < ranks; first += static_cast<std::size_t>(nesting_.gpus)) {
      const auto times = depth_times(costs, count(tokens, first).stage_rows(copies_), row_bytes_);
      for (std::size_t d = 0; d < slowest.size(); ++d) {
        slowest[d] = std::max(slowest[d], times[d]);
      }
    }
    return *by_depth_[static_cast<std::size_t>(best_depth(slowest) - 1)];
  }

  // What follows is asked of the chosen dispatch; the flat one answers for all of them.
  int phases() const override { return by_depth_[0]->phases(); }
  std::string phase_name(int phase) const override { return by_depth_[0]->phase_name(phase); }
  const Communicators& communicators(int phase) const override {
    return by_depth_[0]->communicators(phase);
  }
  RowCounts count(const LayerTokens& tokens) const override { return choose(tokens).count(tokens); }
  std::vector<std::vector<RowMove>> rows(const LayerTokens& tokens) const override {
    return choose(tokens).rows(tokens);
  }

 private:
  /// The lines at about the size of the exchanges: with few bytes latencies count that many bytes
  /// hide.
  const CollectiveCosts& costs_for(Bytes buffer) const {
    const auto size =
        std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(buffer.value, 1)));
    const auto known = costs_.find(size);
    if (known != costs_.end()) return known->second;
    const auto time = [&](const CommunicatorTraffic& t) { return collective_time(topology_, t); };
    const int copies = topology_.gpu_count() / nesting_.gpus;
    const Bytes bytes(static_cast<std::int64_t>(size));
    return costs_.emplace(size, fit_collective_costs(nesting_, copies, time, bytes)).first->second;
  }

  /// The counts over the run of ranks that starts at `first`.
  GroupCounts count(const LayerTokens& tokens, std::size_t first) const {
    GroupCounts counts(nesting_, reading_, GpuId(static_cast<std::int64_t>(first)));
    const Placement& placement = tokens.assignment.placement();
    AssignmentWalk walk(tokens.assignment);
    std::array<GpuId, max_top_k> targets;
    for (std::size_t r = first; r < first + static_cast<std::size_t>(nesting_.gpus); ++r) {
      const GpuId source(static_cast<std::int64_t>(r));
      for (const TokenRun& run : tokens.batch.ranks[r]) {
        for (std::int64_t t = run.first; t < run.first + run.count; ++t) {
          std::size_t chosen = 0;
          for (int k = 0; k < tokens.ids.top_k(); ++k) {
            const int expert = tokens.ids.at(t, k);
            if (tokens.ids.width() == 2 && expert == IdRows::dropped) continue;
            targets[chosen++] = placement.gpu_of(walk.next(source, ExpertId(expert)));
          }
          counts.add(source, {targets.data(), chosen});
        }
      }
    }
    return counts;
  }

  const Topology& topology_;
  Nesting nesting_;
  Copies copies_;
  CountReading reading_;
  Bytes row_bytes_;
  std::vector<std::unique_ptr<Dispatch>> by_depth_;         // [d - 1]
  mutable std::map<std::uint64_t, CollectiveCosts> costs_;  // by size of the send buffers
};

}  // namespace

std::unique_ptr<Dispatch> automatic_depth(const DispatchContext& context,
                                          const Hierarchy& hierarchy, bool dedup,
                                          CountReading reading,
                                          std::vector<std::unique_ptr<Dispatch>> by_depth) {
  return std::make_unique<AutomaticDepth>(context, nesting_of(context, hierarchy),
                                          dedup ? Copies::per_group : Copies::per_choice, reading,
                                          std::move(by_depth));
}

}  // namespace moesim
