// SPDX-License-Identifier: Apache-2.0
// What the ops of a replayed layer are made of, worked out once for all microbatches that replay
// it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/collective/collective.h"
#include "sim/mechanism/dispatch.h"
#include "sim/mechanism/placer.h"
#include "sim/plan/plan.h"

namespace moesim {

/// A layer that one kernel exchanges and computes, tile by tile.
struct TiledLayer {
  int tile = 1;                         // rows of one
  int fill = 1;                         // of the last of an expert, a multiple of these
  std::vector<std::int64_t> slot_rows;  // [slot] of the whole layer
  std::vector<std::int64_t> tiles;      // [gpu]
  std::optional<DataType> weights;      // as it reads them; none: the model's
  std::optional<DataType> products;     // that it multiplies in; none: the weights'
};

/// One of the equal parts of every GPU's tiles.
struct LayerWave {
  std::shared_ptr<const TiledLayer> kernel;
  int index = 0, waves = 1;
  /// Ends of waves are rounded up: every GPU with a tile has one in the first wave.
  std::int64_t tiles(GpuId gpu) const { return end(gpu, index + 1) - end(gpu, index); }

 private:
  std::int64_t end(GpuId gpu, int wave) const {
    return (kernel->tiles[gpu.index()] * wave + waves - 1) / waves;
  }
};

/// Products of experts by kernels that compute whole tiles of rows.
struct ProductTiles {
  int rows = 1;                        // of one; every expert fills its last one
  std::optional<DataType> weights;     // as they are read; none: the model's
  std::optional<DataType> multiplied;  // that is multiplied; none: the weights'
};

/// All that a plan needs to know of one replayed layer.
struct LayerWork {
  explicit LayerWork(LayerDecision d) : decision(std::move(d)) {}
  const Assignment& assignment() const { return decision.assignment; }

  int number = 0;  // model layer number
  const Dispatch* dispatch = nullptr;
  LayerDecision decision;
  std::optional<ParamExchange> gradient_sum;  // over the EP groups, if this step has one
  RowCounts counts;
  std::int64_t dropped = 0;                   // choices of the gate that `counts` lacks
  std::vector<std::vector<RowMove>> rows;     // [phase], empty unless explicit rows were asked for
  std::vector<std::int64_t> tokens_per_rank;  // [rank]
  std::int64_t attended = 0;  // mean tokens that a token attends to, 0: attention is left out
  int gate_outputs = 0;       // scores that the gate computes for a token; 0: one per expert
  /// GPUs that hold parts of the same experts' tensors; null: experts are whole.
  std::shared_ptr<const std::vector<Group>> tensor_groups;
  MemberNodes tensor_nodes;  // of the first of these groups
  /// The same for chunks of its rows, if they travel by themselves (layer_chunks.h); of the
  /// decision they have only the assignment.
  std::vector<LayerWork> chunks;
  bool goes_on = false;     // a chunk whose exchanges continue with those of the one before
  bool of_results = false;  // a chunk that was dispatched with all others
  std::optional<LayerWave> wave = {};  // a chunk of tiles of a kernel
  std::optional<ProductTiles> tiles = {};
};

/// [gpu] what its experts take all the time, as the placement says or of whole ones.
std::vector<ExpertMemory> memory_of_experts(const LayerWork& work, const MoeModel& model,
                                            const TrainingState& state);

/// [gpu] parameters of experts whose optimizer state it has: it updates them, or shares them with
/// its replicas.
std::vector<std::int64_t> parameters_with_state(const LayerWork& work, const MoeModel& model,
                                                const TrainingState& state);

/// What the communicators of a phase move: [communicator].
struct PhaseTraffic {
  std::vector<Group> groups;
  std::vector<ByteMatrix> rows;  // units of one byte
  /// Of a single group that stands for several (Exchange::collectives).
  std::shared_ptr<const Collectives> collectives = nullptr;
};

/// Lists of places, kept once for all phases that have the same.
using KnownCollectives =
    std::map<std::pair<std::vector<std::vector<GpuId>>, bool>, std::shared_ptr<const Collectives>>;

class ReplayedLayer {
 public:
  /// `work` must outlive it.
  explicit ReplayedLayer(const LayerWork& work);
  const LayerWork& work() const { return work_; }
  std::vector<ReplayedLayer>& chunks() { return chunks_; }

