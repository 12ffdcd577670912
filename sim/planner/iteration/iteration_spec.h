// SPDX-License-Identifier: Apache-2.0
// What is said about a whole training iteration: parallelism, batch, schedule, memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/model/host_model.h"
#include "sim/model/kv_cache.h"
#include "sim/model/moe_model.h"
#include "sim/model/offload.h"
#include "sim/model/recompute.h"
#include "sim/model/software.h"
#include "sim/planner/iteration/paged_stash.h"
#include "sim/planner/iteration/precision.h"
#include "sim/planner/iteration/serving_spec.h"
#include "sim/planner/parallel/grid.h"
#include "sim/planner/parallel/layer_layout.h"
#include "sim/planner/pipeline/pipeline.h"

namespace moesim {

class Topology;

/// Whose tokens an iteration replays: the trace's, or as many for every expert (forced balance, as
/// benchmarks have it).
enum class RoutingSource { recorded, balanced };
extern const std::vector<std::string> routing_source_names;

enum class OptimizerKind { adam, muon };
extern const std::vector<std::string> optimizer_names;

/// How replicas sum dense gradients and gather weights: on rings through the nodes, in two levels
/// (within nodes, then between the members of equal index), or sums up and down two trees.
enum class ReplicaCollective { ring, two_level, tree };
extern const std::vector<std::string> replica_collective_names;

/// What runs during computation.
struct OverlapSpec {
  bool gradients = false;   // sums of gradients during the backward pass, bucket by bucket
  bool parameters = false;  // gathers of parameters during the forward pass
  bool all_to_all = false;  // dispatch and combine of a pass during the other pass of a merged pair
  bool delay_wgrad = false;  // weight gradients come after the combine of their layer
  bool operator==(const OverlapSpec&) const = default;
};

/// Where a scenario says them, for errors that only a cluster and a model bring to light; two specs
/// that say the same in other places are equal.
struct SpecPlaces {
  std::string file;  // empty: nowhere
  // Lines from 1, 0: not in the file; batch: or serving.
  int parallel = 0, pipeline = 0, batch = 0, precision = 0, offload = 0;
  bool operator==(const SpecPlaces&) const { return true; }
};

/// Keys of a scenario that has `parallel` or `batch`; docs/scenarios.md says what each means.
struct IterationSpec {
  ParallelSizes parallel;  // vpp as the layout has it, if there is one
  std::string layout;      // Megatron-Core's text, empty: none
  // Options of LayerSplit.
  std::optional<int> first_stage_layers = {}, last_stage_layers = {};
  bool embedding_as_layer = false, loss_as_layer = false;
  int global_batch = 0;  // sequences
  int micro_batch = 1;   // sequences
  int sequence = 0;      // tokens
  PipelineKind pipeline = PipelineKind::one_f_one_b;
  Recompute recompute;
  Offload offload = {};  // what waits in the memory of the host in place of the GPU's
  int zero = 1;
  /// Groups of replicas that each hold all state once, shared as `zero` says; gradients are then
  /// summed between them (HSDP: PyTorch FSDP, arXiv 2304.11277, section 3.2.2).
  int dp_replicate = 1;
  Precision precision;
  OverlapSpec overlap;
  std::vector<RoutingSource> routing = {RoutingSource::recorded};  // cases side by side
  int distinct_microbatches = 0;  // recorded ones that are replayed by turns; 0: all there are
  OptimizerKind optimizer = OptimizerKind::adam;
  int update_bytes = 0;  // per parameter of its own that it takes while it updates
  std::optional<PagedStash> stash = {};
  /// Products of experts apply the activation and quantize what the next ones read (Transformer
  /// Engine's operation fuser, use_transformer_engine_op_fuser).
  bool fused_grouped_mlp = false;
  std::optional<HostModel> host;  // of all GPUs, in place of what their models say
  ReplicaCollective collective = ReplicaCollective::ring;
  std::optional<ServingSpec> serving =
      {};  // one forward pass of an engine in place of an iteration
  SpecPlaces places = {};
  bool operator==(const IterationSpec&) const = default;
};

/// Whether the schedule runs a forward merged with a backward of another microbatch.
bool merges_passes(PipelineKind kind);

/// Which of its exchanges run next to kernels at length: those of tokens if the schedule merges
/// passes, those of parameters if every pass gathers them.
ExchangesNextToKernels exchanges_next_to_kernels(const IterationSpec& spec);

/// Tokens of an iteration, or new tokens of a serving pass, of all replicas on so many GPUs.
std::int64_t tokens_of(const IterationSpec& spec, int gpus);

/// What the sizes make of a cluster and a model.
struct IterationShape {
  Grid grid;
  int microbatches;  // per replica: global batch / (micro batch x dp); parts of a serving pass
  Pipeline pipeline;
  LayerLayout layers;                       // at the pipeline's positions
  std::vector<BatchPart> batch_parts = {};  // of a serving pass
};
/// Throws Error naming the rule that the spec breaks on so many GPUs, or with so many layers.
IterationShape shape_of(const IterationSpec& spec, int gpus, int layers, int mtp_layers);
/// With the layers of a model; those of multi-token prediction are there if it is whole, in a
/// serving pass the first one if it drafts.
IterationShape shape_of(const IterationSpec& spec, int gpus, const MoeModel& model);
/// How many layers of multi-token prediction draft in a pass: one, or none if nothing is drafted or
/// the model has none that is described.
int drafting_layers(const IterationSpec& spec, const MoeModel& model);
/// How a GPU holds the cache of its sequences.
CacheShard cache_shard(const IterationSpec& spec, const MoeModel& model);
/// Throws Error naming the key unless every GPU has a link to the memory of its host, if something
/// waits there.
void check_offload(const IterationSpec& spec, const Topology& topology);
/// Throws Error for what nobody can plan yet: ZeRO 2 and 3 over the copies of DualPipe.
void check_can_plan(const IterationSpec& spec);

}  // namespace moesim
