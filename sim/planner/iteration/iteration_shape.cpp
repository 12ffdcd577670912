// SPDX-License-Identifier: Apache-2.0
// An iteration on a cluster: sizes against GPUs, microbatches against the schedule, layers against
// its positions.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/planner/iteration/spec.h"

namespace moesim {

const std::vector<std::string> routing_source_names = {"recorded", "balanced"};
const std::vector<std::string> optimizer_names = {"adam", "muon"};
const std::vector<std::string> replica_collective_names = {"ring", "two-level", "tree"};

bool merges_passes(PipelineKind kind) {
  return kind == PipelineKind::combined || kind == PipelineKind::combined_interleaved ||
         kind == PipelineKind::dualpipe || kind == PipelineKind::dualpipev;
}

ExchangesNextToKernels exchanges_next_to_kernels(const IterationSpec& spec) {
  const bool by_turns = spec.serving && spec.serving->parts_of_overlap() > 1;
  const bool merged = merges_passes(spec.pipeline) && spec.overlap.all_to_all;
  return {merged || by_turns, spec.zero == 3};
}

/// An element is read in 2 bytes and written in 1 with 4 bytes of scale per 128 (DeepSeek's
/// blocks), or in half a byte with 1 per 16. A kernel before each product does so (published: vllm
/// per_token_group_quant_fp8, sglang per_token_group_quant, TensorRT-LLM fp8_quantize_1x128).
TrainingTraffic serving_traffic(DataType type) {
  if (type_of_rows(type) == DataType::fp8) return {0, 2 + 1 + 4.0 / 128, 0, 1, false};
  if (type == DataType::fp4) return {0, 2 + 0.5 + 1.0 / 16, 0, 1, false};
  return {};
}

namespace {

/// What `make` makes, or its mistake at that line of the scenario.
template <class Make>
auto said_at(const SpecPlaces& places, int line, const Make& make) {
  try {
    return make();
  } catch (const Error& e) {
    const Diagnostic& d = e.diagnostics().front();
    if (places.file.empty() || line == 0) throw;
    throw error_in(places.file, d.message, d.hint, line);
  }
}

void check_apart(const ServingSpec& serving, const Grid& grid) {
  if (serving.attention_ranks == 0) return;
  const int ranks = grid.size(ParallelAxis::dp), ep = grid.size(ParallelAxis::ep);
  if (serving.attention_ranks >= ranks) {
    throw Error(fmt::format("serving.attention_ranks is {} of {}", serving.attention_ranks,
                            counted(ranks, "rank")),
                "the GPUs behind them hold the experts: fewer than GPUs / tp");
  }
  if (ep != grid.gpus()) {
    throw Error(
        fmt::format("serving.attention_ranks with ep = {} of {}", ep, counted(grid.gpus(), "GPU")),
        fmt::format("tokens go from all ranks of attention to all GPUs with experts: "
                    "parallel.ep: {}",
                    grid.gpus()));
  }
}

void check_ranks(const ServingSpec& serving, const Grid& grid) {
  const auto lists = std::ssize(serving.batch.ranks);
  check_apart(serving, grid);
  const int ranks = serving.attending(grid.size(ParallelAxis::dp));
  if (lists != 1 && lists != ranks) {
    throw Error(fmt::format("serving.batch has lists of {} ranks, the cluster {} of attention",
                            lists, counted(ranks, "rank")),
                "one list for all ranks, or one for each: GPUs / (tp x cp) ranks have sequences of "
                "their own");
  }
}

int microbatches_of(const IterationSpec& spec, const Grid& grid,
                    const std::vector<BatchPart>& parts) {
  if (spec.serving) {
    check_ranks(*spec.serving, grid);
    return static_cast<int>(parts.size());
  }
  const int dp = grid.size(ParallelAxis::dp);
  const std::int64_t of_step = std::int64_t{spec.micro_batch} * dp;
  if (spec.global_batch % of_step == 0) return static_cast<int>(spec.global_batch / of_step);
  throw Error(fmt::format("a global batch of {} cannot be cut into micro batches of {} for {}",
                          spec.global_batch, spec.micro_batch, counted(dp, "replica")),
              "micro x dp must divide the global batch");
}

/// Each copy of the state has whole replicas, and whole groups that share experts.
void check_copies(const IterationSpec& spec, const Grid& grid) {
  const int copies = spec.dp_replicate;
  if (copies == 1) return;
  for (const ParallelAxis axis : {ParallelAxis::dp, ParallelAxis::edp}) {
    if (grid.size(axis) % copies == 0) continue;
    throw Error(fmt::format("dp_replicate = {} does not divide {} = {}", copies, name_of(axis),
                            grid.size(axis)),
                "every copy of the state has as many replicas");
  }
  for (const auto& group : grid.groups(ParallelAxis::etp_ep)) {
    const bool whole = std::ranges::all_of(group, [&](GpuId gpu) {
      return grid.copy_of(gpu, copies) == grid.copy_of(group.front(), copies);
    });
    if (whole) continue;
    throw Error(fmt::format("dp_replicate = {} cuts groups of expert parallelism", copies),
                "with \"ep\" before \"dp\" in parallel.order copies are whole EP groups");
  }
}

LayerLayout layout_of(const IterationSpec& spec, const Pipeline& pipeline, int layers, int mtp) {
  LayerSplit split;
  split.layers = layers;
  split.mtp = mtp;
  split.pp = pipeline.stages();
  split.vpp = pipeline.positions() / pipeline.stages();
  split.in_first_stage = spec.first_stage_layers;
  split.in_last_stage = spec.last_stage_layers;
  split.account_for_embedding = spec.embedding_as_layer;
  split.account_for_loss = spec.loss_as_layer;
  return spec.layout.empty() ? LayerLayout(split) : LayerLayout(spec.layout, split);
}

}  // namespace

void check_can_plan(const IterationSpec& spec) {
  if (spec.zero < 2 || spec.pipeline != PipelineKind::dualpipe) return;
  throw Error(fmt::format("zero = {} with dualpipe", spec.zero),
              "its two copies of a stage run different microbatches, whose gradients and weights "
              "cannot be shared: zero 0 or 1, or dualpipev");
}

std::int64_t tokens_of(const IterationSpec& spec, int gpus) {
  if (!spec.serving) return std::int64_t{spec.global_batch} * spec.sequence;
  const Grid grid(spec.parallel, gpus);
  said_at(spec.places, spec.places.batch, [&] { check_ranks(*spec.serving, grid); });
  return tokens_of(*spec.serving, grid.size(ParallelAxis::dp));
}

namespace {

/// Heads of keys that a tensor group holds once cannot be shared by tokens as well.
void check_keys(const IterationSpec& spec, const MoeModel& model) {
  const int dcp = spec.serving->dcp, tp = spec.parallel.tp;
  if (dcp == 1) return;
  if (tp % dcp != 0) {
    throw Error(fmt::format("serving.dcp is {}, which does not divide tp = {}", dcp, tp),
                "so many GPUs of each tensor group share the keys of a sequence");
  }
  if (!model.attention || !model.attention->shape) return;
  const AttentionShape& shape = *model.attention->shape;
  if (shape.compresses() || shape.indexer) {
    throw Error(fmt::format("serving.dcp with the sparse attention of '{}'", model.name),
                "it is of MLA and of grouped queries: serving.dcp: 1");
  }
  const int copies = shape.key_copies(tp);
  if (copies % dcp == 0) return;
  throw Error(
      fmt::format("serving.dcp is {}, but each key head is on {} of the {} GPUs of a tensor "
                  "group",
                  dcp, copies, tp),
      fmt::format("at most tp / key heads, as in vLLM: serving.dcp: {}", copies));
}

/// The heads that GPUs of a tensor group share are whole.
void check_heads(const IterationSpec& spec, const MoeModel& model) {
  if (!model.attention || !model.attention->shape) return;
  const int heads = model.attention->shape->heads, tp = spec.parallel.tp;
  if (heads % tp == 0) return;
  int below = tp;
  while (heads % below != 0) --below;
  throw Error(fmt::format("tp = {} does not divide the {} heads of '{}'", tp, heads, model.name),
              fmt::format("each GPU of a tensor group has as many: tp = {}", below));
}

}  // namespace

int drafting_layers(const IterationSpec& spec, const MoeModel& model) {
  const bool drafts = spec.serving && spec.serving->drafts > 0;
  return drafts && model.mtp > 0 && model.missing_of_whole().empty() ? 1 : 0;
}

CacheShard cache_shard(const IterationSpec& spec, const MoeModel& model) {
  return {spec.serving->kv, spec.parallel.tp, spec.serving->dcp, drafting_layers(spec, model)};
}

IterationShape shape_of(const IterationSpec& spec, int gpus, const MoeModel& model) {
  const SpecPlaces& at = spec.places;
  if (spec.serving) said_at(at, at.batch, [&] { check_keys(spec, model); });
  said_at(at, at.parallel, [&] { check_heads(spec, model); });
  said_at(at, at.precision, [&] { return spec.precision.types(model); });
  const int predicting = model.missing_of_whole().empty() ? model.mtp : 0;
  return shape_of(spec, gpus, model.layers,
                  spec.serving ? drafting_layers(spec, model) : predicting);
}

IterationShape shape_of(const IterationSpec& spec, int gpus, int layers, int mtp_layers) {
  const SpecPlaces& at = spec.places;
  const int parallel = at.parallel != 0 ? at.parallel : at.batch;
  const int schedule = at.pipeline != 0 ? at.pipeline : parallel;
  Grid grid = said_at(at, parallel, [&] { return Grid(spec.parallel, gpus); });
  said_at(at, parallel, [&] { check_copies(spec, grid); });
  std::vector<BatchPart> parts;
  if (spec.serving) parts = parts_of(*spec.serving, mtp_layers > 0);
  const int microbatches =
      said_at(at, at.batch, [&] { return microbatches_of(spec, grid, parts); });
  Pipeline pipeline = said_at(at, schedule, [&] {
    return Pipeline({.kind = spec.pipeline,
                     .stages = spec.parallel.pp,
                     .microbatches = microbatches,
                     .chunks = spec.parallel.vpp,
                     .backward = !spec.serving});
  });
  LayerLayout layout =
      said_at(at, parallel, [&] { return layout_of(spec, pipeline, layers, mtp_layers); });
  return {std::move(grid), microbatches, std::move(pipeline), std::move(layout), std::move(parts)};
}

}  // namespace moesim