  /// [phase]
  const RowTable::Sums& phase(int p) const { return phases_[static_cast<std::size_t>(p)]; }
  /// [gpu] the most rows that a phase brings it from one other GPU, on the way out or back.
  std::vector<std::int64_t> fullest_senders(int phase, bool back) const;
  /// [gpu] rows that leave their sources, and that arrive where their experts are.
  const std::vector<std::int64_t>& packed() const { return packed_; }
  const std::vector<std::int64_t>& delivered() const { return delivered_; }
  /// [gpu] rows that its experts get: what all GPUs with parts of their tensors were delivered.
  const std::vector<std::int64_t>& gathered() const { return gathered_; }
  /// [slot on the GPU] rows that its expert computes.
  std::vector<std::int64_t> computed(GpuId gpu) const;
  /// What the experts of every GPU get to do: [gpu].
  struct ExpertWork {
    std::vector<std::vector<std::int64_t>> m;  // [slot] rows
    std::vector<std::int64_t> rows;            // their sum
    std::vector<std::int64_t> read;            // of the arrived ones that hold a choice
  };
  /// Worked out when it is first asked for.
  const ExpertWork& expert_work();
  /// [tensor group] the all-gather of rows of so many bytes, or the reduce-scatter of their sums.
  std::vector<Exchange> tensor_exchanges(Bytes row, bool back);
  /// [tensor group] sums of rows that all of its GPUs have: what they were delivered.
  std::vector<Exchange> tensor_sums(Bytes row) const;

  /// Traffic of a phase as it goes out, for both ways and passes.
  const PhaseTraffic& traffic(int phase);
  /// The same of a side exchange of its phase.
  const PhaseTraffic& traffic(int phase, const SideExchange& side);
  /// Takes the traffic of another layer, which lives as long, if it moves the same rows: exchanges
  /// that share it have one price. Returns whether it does.
  bool share_traffic(const ReplayedLayer& twin);
  /// From now on the communicators of a phase are one op, which they start and end by themselves if
  /// they are `apart`.
  void join_communicators(bool apart, KnownCollectives& known);
  bool joins_communicators() const { return joined_; }
  /// What the GPUs that send or receive exchange among themselves.
  struct Concerned {
    ByteMatrix whole;  // over all GPUs; its identity stays taken
    Group members;
    ByteMatrix traffic;
  };
  const Concerned& concerned(const ByteMatrix& whole);

  using KernelOf = std::function<Kernel(GpuId)>;
  struct KernelsOfGroup {
    Group group;
    Kernels kernels;
  };
  /// The kernels of an op on the GPUs that have work for it, whatever its microbatch and chunk;
  /// null when none has. `everybody`: all GPUs.
  const KernelsOfGroup* kernels(OpKey key, const Group& everybody, const KernelOf& kernel_of);

 private:
  const LayerWork& work_;
  std::optional<ExpertWork> expert_work_;
  std::vector<ReplayedLayer> chunks_;
  std::vector<RowTable::Sums> phases_;
  std::vector<std::int64_t> packed_, delivered_, gathered_;
  std::vector<const Group*> sharing_;  // [gpu] its tensor group
  std::vector<Exchange> gathers_;      // [tensor group] of bytes
  /// What it moves, by phase and, but for the rows themselves, by side exchange.
  using Moved = std::map<std::pair<int, const SideExchange*>, PhaseTraffic>;
  std::shared_ptr<Moved> traffic_ = std::make_shared<Moved>();  // of all that share it
  bool joined_ = false;
  std::map<std::pair<const void*, Bytes>, Concerned> concerned_;  // by identity
  std::map<OpKey, KernelsOfGroup> kernels_;
};

}  // namespace moesim
