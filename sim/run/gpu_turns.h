// SPDX-License-Identifier: Apache-2.0
// When the GPUs of a pipeline ran its turns.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "sim/plan/plan.h"
#include "sim/plan/timeline.h"
#include "sim/planner/pipeline/pipeline.h"

namespace moesim {

/// The turns of a stage by the works that they do.
class TurnsOfStage {
 public:
  explicit TurnsOfStage(const Timetable& timetable);

  std::size_t size() const { return size_; }
  /// The turn that an op belongs to; none of what is outside all passes.
  std::optional<std::size_t> turn_of(const OpKey& key) const;

 private:
  using WorkKey = std::tuple<WorkKind, int, int>;  // microbatch, chunk
  void add(const StageWork& work, std::size_t turn);
  std::optional<std::size_t> find(WorkKind kind, const OpKey& key) const;

  std::size_t size_;
  std::map<WorkKey, std::size_t> turns_;
};

/// [stage]
std::vector<TurnsOfStage> turns_by_stage(const Pipeline& pipeline);

/// One GPU: when each of its turns began and ended, and when it was at work for the update.
struct TurnsOfGpu {
  std::vector<Interval> turns;  // [turn], its end not behind its start if it has no ops
  std::vector<Interval> work;   // the same without experts that are on their way
  std::vector<Interval> update;
};

/// [GPU] `stages`: [GPU] its stage of the pipeline, below 0 if another stands for it. Transfers
/// between stages and exchanges between replicas are not part of a turn.
std::vector<TurnsOfGpu> turns_of_gpus(const Plan& plan, const Timeline& timeline,
                                      const std::vector<TurnsOfStage>& by_stage,
                                      const std::vector<int>& stages);

/// Calls visit(index of the op, stage of its first GPU, turn) for all ops; there is no turn of what
/// is outside all passes.
template <class Visit>
void for_each_op_of_turns(const Plan& plan, const std::vector<TurnsOfStage>& by_stage,
                          const std::vector<int>& stages, Visit visit) {
  const auto in_one_turn = [](const OpKey& a, const OpKey& b) {
    return a.role == b.role && a.pass == b.pass && a.microbatch == b.microbatch &&
           a.chunk == b.chunk;
  };
  OpKey last;  // ops that follow each other are mostly of one turn
  std::size_t last_stage = by_stage.size();
  std::optional<std::size_t> turn;
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const Op& op = plan.ops[i];
    if (op.group.size() == 0 || stages[op.group[0].index()] < 0) continue;
    const auto stage = static_cast<std::size_t>(stages[op.group[0].index()]);
    if (stage != last_stage || !in_one_turn(op.key, last)) {
      turn = by_stage[stage].turn_of(last = op.key);
      last_stage = stage;
    }
    visit(i, stage, turn);
  }
}

}  // namespace moesim
