// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/block_ops.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "sim/plan/label.h"
#include "sim/planner/layer/phase_exchange.h"

namespace moesim {
namespace {

/// Norms and the ops next to them work on a GPU's own tokens, outside of the tensor group's part.
bool is_own(OpKind kind) { return kind == OpKind::norm || kind == OpKind::loss; }

/// Where the tensor group exchanges rows in one pass through a block.
struct GroupSides {
  bool gather = false, scatter = false;
};

GroupSides sides_of(BlockKind block, bool forward, bool whole) {
  switch (block) {
    case BlockKind::attention:
    case BlockKind::mamba:
    case BlockKind::dense_ffn:
    case BlockKind::mtp:
      return {true, true};
    case BlockKind::head:
      return {forward || !whole, whole && !forward};
    case BlockKind::embedding:
      return {whole && !forward, whole && forward};
    case BlockKind::moe:
      return {};
  }
  return {};
}

}  // namespace

const std::vector<BlockOps::Made>& BlockOps::made(WorkCell cell, int layer, BlockKind block,
                                                  Part part) {
  layer = first_with_same(stage_.model(), layer, block, stage_.shard().gemm_types);
  const auto [known, is_new] = made_.try_emplace({differing(cell), layer, block, part});
  if (!is_new) return known->second;
  if (stage_.options().serves()) {
    known->second = stage_.served_kernels(layer, block, cell.microbatch);
    return known->second;
  }
  const MoeModel& model = stage_.model();
  const BlockShard& shard = stage_.shard();
  const auto kernels = [&] {
    switch (part) {
      case Part::forward:
        return forward_kernels(model, layer, block, shard);
      case Part::again:
        return recomputed_kernels(model, layer, block, shard, stage_.options().spec.recompute);
      case Part::inputs:
        return dgrad_kernels(model, layer, block, shard);
      default:
        return wgrad_kernels(model, layer, block, shard);
    }
  }();
  for (const BlockKernel& k : kernels) {
    if (!is_empty(k.kernel))
      known->second.push_back({k.kind, stage_.everybody(), Kernels(k.kernel)});
  }
  return known->second;
}

void BlockOps::forward(OpChain& chain, WorkCell cell, int layer, BlockKind block) {
  add(chain, cell, layer, block, Part::forward);
}

void BlockOps::recompute(OpChain& chain, WorkCell cell, int layer, BlockKind block) {
  add(chain, cell, layer, block, Part::again);
}

void BlockOps::backward(OpChain& chain, WorkCell cell, int layer, BlockKind block,
                        bool weights_apart) {
  add(chain, cell, layer, block, Part::inputs);
  if (!weights_apart) add(chain, cell, layer, block, Part::weights);
}

void BlockOps::weight_gradients(OpChain& chain, WorkCell cell, int layer, BlockKind block) {
  add(chain, cell, layer, block, Part::weights);
}

/// The tensor group gathers before the first kernel that works on all of its tokens, and scatters
/// after the last one.
void BlockOps::add(OpChain& chain, WorkCell cell, int layer, BlockKind block, Part part) {
  const auto& kernels = made(cell, layer, block, part);
  const bool forward = part == Part::forward;
  OpKey key{.role = part == Part::forward  ? Role::plain
                    : part == Part::again  ? Role::recompute
                    : part == Part::inputs ? Role::dgrad
                                           : Role::wgrad,
            .pass = forward ? Pass::forward : Pass::backward,
            .layer = layer,
            .microbatch = cell.microbatch,
            .chunk = cell.chunk};
  const auto shared = [](const Made& m) { return !is_own(m.kind); };
  // What runs again begins at the gather only if it is the whole block behind its norm.
  const bool whole = part != Part::again ||
                     std::ranges::count_if(kernels, shared) ==
                         std::ranges::count_if(made(cell, layer, block, Part::forward), shared);
  const bool exchanges = stage_.shard().tp > 1 && part != Part::weights && whole;
  const bool all_of_group = stage_.options().whole_tensor_groups();
  const GroupSides sides =
      exchanges ? sides_of(block, forward || part == Part::again, all_of_group) : GroupSides();
  const auto first = std::ranges::find_if(kernels, shared) - kernels.begin();
  const auto last = kernels.rend() - std::ranges::find_if(kernels.rbegin(), kernels.rend(), shared);
  const auto scores = [](const Made& m) { return m.kind == OpKind::attention_scores; };
  const bool shares_keys = std::ranges::any_of(kernels, scores) && stage_.shares_keys(layer);
  const auto first_scores = std::ranges::find_if(kernels, scores) - kernels.begin();
  const auto last_scores =
      kernels.rend() - std::ranges::find_if(kernels.rbegin(), kernels.rend(), scores);
  key.part = part_in(block);
  for (std::ptrdiff_t i = 0; i < std::ssize(kernels); ++i, ++key.part) {
    if (sides.gather && i == first && !stage_.replicates()) add_tensor_exchange(chain, key, true);
    const Made& m = kernels[static_cast<std::size_t>(i)];
    key.kind = m.kind;
    std::vector<OpId> passed_on;  // while they are worked on
    if (part != Part::weights && i == first_scores) passed_on = add_context_exchange(chain, key);
    if (shares_keys && i == first_scores) add_shared_keys(chain, key, true);
    if (forward && exchanges && all_of_group && m.kind == OpKind::loss)
      add_sums_of_loss(chain, key);
    chain.compute({type_label(key.type()), key, Stream::compute, m.group, {}, m.kernels});
    if (!passed_on.empty()) chain.require(passed_on);
    if (shares_keys && i + 1 == last_scores) add_shared_keys(chain, key, false);
    if (sides.scatter && i + 1 == last) add_tensor_exchange(chain, key, false);
  }
}

std::vector<GroupExchange> BlockOps::exchanges_of_cells(ParallelAxis axis,
                                                        const MovedBy& moved) const {
  const bool alike = !stage_.options().serves();
  std::optional<CollectiveTraffic> of_group;
  std::vector<GroupExchange> cells;
  for (const Group& cell : stage_.cells()) {
    Exchange exchange{stage_.in_cell(cell, axis,
                                     [&](GpuId first) {
                                       if (!alike || !of_group) of_group = moved(first);
                                       return of_group->traffic;
                                     }),
                      {},
                      false};
    exchange.rounds = of_group->rounds;
    exchange.ring = of_group->ring;
    cells.push_back({cell, std::move(exchange)});
  }
  if (joins_on_ != nullptr && cells.size() > 1) join(cells);
  return cells;
}

/// Into one op, if they take equal times.
void BlockOps::join(std::vector<GroupExchange>& cells) const {
  PhaseTraffic own, in_plan;
  for (const auto& [group, exchange] : cells) {
    own.groups.push_back(group);
    own.rows.push_back(exchange.traffic);
    Op op;
    op.group = group;
    op.work = exchange;
    stage_.gpus()->to_plan(op);
    in_plan.groups.push_back(op.group);
    in_plan.rows.push_back(op.exchange()->traffic);
  }
  if (!asks_the_same(in_plan, *joins_on_)) return;
  KnownCollectives known;
  const PhaseTraffic all = as_one(own, apart_, known);
  Exchange exchange{all.rows.front(), {}, false, false, cells.front().exchange.rounds};
  exchange.collectives = all.collectives;
  exchange.ring = cells.front().exchange.ring;
  cells = {{all.groups.front(), std::move(exchange)}};
}

std::vector<OpId> BlockOps::add_exchanges(OpChain& chain, const OpKey& key, Exchanged what,
                                          Awaited awaited, const MovedBy& moved) {
  const bool of_keys = what == Exchanged::keys || what == Exchanged::key_gradients;
  const ParallelAxis axis = of_keys ? ParallelAxis::cp : ParallelAxis::tp;
  auto& of_cells = exchanges_[{differing({key.microbatch, key.chunk}), what}];
  if (of_cells.empty()) of_cells = exchanges_of_cells(axis, moved);
  const Mark now = chain.mark();
  const Stream stream = axis == ParallelAxis::tp ? Stream::tp : Stream::cp;
  std::vector<OpId> ops;
  for (const auto& [group, exchange] : of_cells) {
    Op op{type_label(key.type()), key, stream, group, waits_of(group, now), exchange};
    const bool at_once = awaited == Awaited::at_once;
    ops.push_back(at_once ? chain.exchange(std::move(op)) : chain.detached(std::move(op)));
  }
  return ops;
}

/// All-gather and reduce-scatter move the same: every member (n - 1) parts. If tokens are on all
/// members, these sum their results once. Engines sum once, too, if experts are divided: gather and
/// scatter are the two shots of that sum, one round each.
void BlockOps::add_tensor_exchange(OpChain& chain, OpKey key, bool gather) {
  key.kind = OpKind::tensor_exchange;
  key.part = key.part * 2 + (gather ? 0 : 1);
  const int tp = stage_.shard().tp;
  const Bytes row(std::int64_t{stage_.model().hidden} * size_of(stage_.model().activations));
  add_exchanges(chain, key, Exchanged::rows, Awaited::at_once, [&](GpuId first) {
    if (!stage_.options().serves()) return all_gather(one_node(tp), stage_.activations());
    const std::int64_t tokens = (stage_.served(first, key.microbatch).tokens + tp - 1) / tp;
    const std::vector<std::int64_t> parts(static_cast<std::size_t>(tp), tokens);
    const CollectiveTraffic sum = two_shot_all_reduce(stage_.tensor_nodes(), parts, row);
    if (stage_.replicates()) return sum;
    return CollectiveTraffic{sum.traffic.with_unit(Bytes(row.value / 2)), sum.rounds / 2};
  });
}

void BlockOps::around_shared_experts(OpChain& chain, WorkCell cell, int layer, Role role,
                                     bool gather) {
  const MoeModel& model = stage_.model();
  const bool divided = stage_.shard().tp > 1 && model.shared_experts * model.shared_ffn > 0;
  if (!divided || !stage_.options().whole_tensor_groups()) return;
  add_tensor_exchange(chain,
                      {.role = role,
                       .pass = role == Role::plain ? Pass::forward : Pass::backward,
                       .layer = layer,
                       .microbatch = cell.microbatch,
                       .chunk = cell.chunk,
                       .part = part_in(BlockKind::moe)},
                      gather);
}

/// Of the words that each member has, per token: the largest logit, the sum of the exponentials,
/// the label's logit.
void BlockOps::add_sums_of_loss(OpChain& chain, OpKey key) {
  constexpr std::int64_t sums = 3, bytes = 4;
  key.kind = OpKind::tensor_exchange;
  key.part *= 2;
  add_exchanges(chain, key, Exchanged::sums, Awaited::at_once, [&](GpuId) {
    const BlockShard& shard = stage_.shard();
    return all_gather(one_node(shard.tp), Bytes(shard.tokens * sums * bytes));
  });
}

/// A decode's queries go to all who share its keys, and with them the cached keys of prompts;
/// results come back to the heads that a GPU has, with the sums of exponentials of all of them
/// (Helix, arXiv 2507.07120; vLLM's cp_lse_ag_out_rs).
void BlockOps::add_shared_keys(OpChain& chain, OpKey key, bool before) {
  key.kind = OpKind::context_exchange;
  key.part = key.part * 2 + (before ? 0 : 1);
  const Exchanged what = before ? Exchanged::queries : Exchanged::results;
  add_exchanges(chain, key, what, Awaited::at_once, [&](GpuId first) {
    const auto [queries, results] =
        shared_keys(stage_.model(), stage_.served(first, key.microbatch));
    const int dcp = stage_.options().spec.serving->dcp, tp = stage_.shard().tp;
    ByteMatrix traffic{Bytes(1)};
    for (GpuId from(0); from.value < tp; ++from.value) {
      std::vector<ByteMatrix::Entry> row;
      for (GpuId to(from.value / dcp * dcp); to.value < (from.value / dcp + 1) * dcp; ++to.value) {
        const Bytes bytes = before ? queries : results;
        if (to != from && bytes.value > 0)
          row.push_back({to, static_cast<std::uint32_t>(bytes.value)});
      }
      traffic.add_row(row);
    }
    return CollectiveTraffic{std::move(traffic), 1};
  });
}

/// Keys and values pass once round the context group (ring attention, arXiv 2310.01889). Backward
/// they do so again, and their gradients with them, which take one hop more to come home. A part is
/// worked on while the next one arrives, so that scores do not wait for the exchange.
std::vector<OpId> BlockOps::add_context_exchange(OpChain& chain, OpKey key) {
  const auto members = static_cast<int>(stage_.groups(ParallelAxis::cp).front().size());
  if (members == 1 || !stage_.model().attention->shape) return {};
  const AttentionShape& shape = *stage_.model().attention->shape;
  const std::int64_t width = (shape.key_width() + shape.value_width()) / stage_.shard().tp;
  const Bytes keys(stage_.shard().tokens * width * size_of(stage_.model().activations));
  const bool gradients = key.role == Role::dgrad;
  key.kind = OpKind::context_exchange;
  const Exchanged what = gradients ? Exchanged::key_gradients : Exchanged::keys;
  return add_exchanges(chain, key, what, Awaited::when_told, [&](GpuId) {
    CollectiveTraffic moved = ring_shift(members, keys, gradients ? 2 * members - 1 : members - 1);
    if (gradients) moved.rounds = members;
    return moved;
  });
}

}  // namespace moesim
