// SPDX-License-Identifier: Apache-2.0
// Limits a token's choices to few groups of experts: what group- and node-limited gates share.
#pragma once

#include <vector>

#include "sim/policy/routing/rewrite.h"

namespace moesim {

/// What makes a group good, from the recorded gate weights of the token's choices there (without
/// weights every choice counts 1): the sum of its best top_k / kept ones (DeepSeek-V3, Megatron-LM
/// group_limited_topk), the best one (DeepSeek-V2) or all of them (two-stage gates).
enum class GroupScore { best, max, sum };

/// Choices outside the kept groups.
enum class Outside { replace, drop };

struct GroupLimit {
  /// [EP group][expert] group of experts; one row: the same in all EP groups.
  std::vector<std::vector<int>> group_of;
  int kept = 1;
  GroupScore score = GroupScore::best;
  Outside outside = Outside::replace;
};

/// The gate scores of experts that a token did not choose are not recorded, so a limit can only be
/// approximated; this is our reading, exact for tokens that obey the limit. A token keeps its
/// `kept` best groups (the lowest on ties). With `replace` each choice outside becomes the expert
/// of the kept groups that the batch chooses most and the token does not choose yet.
class GroupLimited final : public Routing {
 public:
  /// Throws Error when a token's choices do not fit its kept groups.
  GroupLimited(GroupLimit limit, const RoutingContext& context);
  IdRows apply(const RecordedRouting& recorded, RoutingChange& change) override;

 private:
  void limit_row(const RecordedRouting& recorded, std::int64_t token,
                 const std::vector<int>& group_of);
  void find_kept(const RecordedRouting& recorded, std::int64_t token,
                 const std::vector<int>& group_of);
  bool keeps(int group) const;

  GroupLimit limit_;
  EpGroups ep_groups_;
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

/// Reads `score` and `outside`.
void read_group_limit(const YamlMap& params, GroupLimit& limit);

}  // namespace moesim
