// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/routing/group_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace moesim {
namespace {

/// The least experts that some `kept` groups of a set hold together.
int least_experts(const std::vector<int>& group_of, int kept) {
  std::map<int, int> size;
  for (const int group : group_of) ++size[group];
  std::vector<int> sizes;
  for (const auto& [group, experts] : size) sizes.push_back(experts);
  std::sort(sizes.begin(), sizes.end());
  int experts = 0;
  for (std::size_t i = 0; i < sizes.size() && i < static_cast<std::size_t>(kept); ++i) {
    experts += sizes[i];
  }
  return experts;
}

}  // namespace

GroupLimited::GroupLimited(GroupLimit limit, const RoutingContext& context)
    : limit_(std::move(limit)), ep_groups_(context.groups) {
  const int top_k = context.model.top_k;
  for (const auto& group_of : limit_.group_of) {
    for (const int group : group_of) {
      scores_.resize(std::max(scores_.size(), static_cast<std::size_t>(group) + 1));
    }
  }
  if (limit_.outside == Outside::drop) return;
  for (const auto& group_of : limit_.group_of) {
    const int experts = least_experts(group_of, limit_.kept);
    if (experts >= top_k) continue;
    throw Error(fmt::format("the {} groups that a token may use hold only {} experts for its {} "
                            "choices",
                            limit_.kept, experts, top_k),
                "keep more groups, or say outside: drop");
  }
}

IdRows GroupLimited::apply(const RecordedRouting& recorded, RoutingChange& change) {
  ids_.copy(recorded);
  if (limit_.outside == Outside::replace) {
    popular_ = most_chosen(recorded, static_cast<int>(limit_.group_of[0].size()));
  }
  for_each_batch_token(recorded.batch, [&](GpuId rank, std::int64_t token) {
    const bool alike = limit_.group_of.size() == 1;
    const auto row = static_cast<std::size_t>(alike ? 0 : ep_groups_.group_of(rank));
    limit_row(recorded, token, limit_.group_of[row]);
  });
  ids_.count_change(recorded, change);
  return ids_.view();
}

void GroupLimited::limit_row(const RecordedRouting& recorded, std::int64_t token,
                             const std::vector<int>& group_of) {
  find_kept(recorded, token, group_of);
  if (kept_.empty()) return;
  const IdRows ids = recorded.step.ids(recorded.layer);
  const auto row = ids_.row(token);
  auto next = popular_.begin();
  const auto replacement = [&] {
    for (;; ++next) {
      const auto id = static_cast<std::uint16_t>(next->value);
      if (keeps(group_of[id]) && std::find(row.begin(), row.end(), id) == row.end()) return id;
    }
  };
  for (int k = 0; k < ids.top_k(); ++k) {
    const auto expert = static_cast<std::size_t>(ids.at(token, k));
    row[static_cast<std::size_t>(k)] = static_cast<std::uint16_t>(expert);
  }
  for (auto& id : row) {
    if (!keeps(group_of[id]))
      id = limit_.outside == Outside::drop ? IdRows::dropped : replacement();
  }
}

bool GroupLimited::keeps(int group) const {
  return std::find(kept_.begin(), kept_.end(), group) != kept_.end();
}

void GroupLimited::find_kept(const RecordedRouting& recorded, std::int64_t token,
                             const std::vector<int>& group_of) {
  const IdRows ids = recorded.step.ids(recorded.layer);
  kept_.clear();
  for (int k = 0; k < ids.top_k(); ++k) {
    const int group = group_of[static_cast<std::size_t>(ids.at(token, k))];
    if (!keeps(group)) kept_.push_back(group);
  }
  const auto kept = static_cast<std::size_t>(limit_.kept);
  if (kept_.size() <= kept) return kept_.clear();
  for (const int group : kept_) scores_[static_cast<std::size_t>(group)] = {};
  const int counted = limit_.score == GroupScore::max   ? 1
                      : limit_.score == GroupScore::sum ? ids.top_k()
                                                        : std::max(1, ids.top_k() / limit_.kept);
  rank_choices(recorded, token, places_);
  for (const int k : places_) {
    Score& score =
        scores_[static_cast<std::size_t>(group_of[static_cast<std::size_t>(ids.at(token, k))])];
    if (score.counted == counted) continue;
    ++score.counted;
    score.sum += recorded.step.has_weights() ? recorded.step.weight(recorded.layer, token, k) : 1;
  }
  const auto score_of = [&](int group) { return scores_[static_cast<std::size_t>(group)].sum; };
  std::sort(kept_.begin(), kept_.end(), [&](int a, int b) {
    return score_of(a) != score_of(b) ? score_of(a) > score_of(b) : a < b;
  });
  kept_.resize(kept);
}

void read_group_limit(const YamlMap& params, GroupLimit& limit) {
  limit.score = static_cast<GroupScore>(params.choice("score", {"best", "max", "sum"}, 0));
  limit.outside = static_cast<Outside>(params.choice("outside", {"replace", "drop"}, 0));
}

}  // namespace moesim
