// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/depth_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "sim/plan/exchange_time.h"
#include "sim/policy/source_choices.h"
#include "sim/policy/unsuitable.h"

namespace moesim {
namespace {

/// How long the slowest communicator of a collective takes.
Seconds collective_time(const Topology& topology, const CommunicatorTraffic& communicators) {
  std::vector<ExchangeDemand> demands;
  for (const ByteMatrix& traffic : communicators) demands.emplace_back(topology.loads(traffic));
  return std::ranges::max(shared_times(demands));
}

/// Adds the tokens of a rank that touch each group of a level.
void add_rows(GpuId source, int level, SourceChoices& choices, GroupCounts& counts) {
  const auto groups = static_cast<std::size_t>(counts.nesting().groups_at(level));
  std::vector<std::uint32_t> class_of_group(groups, SourceChoices::no_class), class_of;
  std::vector<int> group_of_class;
  for (const Stop& stop : choices.stops()) {
    const int group = counts.group_of(level, stop.gpu);
    std::uint32_t& known = class_of_group[static_cast<std::size_t>(group)];
    if (known == SourceChoices::no_class) {
      known = static_cast<std::uint32_t>(group_of_class.size());
      group_of_class.push_back(group);
    }
    class_of.push_back(known);
  }
  const auto rows = choices.rows(class_of, group_of_class.size());
  for (std::size_t c = 0; c < rows.size(); ++c) {
    counts.add_touching(source, level, group_of_class[c], rows[c]);
  }
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
  SourceChoices choices(tokens, StopPer::gpu);
  for (std::size_t r = first; r < first + static_cast<std::size_t>(nesting_.gpus); ++r) {
    const GpuId source(static_cast<std::int64_t>(r));
    choices.enter(source);
    choices.select(0, choices.tokens());
    for (std::size_t i = 0; i < choices.stops().size(); ++i) {
      counts.add_choices(source, choices.stops()[i].gpu, choices.choices()[i]);
    }
    for (int level = 1; level <= nesting_.depth(); ++level)
      add_rows(source, level, choices, counts);
  }
  return counts;
}

}  // namespace moesim
