// SPDX-License-Identifier: Apache-2.0
// Schedule mechanisms: when expert parameters and their gradients move, and what is computed again.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/mechanism/mechanisms.h"
#include "sim/planner/layer/layer_ops.h"

namespace moesim {

/// What a schedule may know when it is made; it may keep the references.
struct ScheduleContext {
  const Topology& topology;
  const MoeModel& model;
};

/// Where a pass over the layers has come to.
enum class Point {
  pass_begins,   // at the layer that it visits first
  layer_begins,  // forward: before attention, which comes last in the backward pass
  routed,        // before the dispatch
  dispatched,    // before the experts
  computed,      // after the experts, before the combine
  combined,      // after it
  pass_ends      // at the layer that was visited last
};

/// What a chunk of a layer's rows consists of: an equal part of every rank's tokens (Tutel, arXiv
/// 2206.03382), what each group of ranks sends to one other (FasterMoE's smart schedule, PPoPP
/// 2022), as many tiles of the experts' products as the multiprocessors compute at once: waves of
/// one kernel that exchanges rows, too; or the results of as many experts of every GPU, which are
/// dispatched together and combined while the last products of others go on (SGLang's single-batch
/// overlap, sgl-project/sglang at 06beed92, batch_overlap/single_batch_overlap.py).
enum class ChunkBy { tokens, partners, tiles, results };

/// The kernel whose waves are chunks; without columns also of products by themselves. What it is
/// not written for a fused kernel refuses, and products by themselves have the GPU's own kernels.
struct TiledKernel {
  /// Rows of a tile, ascending: the least with which an expert has as few tiles as with the last,
  /// if it has a standard deviation more rows than the mean one.
  std::vector<int> rows = {128};
  int fill = 0;       // the rows of an expert's last tile are a multiple; 0: all of the tile
  int columns = 128;  // of a tile
  std::vector<DataType> types = {};       // of weights that it takes; empty: any
  std::optional<DataType> weights = {};   // as it reads them; default: as the model's
  std::optional<DataType> products = {};  // that it multiplies in; default: the weights'
  std::vector<std::string> dies = {};     // of GPUs that it is written for; empty: any

  bool is_for_all() const { return types.empty() && dies.empty(); }
};

/// Chunks that a layer dispatches, computes and combines by themselves: while the experts compute
/// one, others travel.
struct Chunking {
  int count = 1;  // 0: chosen for every layer (chunk_count.h); of tiles: at most
  ChunkBy by = ChunkBy::tokens;
  /// Chunks are parts of one exchange, which pays its overhead and latency once, such as when a
  /// kernel sends or receives rows while it computes others (Comet, arXiv 2502.19811).
  bool streamed = false;
  /// Products of experts fill tiles of rows, though they are no waves.
  bool fills_tiles = false;
  TiledKernel kernel = {};  // of tiles
};

class Schedule {
 public:
  virtual ~Schedule() = default;
  /// Adds what belongs at a point of a microbatch's pass through its layers.
  virtual void at(Point point, LayerOps& ops, int layer, Pass pass) const = 0;
  const Chunking& chunking() const { return chunking_; }
  void set_chunking(const Chunking& chunking) { chunking_ = chunking; }

 private:
  Chunking chunking_;
};

using ScheduleMechanism = Mechanism<Schedule, ScheduleContext>;
using ScheduleMaker = Maker<Schedule, ScheduleContext>;

/// The table of schedules.
const std::vector<ScheduleMechanism>& schedule_mechanisms();
ScheduleMaker read_sequential(const YamlMap& params);
ScheduleMaker read_overlap(const YamlMap& params);

/// The pieces of one layer's pass, in their order, with what the schedule adds between them. What
/// is not of the MoE layer, such as detailed attention, goes between them, too.
class LayerPass {
 public:
  /// All of these must outlive it.
  LayerPass(const Schedule& schedule, LayerOps& ops, int layer, Pass pass)
      : schedule_(schedule), ops_(ops), layer_(layer), pass_(pass) {}
  void begin() const { at(Point::layer_begins); }
  void attention() const { ops_.attention(layer_, pass_); }
  void route() const;  // what comes before the dispatch
  void dispatch() const;
  void experts() const;
  void combine() const { ops_.combine(layer_, pass_); }
  void join() const;  // what comes after the combine

 private:
  void at(Point point) const { schedule_.at(point, ops_, layer_, pass_); }
  const Schedule& schedule_;
  LayerOps& ops_;
  int layer_;
  Pass pass_;
};

/// Experts that change places, before anything else.
void issue_migrations(LayerOps& ops);
/// A step of one microbatch: forward and, if asked, backward, layer by layer.
void issue_step(const Schedule& schedule, LayerOps& ops, bool backward);

}  // namespace moesim
