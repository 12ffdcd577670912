// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/depth_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "sim/base/unsuitable.h"
#include "sim/mechanism/source_choices.h"

namespace moesim {
namespace {

/// Adds the tokens of a rank that touch each group of a level.
void add_rows(GpuId source, int level, SourceChoices& choices, StopClasses& classes,
              GroupCounts& counts) {
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
  choices.classify(class_of, group_of_class.size(), classes);
  const auto rows = choices.rows(classes);
  for (std::size_t c = 0; c < rows.size(); ++c) {
    counts.add_touching(source, level, group_of_class[c], rows[c]);
  }
}

}  // namespace

Nesting nesting_of(const EpGroups& groups, const std::string& who) {
  const RankSpace& ranks = groups.ranks(0);
  if (!ranks.uniform()) {
    throw Unsuitable(fmt::format("{}: the ranks of '{}' nest in groups of different sizes", who,
                                 groups.cluster()),
                     "give the depth as a number");
  }
  Nesting nesting;
  nesting.gpus = ranks.size();
  nesting.groups.clear();
  for (int level = 0; level < ranks.depth(); ++level) {
    nesting.groups.push_back(ranks.level(level).size());
  }
  return nesting;
}

DepthModel::DepthModel(EpGroups groups, Nesting nesting, Copies copies, CountReading reading,
                       Bytes row)
    : groups_(std::move(groups)),
      nesting_(std::move(nesting)),
      copies_(copies),
      reading_(reading),
      row_(row) {}

int DepthModel::best(const LayerTokens& tokens) const {
  std::vector<Seconds> slowest(static_cast<std::size_t>(nesting_.depth()));
  const CollectiveCosts& fitted = costs(tokens);
  for (int g = 0; g < groups_.count(); ++g) {
    const GroupPart part = groups_.part(tokens.batch, tokens.assignment, g);
    const GroupCounts counts = count({part.batch(), tokens.ids, part.assignment()});
    const auto times = depth_times(fitted, counts.stage_rows(copies_), row_);
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
  const auto time = [&, everybody = Group::first(groups_.gpus())](const CommunicatorTraffic& list) {
    std::vector<GroupTraffic> together;
    for (const ByteMatrix& traffic : list) together.push_back({traffic, everybody});
    return groups_.slowest(together);
  };
  const Bytes bytes(static_cast<std::int64_t>(size));
  return costs_.emplace(size, fit_collective_costs(nesting_, groups_.count(), time, bytes))
      .first->second;
}

/// The counts over the ranks of one EP group.
GroupCounts DepthModel::count(const LayerTokens& of_group) const {
  GroupCounts counts(nesting_, reading_);
  SourceChoices choices(of_group, StopPer::gpu);
  StopClasses classes = choices.no_classes();
  for (int r = 0; r < nesting_.gpus; ++r) {
    const GpuId source(r);
    choices.enter(source);
    choices.select(0, choices.tokens());
    const auto stops = choices.stops();
    const auto chosen = choices.choices();
    for (std::size_t i = 0; i < stops.size(); ++i) {
      counts.add_choices(source, stops[i].gpu, chosen[i]);
    }
    for (int level = 1; level <= nesting_.depth(); ++level) {
      add_rows(source, level, choices, classes, counts);
    }
  }
  return counts;
}

}  // namespace moesim
