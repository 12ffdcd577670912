// SPDX-License-Identifier: Apache-2.0
// The group-limited gate of DeepSeek-V3 on recorded choices: experts in equal groups of consecutive
// ids; a token uses few of them (NVIDIA/Megatron-LM, moe_utils.py, group_limited_topk).
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/routing/rewrite.h"
#include "sim/mechanism/routing/serving_gpus.h"

namespace moesim {
namespace {

/// What makes a group good, from the recorded gate weights of the token's choices there (without
/// weights every choice counts 1): the sum of its best top_k / kept ones (DeepSeek-V3, Megatron-LM
/// group_limited_topk), the best one (DeepSeek-V2) or all of them (two-stage gates).
enum class GroupScore { best, max, sum };

/// Choices outside the kept groups.
enum class Outside { replace, drop };

/// What makes a group: experts of consecutive ids, or the experts that the placement puts on one
/// part of the cluster.
enum class GroupOf { ids, node, gpu };

struct GroupLimit {
  GroupOf by = GroupOf::ids;
  int groups = 0;  // of ids
  int kept = 1;    // 0, of GPUs: the fewest that hold a token's choices, with equally many experts
  GroupScore score = GroupScore::best;
  Outside outside = Outside::replace;
  /// The gate scores the groups first, then only the experts of the kept ones (MoE2D).
  bool two_stage = false;
};

/// The gate scores of experts that a token did not choose are not recorded, so a limit can only be
/// approximated; this is our reading, exact for tokens that obey the limit. A token keeps its
/// `kept` best groups (the lowest on ties). With `replace` each choice outside becomes the expert
/// of the kept groups that the batch chooses most and the token does not choose yet.
class GroupLimited final : public Routing {
 public:
  /// Throws Error when a token's choices do not fit its kept groups, if these are fixed.
  GroupLimited(GroupLimit limit, const RoutingContext& context);
  bool after_placement() const override { return limit_.by != GroupOf::ids; }
  int gate_outputs() const override;
  /// Throws Error when a token's choices do not fit the nodes or GPUs that it keeps.
  RoutedTokens apply(const RecordedRouting& recorded, RoutingChange& change) override;

 private:
  void limit_row(const RecordedRouting& recorded, const BatchToken& token);
  void find_kept(const RecordedRouting& recorded, const BatchToken& token);
  std::uint16_t replacement(std::span<const std::uint16_t> row, std::size_t& next) const;
  /// The group of an expert, for the token at hand.
  int group_of(std::size_t expert) const;
  bool keeps(int group) const;

  GroupLimit limit_;
  int experts_;
  std::vector<int> part_of_;       // [GPU] its node in its EP group, or its rank there
  std::span<const GpuId> gpu_of_;  // [expert] for the token at hand, unless groups are of ids
  RewrittenIds ids_;
  std::vector<ExpertId> popular_;
  struct Score {
    int counted = 0;
    double sum = 0;
  };
  std::vector<int> kept_;      // of the token at hand, best first; empty: it obeys the limit
  std::vector<Score> scores_;  // [group] of the token at hand
  std::vector<int> places_;
};

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

/// Reads `score`, `outside` and `gate`.
void read_group_limit(const YamlMap& params, GroupLimit& limit) {
  limit.score = static_cast<GroupScore>(params.choice("score", {"best", "max", "sum"}, 0));
  limit.outside = static_cast<Outside>(params.choice("outside", {"replace", "drop"}, 0));
  limit.two_stage = params.choice("gate", {"full", "two-stage"}, 0) == 1;
}

/// The groups of the gate: as given, else the model's.
GroupLimit filled(GroupLimit limit, const RoutingContext& context) {
  if (limit.groups == 0) limit.groups = context.model.gate_groups;
  if (limit.kept == 0) limit.kept = context.model.gate_kept_groups;
  if (limit.groups < 2) {
    throw Error(fmt::format("model '{}' has no groups of experts", context.model.name),
                "give 'routing.groups' and 'routing.kept'");
  }
  if (context.experts % limit.groups != 0 || limit.kept > limit.groups) {
    throw Error(fmt::format("a gate cannot keep {} of {} equal groups of {} experts", limit.kept,
                            limit.groups, context.experts));
  }
  return limit;
}

RoutingMaker limited_to(GroupLimit limit, const YamlMap& params) {
  read_group_limit(params, limit);
  return
      [=](const RoutingContext& context) { return std::make_unique<GroupLimited>(limit, context); };
}

}  // namespace

// groups, kept: of the gate (default: the model's); score: best, max or sum; outside: replace or
// drop; gate: full or two-stage.
RoutingMaker read_group_limited(const YamlMap& params) {
  GroupLimit limit;
  limit.groups = static_cast<int>(params.integer("groups", {2, 65535}, 0));
  limit.kept = static_cast<int>(params.integer("kept", {1, 65535}, 0));
  read_group_limit(params, limit);
  return [=](const RoutingContext& context) {
    return std::make_unique<GroupLimited>(filled(limit, context), context);
  };
}

// A token may use the experts of few nodes, DeepSeek-V3's limit where its groups are nodes (arXiv
// 2412.19437), or of few GPUs. Experts are where the placement of the step puts them.
// nodes: that a token may use; score: best, max or sum; outside: replace or drop; gate: full or
// two-stage.
RoutingMaker read_node_limited(const YamlMap& params) {
  GroupLimit limit{.by = GroupOf::node};
  limit.kept = static_cast<int>(params.integer("nodes", {1, 65535}));
  return limited_to(limit, params);
}

// gpus: that a token may use (default: the fewest that hold its choices); others as above.
RoutingMaker read_gpu_limited(const YamlMap& params) {
  GroupLimit limit{.by = GroupOf::gpu};
  limit.kept = static_cast<int>(params.integer("gpus", {1, 65535}, 0));
  return limited_to(limit, params);
}

}  // namespace moesim
