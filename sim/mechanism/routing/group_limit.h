// SPDX-License-Identifier: Apache-2.0
// Limits a token's choices to few groups of experts: what gates limited to groups, nodes and GPUs
// share.
#pragma once

#include <vector>

#include "sim/mechanism/routing/rewrite.h"

namespace moesim {

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

/// Reads `score`, `outside` and `gate`.
void read_group_limit(const YamlMap& params, GroupLimit& limit);

}  // namespace moesim
