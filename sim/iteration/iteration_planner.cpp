// SPDX-License-Identifier: Apache-2.0
#include "sim/iteration/iteration_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "sim/base/sort_once.h"
#include "sim/iteration/chunk_pass.h"
#include "sim/iteration/stage_memory.h"
#include "sim/iteration/transfers.h"
#include "sim/mechanism/unsuitable.h"
#include "sim/plan/check.h"
#include "sim/policy/expert_tensors.h"

namespace moesim {
/// The plan of one iteration as it grows.
class IterationPlanner::Iteration {
 public:
  Iteration(const IterationPlanner& planner, Plan& plan)
      : planner_(planner),
        plan_(plan),
        transfers_(stages_, planner.shape_.pipeline, planner.shape_.layers) {
    const int stages = planner.shape_.pipeline.stages();
    for (int r = 0; r < stages; ++r) {
      stages_.emplace_back(plan, planner.shape_.grid, r, planner.model_, planner.options_);
    }
    for (int r = 0; r < stages; ++r) add_stage(r);
    if (planner.options_.optimizer) add_optimizers();
  }

  void add_all() {
    const Pipeline& pipeline = planner_.shape_.pipeline;
    std::size_t turns = 0;
    for (const TurnAt at : pipeline.order()) {
      // Turns are as long as they will be by then. A list that grows is copied and holds half more.
      if (++turns == pipeline.order().size() / 4) plan_.ops.reserve(plan_.ops.size() * 4);
      const Turn& turn = pipeline.at(at);
      if (turn.beside && planner_.options_.spec.overlap.all_to_all) {
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

  IterationMemory memory() const {
    IterationMemory result{MemoryPeaks(static_cast<std::size_t>(plan_.gpus)), {}};
    const auto of_stage = [&](std::size_t r) {
      std::vector<const ChunkParts*> chunks;
      for (const auto& chunk : chunks_[r]) chunks.push_back(chunk.get());
      return StageMemory(stages_[r], planner_.shape_.pipeline, static_cast<int>(r), chunks);
    };
    for (std::size_t r = 0; r < stages_.size(); ++r) {
      const StageMemory stage = of_stage(r);
      for (GpuId own(0); own.value < stage.gpus(); ++own.value) {
        result.peaks[stages_[r].gpus()->in_plan(own).index()] = stage.peak(own);
      }
    }
    const GpuId most = fullest(result.peaks);
    const auto r = static_cast<std::size_t>(result.peaks[most.index()].stage);
    result.curve = of_stage(r).curve(stages_[r].gpus()->own(most));
    return result;
  }

 private:
  using PassKey = std::tuple<int, int, int>;  // stage, microbatch, chunk

  /// The stages that hold the same layers as stage r, itself the first.
  std::vector<int> copies_of(int r) const {
    if (planner_.shape_.pipeline.copies() == 1) return {r};
    return {r, planner_.shape_.pipeline.stages() - 1 - r};
  }

  void add_optimizers() {
    const Pipeline& pipeline = planner_.shape_.pipeline;
    for (int first = 0; first < pipeline.stages() / pipeline.copies(); ++first) {
      std::vector<const StageSpace*> stages;
      std::vector<StageLayers*> layers;
      std::vector<StagePart> parts;
      for (int chunk = 0; chunk < pipeline.chunks(); ++chunk) {
        const auto of_chunk = planner_.parts(first, chunk);
        parts.insert(parts.end(), of_chunk.begin(), of_chunk.end());
      }
      for (const int r : copies_of(first)) {
        stages.push_back(&stages_[static_cast<std::size_t>(r)]);
        layers.push_back(planner_.layers_[static_cast<std::size_t>(r)].get());
      }
      OptimizerOps& made = *optimizers_.emplace_back(
          std::make_unique<OptimizerOps>(LayerReplicas(std::move(stages), planner_.topology_),
                                         std::move(layers), std::move(parts), planner_.whole_));
      made.begin();
      for (const int r : copies_of(first)) {
        for (auto& chunk : chunks_[static_cast<std::size_t>(r)]) chunk->sums = &made;
      }
    }
  }

  void add_stage(int r) {
    const StageSpace& stage = stages_[static_cast<std::size_t>(r)];
    StageLayers& layers = *planner_.layers_[static_cast<std::size_t>(r)];
    blocks_.push_back(std::make_unique<BlockOps>(stage));
    auto& chunks = chunks_.emplace_back();
    for (int chunk = 0; chunk < planner_.shape_.pipeline.chunks(); ++chunk) {
      chunks.push_back(std::make_unique<ChunkParts>(ChunkParts{
          stage, *blocks_.back(), layers, chunk, planner_.parts(r, chunk), planner_.whole_}));
    }
    done_.emplace_back(stage.everybody().size());
    left_.emplace_back(chunks.size(), 0);
    for (const Turn& turn : planner_.shape_.pipeline.of(r)) {
      for (const StageWork* work : {&turn.work, turn.beside ? &*turn.beside : nullptr}) {
        if (work == nullptr) continue;
        if (ends_gradients(*work)) ++left(r, work->chunk);
        const bool delayed = work != &turn.work && planner_.options_.spec.overlap.delay_wgrad;
        if (work->kind == WorkKind::weight_gradient || delayed) {
          apart_.insert({r, work->microbatch, work->chunk});
        }
      }
    }
  }

  static bool ends_gradients(const StageWork& work) {
    return work.kind == WorkKind::backward || work.kind == WorkKind::weight_gradient;
  }
  int& left(int stage, int chunk) {
    return left_[static_cast<std::size_t>(stage)][static_cast<std::size_t>(chunk)];
  }

  ChunkPass& pass(int stage, const StageWork& work) {
    const PassKey key{stage, work.microbatch, work.chunk};
    auto& made = passes_[key];
    if (!made) {
      const auto& chunk =
          *chunks_[static_cast<std::size_t>(stage)][static_cast<std::size_t>(work.chunk)];
      made = std::make_unique<ChunkPass>(chunk, work.microbatch, apart_.contains(key));
      if (!migrated_.insert({stage, work.chunk}).second) return *made;
      made->migrate();
    }
    return *made;
  }

  /// The pass of a work, whose inputs have arrived; and what the stage sent before, where the
  /// pipeline awaits that.
  ChunkPass& begin(int stage, const StageWork& work, const std::vector<OpId>& sent) {
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

  void end(ChunkPass& made, int stage, const StageWork& work) {
    if (work.kind != WorkKind::weight_gradient) {
      transfers_.send(plan_, stage, work, way_of(work), made.mark());
    }
    done_[static_cast<std::size_t>(stage)] = made.end();
    if (ends_gradients(work)) passes_.erase({stage, work.microbatch, work.chunk});
  }

  static Pass way_of(const StageWork& work) {
    return work.kind == WorkKind::forward ? Pass::forward : Pass::backward;
  }

  void add(int stage, const StageWork& work) {
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

  void add_merged_works(int stage, const StageWork& forward, const StageWork& backward) {
    const std::vector<OpId> sent = transfers_.take_sent(stage);
    ChunkPass& there = begin(stage, forward, sent);
    ChunkPass& back = begin(stage, backward, sent);
    const PassPieces weights = back.weights_apart() ? back.weight_gradients() : PassPieces();
    add_merged(there.forward(), back.backward(), back.weights_apart() ? &weights : nullptr);
    end(there, stage, forward);
    end(back, stage, backward);
  }

  const IterationPlanner& planner_;
  Plan& plan_;
  std::vector<StageSpace> stages_;
  Transfers transfers_;
  std::vector<std::unique_ptr<BlockOps>> blocks_;                 // [stage]
  std::vector<std::vector<std::unique_ptr<ChunkParts>>> chunks_;  // [stage][chunk]
  std::vector<std::unique_ptr<OptimizerOps>> optimizers_;         // [stage] of the first copies
  std::map<PassKey, std::unique_ptr<ChunkPass>> passes_;          // that have begun
  std::set<PassKey> apart_;                 // whose gradients by weights are passes of their own
  std::set<std::pair<int, int>> migrated_;  // stage, chunk
  std::vector<std::vector<int>> left_;      // [stage][chunk] passes that end gradients
  std::vector<Mark> done_;                  // [stage]
};

IterationPlanner::IterationPlanner(const SystemSpec& system, const Topology& topology,
                                   const MoeModel& model, const RoutingTrace& trace,
                                   IterationOptions options)
    : name_(system.name),
      transports_(system.transports),
      topology_(topology),
      model_(model),
      options_(std::move(options)),
      whole_(model.missing_of_whole().empty()),
      expert_model_(model),
      shape_(shape_of(options_.spec, topology.gpu_count(), model)),
      microbatches_(make_microbatches(trace, shape_, options_.spec)) {
  check_can_plan(options_.spec);
  expert_model_ = with_parts_of_experts(model, shape_.grid.size(ParallelAxis::etp));
  PlannerOptions layer_options;
  layer_options.ep = options_.spec.parallel.ep;
  layer_options.state = options_.state;
  layer_options.gemm_type = options_.gemm_type();
  layer_options.accumulate = 0;  // the end of the iteration sums
  layer_options.explicit_rows = options_.explicit_rows;
  layer_options.batches = microbatches_.recorded;
  layer_options.counted = &counted_;
  for (int stage = 0; stage < shape_.grid.stages(); ++stage) {
    clusters_.push_back(std::make_unique<Topology>(
        topology.of_gpus(shape_.grid.stage_by(ParallelAxis::ep, stage))));
    layer_options.tensor_sharers = tensor_sharers(shape_.grid, stage);
    std::vector<std::vector<int>> chunks;
    for (int chunk = 0; chunk < shape_.pipeline.chunks(); ++chunk) {
      auto& numbers = chunks.emplace_back();
      for (const StagePart& part : parts(stage, chunk)) {
        const int number = layer_number(model, part);
        if (number >= 0 && model.is_moe_layer(number)) numbers.push_back(number);
      }
    }
    layers_.push_back(std::make_unique<StageLayers>(system, *clusters_.back(), expert_model_, trace,
                                                    microbatches_, std::move(chunks),
                                                    layer_options));
  }
}

IterationPlanner::~IterationPlanner() = default;

std::vector<StagePart> IterationPlanner::parts(int stage, int chunk) const {
  return shape_.layers.parts(shape_.pipeline.position_of({stage, chunk}));
}

void IterationPlanner::decide(int iteration, RoutingChange& change) {
  for (auto& layers : layers_) replanned_ |= layers->plan(iteration, change);
  counted_.forget();
}

void IterationPlanner::warm_up(int iteration) {
  RoutingChange change;
  decide(iteration, change);
}

IterationPlan IterationPlanner::plan(int iteration) {
  IterationPlan result;
  result.plan.name = fmt::format("{}-iteration{}", name_, iteration);
  result.plan.gpus = topology_.gpu_count();
  result.plan.transports = transports_;
  result.tokens = std::int64_t{options_.spec.global_batch} * options_.spec.sequence;
  decide(iteration, result.change);
  unless_unsuitable([&] {
    Iteration grown(*this, result.plan);
    grown.add_all();
    result.memory = grown.memory();
  });
  check_plan(result.plan);
  return result;
}

}  // namespace moesim
