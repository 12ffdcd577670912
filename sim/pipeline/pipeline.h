// SPDX-License-Identifier: Apache-2.0
// Schedules of pipeline parallelism: what each pipeline rank runs, and in which order. No times.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace moesim {

enum class PipelineKind {
  gpipe,                 // all forwards, then all backwards (arXiv 1811.06965)
  one_f_one_b,           // 1F1B (PipeDream-Flush; arXiv 2104.04473)
  interleaved,           // 1F1B over several model chunks per rank (arXiv 2104.04473)
  combined,              // 1F1B whose forwards run merged with backwards, one more in the warm-up
  combined_interleaved,  // the same over several chunks (Megatron-Core, arXiv 2603.07685)
  zb1p,                  // weight gradients fill the bubble (ZB-H1, arXiv 2401.10241)
  dualpipe,              // microbatches enter at both ends (DeepSeek-V3, arXiv 2412.19437)
  dualpipev,             // half of DualPipe: down the ranks and up again (deepseek-ai/DualPipe)
};
/// In the order of the enum: gpipe, 1f1b, interleaved, combined-1f1b, ...
const std::vector<std::string>& pipeline_kind_names();
const std::string& name_of(PipelineKind kind);

struct PipelineShape {
  PipelineKind kind = PipelineKind::one_f_one_b;
  int ranks = 1;  // P, pipeline ranks
  int microbatches = 1;
  int chunks = 1;  // v, of the model per rank: at least 2 in interleaved kinds, 1 in all others
};

enum class WorkKind {
  forward,
  backward,         // gradients of inputs and weights together
  input_gradient,   // the next stage waits for it
  weight_gradient,  // of an input_gradient, at any time after it
};

/// One pass of one microbatch through one model chunk of a rank.
struct StageWork {
  WorkKind kind = WorkKind::forward;
  int microbatch = 0;
  int chunk = 0;  // of those that the rank holds
  bool operator==(const StageWork&) const = default;
};

/// What a rank runs at a time: one work, or a forward merged with the backward of another
/// microbatch (`beside`). A merged turn waits for the inputs of both.
struct Turn {
  StageWork work;
  std::optional<StageWork> beside;
  bool operator==(const Turn&) const = default;
};
using Timetable = std::vector<Turn>;  // of one rank, in its order

/// A turn of a pipeline: the index in the timetable of a rank.
struct TurnAt {
  int rank = -1, turn = -1;
  bool operator==(const TurnAt&) const = default;
};

/// Where a stage lies: the model chunk of a rank.
struct StagePlace {
  int rank = 0, chunk = 0;
  bool operator==(const StagePlace&) const = default;
};

/// The timetables of all ranks, proven when they are made: every microbatch passes every stage
/// forward and backward once, gradients of weights included, and nothing deadlocks.
///  - A stage is a part of the model; every microbatch passes stages 0 .. stages() - 1 in order.
///  - The forward at stage s waits for that at s - 1; the backward at s for that at s + 1 and for
///    the forward at s; the weight gradient for the input gradient at s.
class Pipeline {
 public:
  /// Throws Error naming the rule that a shape breaks.
  explicit Pipeline(const PipelineShape& shape);
  /// With an order of one's own. Throws std::logic_error naming what is missing, double, misplaced
  /// or, of a deadlock, every rank that is stuck and what it waits for.
  Pipeline(const PipelineShape& shape, std::vector<Timetable> timetables);

  const PipelineShape& shape() const { return shape_; }
  int ranks() const { return shape_.ranks; }
  int microbatches() const { return shape_.microbatches; }
  int stages() const;
  /// Model chunks per rank: 2 in DualPipe and DualPipeV.
  int chunks() const;
  /// Places that hold each stage: 2 in DualPipe, where their weight gradients are summed; else 1.
  int copies() const { return shape_.kind == PipelineKind::dualpipe ? 2 : 1; }

  /// DualPipe: the first half of the microbatches passes from rank 0 on, in chunks 0; the second
  /// half from the last rank on, in chunks 1.
  StagePlace place(int microbatch, int stage) const;
  int stage_of(StagePlace place) const;

  const Timetable& of(int rank) const { return timetables_[static_cast<std::size_t>(rank)]; }
  const Turn& at(TurnAt at) const { return of(at.rank)[static_cast<std::size_t>(at.turn)]; }
  /// The turn that does this to a microbatch at a stage. Of a whole backward it is the same turn
  /// for `backward`, `input_gradient` and `weight_gradient`; of one in two parts `backward` means
  /// its input gradient.
  TurnAt turn_of(WorkKind kind, int microbatch, int stage) const;
  /// Turns whose results this turn waits for, besides that before it on its rank: of its own rank
  /// and of neighbours.
  std::vector<TurnAt> inputs(TurnAt at) const;
  /// All turns of all ranks in one order in which each follows its inputs and those before it on
  /// its rank: one turn of each rank that need not wait, down the ranks and up again in turn.
  const std::vector<TurnAt>& order() const { return order_; }

 private:
  void index_works();
  void index_work(const StageWork& work, TurnAt at);
  void find_order();
  std::string stuck(const std::vector<int>& done) const;

  PipelineShape shape_;
  std::vector<Timetable> timetables_;  // [rank]
  std::vector<TurnAt> turns_;          // see turn_of
  std::vector<TurnAt> order_;
};

}  // namespace moesim
