// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/chunk_pass.h"

#include <algorithm>

namespace moesim {
namespace {

/// A model whose file describes only its experts keeps their type, as steps do.
std::optional<GemmTypes> gemm_types_of(const ChunkParts& chunk) {
  return chunk.whole ? std::optional(chunk.stage.shard().gemm_types) : std::nullopt;
}

LayerOps::Cell cell_of(const ChunkParts& chunk, int microbatch, bool weights_apart) {
  return {microbatch,
          chunk.chunk,
          weights_apart,
          gemm_types_of(chunk),
          chunk.stage.options().spec.recompute,
          chunk.stage.replicates() ? chunk.stage.shard().tp : 1,
          chunk.stage.options().serves(),
          chunk.stash,
          chunk.stage.options().experts_apart(),
          chunk.stage.options().spec.fused_grouped_mlp};
}

}  // namespace

ChunkPass::ChunkPass(const ChunkParts& chunk, int microbatch, bool weights_apart)
    : chunk_(chunk),
      cell_{microbatch, chunk.chunk},
      weights_apart_(weights_apart),
      chain_(chunk.stage.plan(), chunk.stage.gpus()),
      ops_(chain_, chunk.stage.expert_model(), chunk.of(microbatch).replayed,
           cell_of(chunk, microbatch, weights_apart)),
      apart_chain_(chunk.stage.plan(), chunk.stage.gpus()),
      apart_ops_(apart_chain_, chunk.stage.expert_model(), chunk.of(microbatch).replayed,
                 cell_of(chunk, microbatch, weights_apart)) {
  for (std::size_t p = 0; p < chunk.parts.size(); ++p) {
    const StagePart& part = chunk.parts[p];
    const int number = layer_number(chunk.stage.model(), part);
    if (number < 0 || !chunk.stage.runs(part.kind, microbatch)) continue;
    const int moe = chunk.of(microbatch).index_of(number);
    const bool bare = !chunk.whole && moe >= 0;  // such a layer has a number of the trace
    list_.push_back({number, moe, p,
                     bare ? LayerBlocks{BlockKind::attention, BlockKind::moe}
                          : blocks_of_layer(chunk.stage.model(), number)});
  }
}

Mark ChunkPass::end() const {
  Mark all = chain_.mark();
  all.add(apart_chain_.mark());
  return all;
}

LayerPass ChunkPass::pass(const Layer& layer, Pass way) const {
  return {chunk_.schedule, ops_, layer.moe, way};
}

void ChunkPass::block(Pass way, int layer, BlockKind kind) {
  if (way == Pass::forward) {
    chunk_.blocks.forward(chain_, cell_, layer, kind);
    return store_block(layer, kind);
  }
  const MovedPart part = kind == BlockKind::moe ? MovedPart::moe : MovedPart::attention;
  chain_.require(load(layer, part));
  // If layers run again as a whole, nothing is left to be run here.
  const auto whole = kind == BlockKind::moe ? RecomputeModule::moe : RecomputeModule::full;
  if (!recomputes(whole)) chunk_.blocks.recompute(chain_, cell_, layer, kind);
  chunk_.blocks.backward(chain_, cell_, layer, kind, weights_apart_);
  if (kind == BlockKind::moe || kind == BlockKind::attention) end_of(part);
}

void ChunkPass::around_shared(const Layer& layer, Role role, bool gather) {
  if (chunk_.whole) chunk_.blocks.around_shared_experts(chain_, cell_, layer.number, role, gather);
}

bool ChunkPass::recomputes(RecomputeModule module) const {
  return chunk_.stage.options().spec.recompute.has(module);
}

/// Runs again all that the backward pass of a layer needs before it begins.
void ChunkPass::compute_again(const Layer& layer) {
  const auto again = [&](BlockKind kind) {
    if (chunk_.whole) chunk_.blocks.recompute(chain_, cell_, layer.number, kind);
  };
  if (recomputes(RecomputeModule::full)) {
    if (chunk_.parts[layer.part].kind == StagePartKind::mtp) again(BlockKind::mtp);
    if (layer.blocks.mixer) again(*layer.blocks.mixer);
    if (!chunk_.whole && layer.moe >= 0) ops_.recompute_attention(layer.moe);
    if (layer.moe < 0 && layer.blocks.ffn) again(*layer.blocks.ffn);
  }
  if (layer.moe < 0 || !recomputes(RecomputeModule::moe)) return;
  chain_.require(load(layer.number, MovedPart::moe));
  again(BlockKind::moe);
  around_shared(layer, Role::recompute, true);
  ops_.recompute(layer.moe);
  around_shared(layer, Role::recompute, false);
}

/// The coarse attention of a model that is not whole is an op of its MoE layers. A layer of
/// multi-token prediction joins what it gets with the embedding of the next token first.
void ChunkPass::mixer(const Layer& layer, Pass way) {
  const bool joins = chunk_.parts[layer.part].kind == StagePartKind::mtp;
  if (joins && way == Pass::forward) {
    block(way, layer.number, BlockKind::embedding);
    block(way, layer.number, BlockKind::mtp);
  }
  if (!chunk_.whole) {
    if (layer.moe >= 0) pass(layer, way).attention();
  } else if (layer.blocks.mixer) {
    block(way, layer.number, *layer.blocks.mixer);
  }
  if (joins && way == Pass::backward) {
    block(way, layer.number, BlockKind::mtp);
    block(way, layer.number, BlockKind::embedding);
  }
}

/// The FFN of a layer without experts, if it has one.
void ChunkPass::dense_ffn(const Layer& layer, Pass way) {
  if (layer.blocks.ffn) block(way, layer.number, *layer.blocks.ffn);
}

/// The head runs once more for each layer of multi-token prediction, and each draft.
std::vector<int> ChunkPass::runs_of(StagePartKind kind, Pass way) const {
  const MoeModel& model = chunk_.stage.model();
  if (chunk_.stage.drafts(cell_.microbatch)) return {model.layers};
  std::vector<int> numbers = {0};
  const bool predicts = kind == StagePartKind::head && !chunk_.stage.options().serves();
  for (int i = 0; predicts && i < model.mtp; ++i) numbers.push_back(model.layers + i);
  if (way == Pass::backward) std::ranges::reverse(numbers);
  return numbers;
}

void ChunkPass::around(StagePartKind kind, Pass way) {
  if (!chunk_.whole) return;
  for (std::size_t p = 0; p < chunk_.parts.size(); ++p) {
    const StagePart& part = chunk_.parts[p];
    if (part.kind != kind || !chunk_.stage.runs(kind, cell_.microbatch)) continue;
    const bool needs = way == Pass::forward || kind == StagePartKind::head;
    if (needs) require_weights(p, way);
    for (const int number : runs_of(kind, way)) block(way, number, edge_block(kind));
    if (way == Pass::backward && !weights_apart_) sum_gradients(chain_, part);
  }
}

void ChunkPass::at_edge(Point point, Pass way) {
  if (ops_.layers() == 0) return;
  const bool first = (point == Point::pass_begins) == (way == Pass::forward);
  chunk_.schedule.at(point, ops_, first ? 0 : ops_.layers() - 1, way);
}

/// What a layer's combine brought is joined as late as it is needed, so that the stream of kernels
/// does not wait for it while it could work for another microbatch.
void ChunkPass::join_before(std::size_t index) {
  if (index > 0 && list_[index - 1].moe >= 0) pass(list_[index - 1], Pass::forward).join();
}

PassPieces ChunkPass::forward() {
  PassPieces pieces = empty_pass();
  pieces.begin = [this] {
    at_edge(Point::pass_begins, Pass::forward);
    around(StagePartKind::embedding, Pass::forward);
  };
  for (std::size_t i = 0; i < list_.size(); ++i) {
    const Layer layer = list_[i];
    auto& list = pieces.layers[i];
    if (layer.moe < 0) {
      list.push_back({LayerPart::attention, [this, i, layer] {
                        join_before(i);
                        require_weights(layer.part, Pass::forward);
                        mixer(layer, Pass::forward);
                      }});
      list.push_back({LayerPart::mlp, [this, layer] { dense_ffn(layer, Pass::forward); }});
      continue;
    }
    list.push_back({LayerPart::attention, [this, i, layer] {
                      join_before(i);
                      require_weights(layer.part, Pass::forward);
                      pass(layer, Pass::forward).begin();
                      mixer(layer, Pass::forward);
                      if (chunk_.whole) block(Pass::forward, layer.number, BlockKind::moe);
                      around_shared(layer, Role::plain, true);
                      pass(layer, Pass::forward).route();
                      around_shared(layer, Role::plain, false);
                    }});
    list.push_back({LayerPart::dispatch, [this, layer] { pass(layer, Pass::forward).dispatch(); }});
    list.push_back({LayerPart::mlp, [this, layer] {
                      pass(layer, Pass::forward).experts();
                      store_rows(layer);
                    }});
    list.push_back({LayerPart::combine, [this, layer] { pass(layer, Pass::forward).combine(); }});
  }
  pieces.end = [this] {
    join_before(list_.size());
    around(StagePartKind::head, Pass::forward);
    at_edge(Point::pass_ends, Pass::forward);
  };
  return pieces;
}

void ChunkPass::begin_backward_of(const Layer& layer) {
  require_weights(layer.part, Pass::backward);
  if (layer.moe >= 0) pass(layer, Pass::backward).begin();
  compute_again(layer);
  if (layer.moe >= 0) pass(layer, Pass::backward).route();
}

/// The combine of the forward pass is turned round first: what LayerPass calls the dispatch of the
/// backward pass is the piece `combine`.
PassPieces ChunkPass::backward() {
  PassPieces pieces = empty_pass();
  pieces.begin = [this] {
    around(StagePartKind::head, Pass::backward);
    at_edge(Point::pass_begins, Pass::backward);
    if (!list_.empty()) begin_backward_of(list_.back());
  };
  for (std::size_t i = list_.size(); i-- > 0;) {
    const Layer layer = list_[i];
    auto& list = pieces.layers[i];
    const auto begin_next = [this, i] {
      if (i > 0) begin_backward_of(list_[i - 1]);
    };
    if (layer.moe < 0) {
      list.push_back({LayerPart::mlp, [this, layer] { dense_ffn(layer, Pass::backward); }});
      list.push_back({LayerPart::attention, [this, layer, begin_next] {
                        mixer(layer, Pass::backward);
                        if (!weights_apart_) sum_gradients(chain_, chunk_.parts[layer.part]);
                        begin_next();
                      }});
      continue;
    }
    list.push_back({LayerPart::combine, [this, layer] { pass(layer, Pass::backward).dispatch(); }});
    list.push_back({LayerPart::mlp, [this, layer] {
                      ops_.experts_await(load(layer.number, MovedPart::experts));
                      pass(layer, Pass::backward).experts();
                      end_of(MovedPart::experts);
                    }});
    list.push_back({LayerPart::dispatch, [this, layer] { pass(layer, Pass::backward).combine(); }});
    list.push_back({LayerPart::attention, [this, layer, begin_next] {
                      around_shared(layer, Role::dgrad, true);
                      pass(layer, Pass::backward).join();
                      around_shared(layer, Role::dgrad, false);
                      if (chunk_.whole) block(Pass::backward, layer.number, BlockKind::moe);
                      mixer(layer, Pass::backward);
                      if (!weights_apart_) sum_gradients(chain_, chunk_.parts[layer.part]);
                      begin_next();
                    }});
  }
  pieces.end = [this] {
    around(StagePartKind::embedding, Pass::backward);
    at_edge(Point::pass_ends, Pass::backward);
  };
  return pieces;
}

}  // namespace moesim
