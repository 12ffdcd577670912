// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/depth_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "sim/plan/exchange_time.h"
#include "sim/policy/unsuitable.h"

namespace moesim {
namespace {

/// How long the slowest communicator of a collective takes.
Seconds collective_time(const Topology& topology, const CommunicatorTraffic& communicators) {
  std::vector<ExchangeDemand> demands;
  for (const ByteMatrix& traffic : communicators) demands.emplace_back(topology.loads(traffic));
  return std::ranges::max(shared_times(demands));
}

}  // namespace

Nesting nesting_of(const Topology& topology, const Hierarchy& hierarchy, int ep,
                   const std::string& who) {
  if (!hierarchy.uniform()) {
    throw Unsuitable(fmt::format("{}: the ranks of '{}' nest in groups of different sizes", who,
                                 topology.name()),
                     "give the depth as a number");
  }
  Nesting nesting;
  nesting.gpus = ep;
  nesting.groups.clear();
  for (int level = 0; level < hierarchy.depth(); ++level) {
    nesting.groups.push_back(hierarchy.groups_per_run(level));
  }
  return nesting;
}

DepthModel::DepthModel(const Topology& topology, Nesting nesting, Copies copies,
                       CountReading reading, Bytes row)
    : topology_(topology),
      nesting_(std::move(nesting)),
      copies_(copies),
      reading_(reading),
      row_(row) {}

int DepthModel::best(const LayerTokens& tokens) const {
  std::vector<Seconds> slowest(static_cast<std::size_t>(nesting_.depth()));
  const CollectiveCosts& fitted = costs(tokens);
  const std::size_t ranks = tokens.batch.ranks.size();
  for (std::size_t first = 0; first < ranks; first += static_cast<std::size_t>(nesting_.gpus)) {
    const auto times = depth_times(fitted, count(tokens, first).stage_rows(copies_), row_);
    for (std::size_t d = 0; d < slowest.size(); ++d) slowest[d] = std::max(slowest[d], times[d]);
  }
  return best_depth(slowest);
}

const CollectiveCosts& DepthModel::costs(const LayerTokens& tokens) const {
  const auto ranks = static_cast<std::int64_t>(tokens.batch.ranks.size());
  const std::int64_t rows = tokens.batch.tokens() * tokens.ids.top_k() / ranks;
  const auto size =
      std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>((row_ * rows).value, 1)));
  const auto known = costs_.find(size);
  if (known != costs_.end()) return known->second;
  const auto time = [&](const CommunicatorTraffic& t) { return collective_time(topology_, t); };
  const int copies = topology_.gpu_count() / nesting_.gpus;
  const Bytes bytes(static_cast<std::int64_t>(size));
  return costs_.emplace(size, fit_collective_costs(nesting_, copies, time, bytes)).first->second;
}

/// The counts over the run of ranks that starts at `first`.
GroupCounts DepthModel::count(const LayerTokens& tokens, std::size_t first) const {
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

}  // namespace moesim
