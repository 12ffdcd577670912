// SPDX-License-Identifier: Apache-2.0
// What replicas exchange of the parts of a pipeline stage: gradients and weights.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "sim/planner/iteration/block_ops.h"
#include "sim/planner/iteration/layer_replicas.h"
#include "sim/planner/iteration/stage_layers.h"
#include "sim/planner/parallel/layer_layout.h"

namespace moesim {

/// Dense parameters travel in rings through the nodes, experts' in rings of the GPUs that hold the
/// same ones, as the placement says.
class ReplicaExchanges {
 public:
  /// `layers`: of each stage of the replicas; they must outlive it. `whole`: whether the model says
  /// what is around its experts.
  ReplicaExchanges(LayerReplicas replicas, std::vector<StageLayers*> layers, bool whole);

  const LayerReplicas& replicas() const { return replicas_; }
  /// Parameters of one GPU besides routed experts.
  std::int64_t dense_parameters(const StagePart& part) const;

  /// Sums of a part's gradients, after `after`: all-reduced with ZeRO 0, else reduce-scattered. If
  /// state has copies, that is within each of them; then what each GPU holds of the sums is
  /// all-reduced between copies.
  std::vector<OpId> gradients(const StagePart& part, WorkCell cell, const std::vector<OpId>& after);
  /// All-gathers of a part's weights: of experts, and of dense parameters.
  std::vector<OpId> expert_weights(const StagePart& part, WorkCell cell, Pass pass,
                                   const std::vector<OpId>& after);
  std::vector<OpId> dense_weights(const StagePart& part, WorkCell cell, Pass pass,
                                  const std::vector<OpId>& after);
  /// Sums over tensor groups the gradients of what is whole on all members, which see different
  /// tokens or heads (Spec::whole_tensor_groups). Nothing without such groups.
  std::vector<OpId> undivided_gradients(const std::vector<StagePart>& parts,
                                        const std::vector<OpId>& after);
  /// Gathers all dense parameters of a GPU, updated at the end of the iteration.
  OpId all_dense_weights(std::int64_t parameters, const std::vector<OpId>& after);
  /// Likewise a part's experts.
  std::vector<OpId> new_expert_weights(const StagePart& part, OpId update);

 private:
  enum class Moved { gradients, sums, weights };
  using Known = std::tuple<StagePartKind, int, Moved>;
  OpId add(std::string label, OpKey key, const StagePart& part, Stream stream, Exchange exchange,
           const std::vector<OpId>& after, bool between_copies = false);
  std::vector<OpId> gather_experts(const StagePart& part, WorkCell cell, Pass pass, Stream stream,
                                   const std::vector<OpId>& after);
  Exchange gather_of(std::int64_t parameters) const;
  Exchange sum_of(Bytes gradients) const;
  Exchange sum_between_copies(Bytes gradients) const;
  Exchange in_groups(const LayerReplicas::Groups& groups, const CollectiveTraffic& of_group) const;
  std::optional<ParamExchange> ring_of(const std::vector<const LayerDecision*>& holders,
                                       Moved moved, ExpertRing ring) const;
  const Exchange* experts(const StagePart& part, Moved moved, const ExpertRing& ring);

  LayerReplicas replicas_;
  std::vector<StageLayers*> layers_;
  bool whole_;
  std::map<Known, Exchange> dense_, experts_;  // without members if nothing moves
};

}  // namespace moesim
