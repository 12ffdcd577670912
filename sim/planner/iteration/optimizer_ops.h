// SPDX-License-Identifier: Apache-2.0
// What an iteration does for its replicas: gradients summed, parameters updated, weights handed
// out.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "sim/planner/iteration/muon.h"
#include "sim/planner/iteration/replica_exchanges.h"

namespace moesim {

/// Adam, or Muon, whose matrices are dealt out whole to the replicas of ZeRO 1 (muon.h).
///
/// ZeRO (Rajbhandari et al., arXiv 1910.02054) over the replicas of pipeline stages that hold the
/// same layers:
///  - 0: gradients are all-reduced at the end, and every replica updates all parameters;
///  - 1: they are reduce-scattered at the end, every replica updates its shard, and new weights are
///    gathered: at the end, or with overlap.parameters at the beginning of the next iteration,
///    which is that of this one, part by part during the first microbatch's forward pass;
///  - 2: gradients are reduce-scattered in every microbatch, as nobody has room to add up whole
///    ones (Megatron-FSDP's optim_grads; FSDP2 when every backward pass synchronizes);
///  - 3: weights, too, are gathered for every pass of every microbatch through a part, and dropped
///    behind it: one part ahead with overlap.parameters, else when it is needed.
class OptimizerOps {
 public:
  /// `layers`, of each stage of the replicas, must outlive it. `parts`: all that a stage holds.
  OptimizerOps(LayerReplicas replicas, std::vector<StageLayers*> layers,
               std::vector<StagePart> parts, bool whole);

  /// Before any work of the stages is added.
  void begin();
  /// The next kernels of a stage's chain are those of a part: they wait for its weights, which are
  /// gathered now unless they have been.
  void require(OpChain& chain, WorkCell cell, const StageSpace& stage, const StagePart& part,
               Pass pass);
  /// This part will be next: its weights may travel from now on.
  void fetch(const OpChain& chain, WorkCell cell, const StagePart& part, Pass pass);
  /// A microbatch's gradients of a part are there; `last`: those of all that the stage runs. They
  /// are summed from now on, or at the end.
  void sum(OpChain& chain, WorkCell cell, const StagePart& part, bool last);
  /// Sums what is left, updates, and gathers, once all work of these stages has been added: `done`
  /// is the end of each.
  void finish(const std::vector<const Mark*>& done);

  /// Parameters of one GPU besides routed experts.
  std::int64_t dense_parameters() const;

 private:
  using PartKey = std::pair<StagePartKind, int>;
  using PassKey = std::tuple<int, int, Pass, PartKey>;  // microbatch, chunk
  static PartKey key_of(const StagePart& part) { return {part.kind, part.number}; }
  const OverlapSpec& overlap() const {
    return exchanges_.replicas().stage().options().spec.overlap;
  }
  int zero() const { return exchanges_.replicas().stage().options().spec.zero; }
  bool gathers_at_begin() const { return overlap().parameters && zero() > 0 && zero() < 3; }
  std::vector<OpId> sum_now(const StagePart& part, WorkCell cell, const std::vector<OpId>& after);
  std::vector<OpId> gather(const StagePart& part, WorkCell cell, Pass pass,
                           const std::vector<OpId>& after);
  std::vector<Updated> updated() const;  // [GPU of all stages]
  std::vector<Updated> by_muon() const;
  OpId add_update(const std::vector<OpId>& after);
  OpId add_orthogonalization(const std::vector<Updated>& updated, OpId after);
  OpId add_kernels(std::vector<Kernel> each, int part, const std::vector<OpId>& after);
  std::vector<std::int64_t> expert_parameters() const;  // [GPU of all stages] that it updates
  std::int64_t updated_dense() const;

  ReplicaExchanges exchanges_;
  std::vector<StageLayers*> layers_;  // [stage]
  std::vector<StagePart> parts_;
  std::map<PassKey, std::vector<OpId>> fetched_;  // for passes that have not begun
  std::map<std::pair<const StageSpace*, PartKey>, std::vector<OpId>> new_weights_;
  struct Awaited {
    int stages = 0;  // whose gradients are there
    std::vector<OpId> after;
  };
  std::map<PartKey, Awaited> awaited_;
  std::vector<StagePart> waiting_;  // parts whose sums start at the end
  std::vector<OpId> sums_;
};

}  // namespace moesim
