// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/routing/group_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "sim/mechanism/routing/serving_gpus.h"

namespace moesim {
namespace {

/// [GPU] the part of its EP group that it belongs to.
std::vector<int> parts_of_gpus(const EpGroups& groups, GroupOf by) {
  std::vector<int> parts;
  for (const RankSpace& ranks : groups.spaces()) {
    for (GpuId rank(0); rank.value < ranks.size(); ++rank.value) {
      const bool own = by == GroupOf::gpu;
      parts.push_back(own ? static_cast<int>(rank.value) : ranks.hosts().group_of(rank));
    }
  }
  return parts;
}

int rounded_up(int a, int b) { return (a + b - 1) / b; }

}  // namespace

GroupLimited::GroupLimited(GroupLimit limit, const RoutingContext& context)
    : limit_(limit), experts_(context.experts) {
  const int top_k = context.model.top_k;
  if (after_placement()) {
    part_of_ = parts_of_gpus(context.groups, limit_.by);
    limit_.groups = 1 + *std::max_element(part_of_.begin(), part_of_.end());
    if (limit_.kept == 0) limit_.kept = rounded_up(top_k * limit_.groups, experts_);
  }
  scores_.resize(static_cast<std::size_t>(limit_.groups));
  const int held = limit_.kept * (experts_ / limit_.groups);
  if (limit_.outside == Outside::drop || after_placement() || held >= top_k) return;
  throw Error(fmt::format("the {} groups that a token may use hold only {} experts for its {} "
                          "choices",
                          limit_.kept, held, top_k),
              "keep more groups, or say outside: drop");
}

int GroupLimited::gate_outputs() const {
  if (!limit_.two_stage) return 0;
  return limit_.groups + std::min(limit_.kept, limit_.groups) * rounded_up(experts_, limit_.groups);
}

RoutedTokens GroupLimited::apply(const RecordedRouting& recorded, RoutingChange& change) {
  ids_.copy(recorded);
  if (limit_.outside == Outside::replace) popular_ = most_chosen(recorded, experts_);
  std::optional<ServingGpus> serving;
  if (after_placement()) serving.emplace(*recorded.placed);
  for_each_batch_token(recorded.batch, [&](const BatchToken& token) {
    if (serving) {
      serving->enter(token.rank);
      gpu_of_ = serving->gpus();
    }
    limit_row(recorded, token);
    if (serving) serving->serve(ids_.row(token.at));
  });
  ids_.count_change(recorded, change);
  return ids_.view();
}

int GroupLimited::group_of(std::size_t expert) const {
  if (after_placement()) return part_of_[gpu_of_[expert].index()];
  return static_cast<int>(expert) / (experts_ / limit_.groups);
}

void GroupLimited::limit_row(const RecordedRouting& recorded, const BatchToken& token) {
  find_kept(recorded, token);
  if (kept_.empty()) return;
  const auto row = ids_.row(token.at);
  std::size_t next = 0;
  for (auto& id : row) {
    if (keeps(group_of(id))) continue;
    id = limit_.outside == Outside::drop ? IdRows::dropped : replacement(row, next);
  }
}

/// The most popular expert from `next` on that is in a kept group and not in the row.
std::uint16_t GroupLimited::replacement(std::span<const std::uint16_t> row,
                                        std::size_t& next) const {
  for (; next < popular_.size(); ++next) {
    const auto id = static_cast<std::uint16_t>(popular_[next].value);
    if (keeps(group_of(id)) && std::find(row.begin(), row.end(), id) == row.end()) return id;
  }
  throw Error(fmt::format("a token's {} choices do not fit the experts on the {} {}{} that it may "
                          "use",
                          row.size(), limit_.kept, limit_.by == GroupOf::gpu ? "GPU" : "node",
                          limit_.kept == 1 ? "" : "s"),
              "allow more of them, or say outside: drop");
}

void GroupLimited::find_kept(const RecordedRouting& recorded, const BatchToken& token) {
  const auto row = ids_.row(token.at);
  kept_.clear();
  for (const std::uint16_t id : row) {
    const int group = group_of(id);
    if (!keeps(group)) kept_.push_back(group);
  }
  const auto kept = static_cast<std::size_t>(limit_.kept);
  if (kept_.size() <= kept) return kept_.clear();
  for (const int group : kept_) scores_[static_cast<std::size_t>(group)] = {};
  const auto top_k = static_cast<int>(row.size());
  const int counted = limit_.score == GroupScore::max   ? 1
                      : limit_.score == GroupScore::sum ? top_k
                                                        : std::max(1, top_k / limit_.kept);
  rank_choices(recorded, token.recorded, places_);
  for (const int k : places_) {
    const auto group = static_cast<std::size_t>(group_of(row[static_cast<std::size_t>(k)]));
    Score& score = scores_[group];
    if (score.counted == counted) continue;
    ++score.counted;
    score.sum +=
        recorded.step.has_weights() ? recorded.step.weight(recorded.layer, token.recorded, k) : 1;
  }
  const auto score_of = [&](int group) { return scores_[static_cast<std::size_t>(group)].sum; };
  std::sort(kept_.begin(), kept_.end(), [&](int a, int b) {
    return score_of(a) != score_of(b) ? score_of(a) > score_of(b) : a < b;
  });
  kept_.resize(kept);
}

bool GroupLimited::keeps(int group) const {
  return std::find(kept_.begin(), kept_.end(), group) != kept_.end();
}

void read_group_limit(const YamlMap& params, GroupLimit& limit) {
  limit.score = static_cast<GroupScore>(params.choice("score", {"best", "max", "sum"}, 0));
  limit.outside = static_cast<Outside>(params.choice("outside", {"replace", "drop"}, 0));
  limit.two_stage = params.choice("gate", {"full", "two-stage"}, 0) == 1;
}

}  // namespace moesim
