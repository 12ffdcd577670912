// SPDX-License-Identifier: Apache-2.0
// Schedules of pipeline parallelism: what each pipeline stage runs, and in which order. No times.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace moesim {

enum class PipelineKind {
  gpipe,                 // all forwards, then all backwards (arXiv 1811.06965)
  one_f_one_b,           // 1F1B (PipeDream-Flush; arXiv 2104.04473)
  interleaved,           // 1F1B over several model chunks per stage (arXiv 2104.04473)
  combined,              // 1F1B whose forwards run merged with backwards, one more in the warm-up
  combined_interleaved,  // the same over several chunks (Megatron-Core, arXiv 2603.07685)
  zb1p,                  // weight gradients fill the bubble (ZB-H1, arXiv 2401.10241)
  dualpipe,              // microbatches enter at both ends (DeepSeek-V3, arXiv 2412.19437)
  dualpipev,             // half of DualPipe: down the stages and up again (deepseek-ai/DualPipe)
  zbv,                   // ZB-V: without a bubble, with 1F1B's memory (arXiv 2401.10241)
  v_half,                // half of that memory (arXiv 2405.15362)
  v_min,                 // a third of it (the same)
};
/// In the order of the enum: gpipe, 1f1b, interleaved, combined-1f1b, ...
const std::vector<std::string>& pipeline_kind_names();
const std::string& name_of(PipelineKind kind);
/// Whether positions go down the stages and up again, so that a stage holds two chunks.
bool is_v(PipelineKind kind);
/// Stages that hold the layers of each position: 2 in DualPipe, which sum their weight gradients
/// and share what ZeRO divides; else 1.
constexpr int stage_copies(PipelineKind kind) { return kind == PipelineKind::dualpipe ? 2 : 1; }
/// Whether a stage awaits what it has sent before its next turn, as the published code of DualPipe
/// and DualPipeV does: it posts sends and receives together and awaits them all
/// (deepseek-ai/DualPipe, _commit_and_wait_comm).
bool awaits_sends(PipelineKind kind);

struct PipelineShape {
  PipelineKind kind = PipelineKind::one_f_one_b;
  int stages = 1;  // P, pipeline stages
  int microbatches = 1;
  int chunks = 1;  // v, of the model per stage: at least 2 in interleaved kinds, 1 in all others
  bool backward = true;  // if not, the order of forwards that the kind has; not of a V or DualPipe
};

enum class WorkKind {
  forward,
  backward,         // gradients of inputs and weights together
  input_gradient,   // the backward at the position before waits for it
  weight_gradient,  // of an input_gradient, at any time after it
};

/// One pass of one microbatch through one model chunk of a stage.
struct StageWork {
  WorkKind kind = WorkKind::forward;
  int microbatch = 0;
  int chunk = 0;  // that the stage holds
  bool operator==(const StageWork&) const = default;
};

/// What a stage runs at a time: one work, or a forward merged with the backward of another
/// microbatch (`beside`). A merged turn waits for the inputs of both.
struct Turn {
  StageWork work;
  std::optional<StageWork> beside;
  bool operator==(const Turn&) const = default;
};
using Timetable = std::vector<Turn>;  // of one stage, in its order

/// A turn of a pipeline: the index in the timetable of a stage.
struct TurnAt {
  int stage = -1, turn = -1;
  bool operator==(const TurnAt&) const = default;
};

/// Where a position is: a model chunk of a stage.
struct ChunkPlace {
  int stage = 0, chunk = 0;
  bool operator==(const ChunkPlace&) const = default;
};

/// The timetables of all stages, proven when they are made: every microbatch passes every position
/// forward and, unless the shape has no backward, backward once, gradients of weights included, and
/// nothing deadlocks.
///  - A position is a part of the model (a virtual stage); every microbatch passes positions
///    0 .. positions() - 1 in order.
///  - The forward at a position waits for that at the position before; the backward for that at the
///    position behind and for its own forward; the weight gradient for its own input gradient.
class Pipeline {
 public:
  /// Throws Error naming the rule that a shape breaks.
  explicit Pipeline(const PipelineShape& shape);
  /// With an order of one's own. Throws std::logic_error naming what is missing, double, misplaced
  /// or, of a deadlock, every stage that is stuck and what it waits for.
  Pipeline(const PipelineShape& shape, std::vector<Timetable> timetables);

  const PipelineShape& shape() const { return shape_; }
  int stages() const { return shape_.stages; }
  int microbatches() const { return shape_.microbatches; }
  int positions() const;
  /// Model chunks per stage: 2 in DualPipe and in all kinds of a V.
  int chunks() const;
  int copies() const { return stage_copies(shape_.kind); }

  /// DualPipe: the first half of the microbatches passes from stage 0 on, in chunks 0; the second
  /// half from the last stage on, in chunks 1.
  ChunkPlace place(int microbatch, int position) const;
  int position_of(ChunkPlace place) const;

  const Timetable& of(int stage) const { return timetables_[static_cast<std::size_t>(stage)]; }
  const Turn& at(TurnAt at) const { return of(at.stage)[static_cast<std::size_t>(at.turn)]; }
  /// The turn that does this to a microbatch at a position. For a whole backward it is the same
  /// turn for `backward`, `input_gradient` and `weight_gradient`; of one in two parts `backward`
  /// means its input gradient.
  TurnAt turn_of(WorkKind kind, int microbatch, int position) const;
  /// Turns whose results this turn waits for, besides that before it on its stage: of its own stage
  /// and of neighbours.
  std::vector<TurnAt> inputs(TurnAt at) const;
  /// All turns of all stages in one order in which each follows its inputs and those before it on
  /// its stage: one turn of each stage that need not wait, down the stages and up again in turn.
  const std::vector<TurnAt>& order() const { return order_; }

 private:
  void index_works();
  void index_work(const StageWork& work, TurnAt at);
  void find_order();
  std::string stuck(const std::vector<int>& done) const;

  PipelineShape shape_;
  std::vector<Timetable> timetables_;  // [stage]
  std::vector<TurnAt> turns_;          // see turn_of
  std::vector<TurnAt> order_;
};

}  // namespace moesim
