// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/growing_step.h"

#include <algorithm>

#include "sim/base/large_memory.h"
#include "sim/planner/iteration/stage_memory.h"

namespace moesim {
namespace {

bool ends_gradients(const StageWork& work) {
  return work.kind == WorkKind::backward || work.kind == WorkKind::weight_gradient;
}

Pass way_of(const StageWork& work) {
  return work.kind == WorkKind::forward ? Pass::forward : Pass::backward;
}

/// The cluster, if what takes equal times is to be one exchange.
const Topology* joins_on(const DecidedStep& step) {
  return step.spec.join_alike ? &step.topology : nullptr;
}

bool is_apart(ReplayedLayer& layer) {
  for (int phase = 0; phase < layer.work().dispatch->shape().size(); ++phase) {
    const auto& collectives = layer.traffic(phase).collectives;
    if (collectives && collectives->apart) return true;
  }
  return std::ranges::any_of(layer.chunks(), is_apart);
}

/// Whether communicators start and end by themselves, and so cells do.
bool are_apart(const DecidedStep& step) {
  if (!step.spec.join_alike) return false;
  for (const auto& stage : step.layers) {
    for (int chunk = 0; chunk < stage->chunks(); ++chunk) {
      for (const auto& microbatch : stage->of_chunk(chunk)) {
        if (std::ranges::any_of(microbatch->replayed, is_apart)) return true;
      }
    }
  }
  return false;
}

}  // namespace

GrowingStep::GrowingStep(const DecidedStep& step, Plan& plan)
    : step_(step),
      plan_(plan),
      cells_apart_(are_apart(step)),
      transfers_(stages_, step.pipeline, step.shape.layers, joins_on(step), cells_apart_) {
  const int stages = step.pipeline.stages();
  for (int r = 0; r < stages; ++r) {
    stages_.emplace_back(plan, step.shape.grid, r, step.model, step.spec, step.topology);
  }
  for (int r = 0; r < stages; ++r) add_stage(r);
  if (step.spec.optimizer) add_optimizers();
}

void GrowingStep::add_all() {
  const Pipeline& pipeline = step_.pipeline;
  if (step_.spec.serves() && step_.shape.microbatches > 1) {
    for (int stage = 0; stage < pipeline.stages(); ++stage) add_parts_of_batch(stage);
    return;
  }
  std::size_t turns = 0;
  for (const TurnAt at : pipeline.order()) {
    // A list that grows is copied and holds half more. The first turns are short, one pass each,
    // and room that is not used costs nothing.
    if (++turns == pipeline.order().size() / 4) {
      plan_.ops.reserve(plan_.ops.size() * 6);
      expect_to_fill(plan_.ops.data(), plan_.ops.capacity());
    }
    const Turn& turn = pipeline.at(at);
    if (turn.beside && step_.spec.spec.overlap.all_to_all) {
      add_merged_works(at.stage, turn.work, *turn.beside);
      continue;
    }
    add(at.stage, turn.work);
    if (turn.beside) add(at.stage, *turn.beside);
  }
  for (std::size_t i = 0; i < optimizers_.size(); ++i) {
    std::vector<const Mark*> done;
    for (const int r : copies_of(static_cast<int>(i))) {
      done.push_back(&done_[static_cast<std::size_t>(r)]);
    }
    optimizers_[i]->finish(done);
  }
}

StepMemory GrowingStep::memory() const {
  StepMemory result{MemoryPeaks(static_cast<std::size_t>(plan_.gpus)), {}};
  const auto of_stage = [&](std::size_t r) {
    std::vector<const ChunkParts*> chunks;
    for (const auto& chunk : chunks_[r]) chunks.push_back(chunk.get());
    return StageMemory(stages_[r], step_.shape.pipeline, static_cast<int>(r), chunks);
  };
  for (std::size_t r = 0; r < stages_.size(); ++r) {
    const StageMemory stage = of_stage(r);
    const MemoryPeak of_first = stage.peak(GpuId(0));
    for (GpuId own(0); own.value < stage.gpus(); ++own.value) {
      result.peaks[stages_[r].gpus()->in_plan(own).index()] =
          stage.holds_as_first(own) ? of_first : stage.peak(own);
    }
  }
  const GpuId most = fullest(result.peaks);
  const auto r = static_cast<std::size_t>(result.peaks[most.index()].stage);
  result.curve = of_stage(r).curve(stages_[r].gpus()->own(most));
  return result;
}

/// The stages that hold the same layers as stage r, itself the first.
std::vector<int> GrowingStep::copies_of(int r) const {
  if (step_.pipeline.copies() == 1) return {r};
  return {r, step_.pipeline.stages() - 1 - r};
}

void GrowingStep::add_optimizers() {
  const Pipeline& pipeline = step_.pipeline;
  for (int first = 0; first < pipeline.stages() / pipeline.copies(); ++first) {
    std::vector<const StageSpace*> stages;
    std::vector<StageLayers*> layers;
    std::vector<StagePart> parts;
    for (int chunk = 0; chunk < pipeline.chunks(); ++chunk) {
      const auto of_chunk = step_.parts(first, chunk);
      parts.insert(parts.end(), of_chunk.begin(), of_chunk.end());
    }
    for (const int r : copies_of(first)) {
      stages.push_back(&stages_[static_cast<std::size_t>(r)]);
      layers.push_back(step_.layers[static_cast<std::size_t>(r)].get());
    }
    OptimizerOps& made = *optimizers_.emplace_back(
        std::make_unique<OptimizerOps>(LayerReplicas(std::move(stages), step_.topology),
                                       std::move(layers), std::move(parts), step_.whole));
    made.begin();
    for (const int r : copies_of(first)) {
      for (auto& chunk : chunks_[static_cast<std::size_t>(r)]) chunk->sums = &made;
    }
  }
}

void GrowingStep::add_stage(int r) {
  const StageSpace& stage = stages_[static_cast<std::size_t>(r)];
  StageLayers& layers = *step_.layers[static_cast<std::size_t>(r)];
  blocks_.push_back(std::make_unique<BlockOps>(stage, joins_on(step_), cells_apart_));
  stashes_.push_back(stage.options().spec.stash
                         ? std::make_unique<StashCopies>(StashCopies{
                               kept_expert_row(stage, stage.shard().gemm_types.kept_of_experts())})
                         : nullptr);
  copies_.push_back(stage.options().spec.offload.empty()
                        ? nullptr
                        : std::make_unique<HostCopies>(stage, step_.topology,
                                                       joins_on(step_) != nullptr, cells_apart_));
  const auto keeping = keeping_last_layer(step_.pipeline.of(r));
  auto& chunks = chunks_.emplace_back();
  for (int chunk = 0; chunk < step_.pipeline.chunks(); ++chunk) {
    ChunkParts& parts = *chunks.emplace_back(std::make_unique<ChunkParts>(
        ChunkParts{stage, *blocks_.back(), layers.planner().schedule()}));
    for (const auto& of_microbatch : layers.of_chunk(chunk)) {
      parts.microbatches.push_back(of_microbatch.get());
    }
    parts.chunk = chunk;
    parts.parts = step_.parts(r, chunk);
    parts.whole = step_.whole;
    parts.stash = stashes_.back().get();
    parts.copies = copies_.back().get();
    parts.keeping_last_layer = keeping;
  }
  done_.emplace_back(stage.everybody().size());
  left_.emplace_back(chunks.size(), 0);
  for (const Turn& turn : step_.pipeline.of(r)) {
    for (const StageWork* work : {&turn.work, turn.beside ? &*turn.beside : nullptr}) {
      if (work == nullptr) continue;
      if (ends_gradients(*work)) ++left(r, work->chunk);
      const bool delayed = work != &turn.work && step_.spec.spec.overlap.delay_wgrad;
      if (work->kind == WorkKind::weight_gradient || delayed) {
        apart_.insert({r, work->microbatch, work->chunk});
      }
    }
  }
}

ChunkPass& GrowingStep::pass(int stage, const StageWork& work) {
  const PassKey key{stage, work.microbatch, work.chunk};
  auto& made = passes_[key];
  if (!made) {
    const auto& chunk =
        *chunks_[static_cast<std::size_t>(stage)][static_cast<std::size_t>(work.chunk)];
    made = std::make_unique<ChunkPass>(chunk, work.microbatch, apart_.contains(key));
    const bool drafts = chunk.stage.drafts(work.microbatch);
    if (!migrated_.insert({stage, work.chunk, drafts}).second) return *made;
    made->migrate();
  }
  return *made;
}

/// The pass of a work, whose inputs have arrived; and what the stage sent before, if the pipeline
/// awaits that.
ChunkPass& GrowingStep::begin(int stage, const StageWork& work, const std::vector<OpId>& sent) {
  ChunkPass& made = pass(stage, work);
  made.require(sent);
  const bool whole = work.kind == WorkKind::backward;
  if ((whole || work.kind == WorkKind::weight_gradient) && --left(stage, work.chunk) == 0) {
    made.sums_gradients();
  }
  if (work.kind != WorkKind::weight_gradient) {
    made.require(transfers_.take_arrivals(stage, work, way_of(work)));
  }
  return made;
}

void GrowingStep::end(ChunkPass& made, int stage, const StageWork& work) {
  if (work.kind != WorkKind::weight_gradient) {
    transfers_.send(plan_, stage, work, way_of(work), made.mark());
  }
  done_[static_cast<std::size_t>(stage)] = made.end();
  if (ends_gradients(work)) passes_.erase({stage, work.microbatch, work.chunk});
}

void GrowingStep::add(int stage, const StageWork& work) {
  ChunkPass& made = begin(stage, work, transfers_.take_sent(stage));
  if (work.kind == WorkKind::forward) {
    add_pass(made.forward(), Pass::forward);
  } else {
    if (work.kind != WorkKind::weight_gradient) add_pass(made.backward(), Pass::backward);
    if (work.kind != WorkKind::input_gradient && made.weights_apart()) {
      add_pass(made.weight_gradients(), Pass::backward);
    }
  }
  end(made, stage, work);
}

/// The halves of a pass by turns, then one draft after the other.
void GrowingStep::add_parts_of_batch(int stage) {
  const Timetable& turns = step_.pipeline.of(stage);
  const auto drafts = [&](const Turn& turn) {
    return stages_[static_cast<std::size_t>(stage)].drafts(turn.work.microbatch);
  };
  std::vector<ChunkPass*> made;
  std::vector<PassPieces> halves;
  for (const Turn& turn : turns) {
    if (drafts(turn)) continue;
    made.push_back(&begin(stage, turn.work, {}));
    halves.push_back(made.back()->forward());
  }
  add_interleaved(halves);
  for (std::size_t i = 0; i < made.size(); ++i) end(*made[i], stage, turns[i].work);
  for (const Turn& turn : turns) {
    if (drafts(turn)) add(stage, turn.work);
  }
}

void GrowingStep::add_merged_works(int stage, const StageWork& forward, const StageWork& backward) {
  const std::vector<OpId> sent = transfers_.take_sent(stage);
  ChunkPass& there = begin(stage, forward, sent);
  ChunkPass& back = begin(stage, backward, sent);
  const PassPieces weights = back.weights_apart() ? back.weight_gradients() : PassPieces();
  add_merged(there.forward(), back.backward(), back.weights_apart() ? &weights : nullptr);
  end(there, stage, forward);
  end(back, stage, backward);
}

}  // namespace moesim
