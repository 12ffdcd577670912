// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/layer/layer_chunks.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/unsuitable.h"
#include "sim/planner/layer/layer_waves.h"

namespace moesim {
namespace {

/// The i-th part of every rank's tokens.
Batch part_of_batch(const Batch& batch, int i, int parts) {
  Batch part{batch.step, {}};
  for (const auto& runs : batch.ranks) part.ranks.push_back(part_of(runs, i, parts));
  return part;
}

/// [token of a part] its number in the whole batch.
std::vector<TokenId> numbers_in_batch(const Batch& batch, int i, int parts) {
  std::vector<TokenId> numbers;
  std::int64_t first = 0;  // of the run
  for (const auto& runs : batch.ranks) {
    for (int p = 0; p < parts; ++p) {
      for (const TokenRun& run : part_of(runs, p, parts)) {
        for (std::int64_t t = 0; p == i && t < run.count; ++t) numbers.emplace_back(first + t);
        first += run.count;
      }
    }
  }
  return numbers;
}

/// Consecutive ranks of an EP group: who is whose partner in which chunk.
class Partners {
 public:
  Partners(const EpGroups& groups, int blocks) : groups_(groups), blocks_(blocks) {}
  int block_of(GpuId gpu) const {
    return static_cast<int>(groups_.rank_of(gpu).value) * blocks_ / groups_.size();
  }
  /// The chunk in which one sends to the other (FasterMoE's code; the paper mirrors it).
  int chunk_of(GpuId from, GpuId to) const {
    return (block_of(to) - block_of(from) + blocks_) % blocks_;
  }
  /// The block that sends to a GPU in a chunk.
  int sender(GpuId to, int chunk) const { return (block_of(to) - chunk + blocks_) % blocks_; }

 private:
  const EpGroups& groups_;
  int blocks_;
};

/// Equal parts have slices of their capacity as chunks, as Tutel cuts them. Every r-th of the rows
/// that a rank has for a slot is in a chunk, so that padding spreads over all.
class CapacitySlices {
 public:
  CapacitySlices(const LayerWork& work, const EpGroups& groups, int count)
      : work_(work), ranks_(groups.size()), count_(count) {
    const Placement& placement = work.assignment().placement();
    const std::vector<std::int64_t>& padded = work.counts.padded_slots;
    for (GpuId gpu(0); gpu.value < placement.gpus(); gpu.value += ranks_) {
      const auto slot = placement.first_slot(gpu).index();  // every slot gets as many from each
      capacities_.push_back(slot < padded.size() ? padded[slot] / ranks_ : 0);
    }
  }
  static bool suit(const LayerWork& work) { return !work.counts.padded_slots.empty(); }

  /// The ids of the step with all choices dropped that are not in a chunk.
  std::vector<std::uint16_t> ids(const LayerTokens& tokens, int chunk) const {
    const IdRows all = tokens.ids;
    const auto top_k = static_cast<std::size_t>(all.top_k());
    std::vector<std::uint16_t> ids(static_cast<std::size_t>(all.tokens()) * top_k, IdRows::dropped);
    const auto experts = static_cast<std::size_t>(work_.assignment().placement().experts());
    for (std::size_t rank = 0; rank < tokens.batch.ranks.size(); ++rank) {
      std::vector<std::int64_t> seen(experts);
      for (const TokenRun& run : tokens.batch.ranks[rank]) {
        for (std::int64_t t = run.first; t < run.first + run.count; ++t) {
          for (std::size_t k = 0; k < top_k; ++k) {
            const int id = all.at(t, static_cast<int>(k));
            if (all.width() == 2 && id == IdRows::dropped) continue;
            const std::int64_t place = seen[static_cast<std::size_t>(id)]++;
            if (place % count_ != chunk) continue;
            ids[static_cast<std::size_t>(t) * top_k + k] = static_cast<std::uint16_t>(id);
          }
        }
      }
    }
    return ids;
  }
  LayerTokens tokens(const LayerTokens& all, const std::vector<std::uint16_t>& ids) const {
    return {all.batch, IdRows(ids.data(), 2, all.ids.top_k(), all.ids.tokens()), all.assignment,
            all.first_gpu, all.choices};
  }

  RowCounts counts(const LayerTokens& all, int chunk) const {
    const auto kept = ids(all, chunk);
    RowCounts counts = work_.dispatch->count(tokens(all, kept));
    counts.padded_phases = work_.counts.padded_phases;
    counts.padded_slots = work_.counts.padded_slots;
    for (RowTable& phase : counts.padded_phases) {
      phase.update([&](std::size_t from, std::uint32_t rows) {
        return static_cast<std::uint32_t>(part(from, rows, chunk));
      });
    }
    const Placement& placement = work_.assignment().placement();
    for (int slot = 0; slot < placement.slots(); ++slot) {
      std::int64_t& rows = counts.padded_slots[static_cast<std::size_t>(slot)];
      rows = part(placement.gpu_of(SlotId(slot)).index(), rows, chunk);
    }
    return counts;
  }

 private:
  /// Rows of a chunk, if all rows are a multiple of the capacity of their rank's group.
  std::int64_t part(std::size_t rank, std::int64_t rows, int chunk) const {
    const std::int64_t capacity = capacities_[rank / static_cast<std::size_t>(ranks_)];
    if (capacity == 0) return 0;
    return rows / capacity * ((capacity + count_ - 1 - chunk) / count_);
  }

  const LayerWork& work_;
  int ranks_, count_;
  std::vector<std::int64_t> capacities_;  // [EP group] rows of a rank for a slot
};

LayerWork without_counts(const LayerWork& work) {
  LayerWork chunk{LayerDecision(work.assignment())};
  chunk.number = work.number;
  chunk.dispatch = work.dispatch;
  chunk.tensor_groups = work.tensor_groups;
  chunk.tensor_nodes = work.tensor_nodes;
  chunk.tiles = work.tiles;
  return chunk;
}

std::vector<LayerWork> chunks_of_slices(const LayerWork& work, const LayerTokens& tokens,
                                        const EpGroups& groups, int count) {
  const CapacitySlices slices(work, groups, count);
  std::vector<LayerWork> chunks;
  for (int i = 0; i < count; ++i) {
    LayerWork& chunk = chunks.emplace_back(without_counts(work));
    chunk.tokens_per_rank.resize(work.counts.gpus());  // none by themselves
    chunk.counts = slices.counts(tokens, i);
  }
  return chunks;
}

std::vector<LayerWork> chunks_of_tokens(const LayerWork& work, const LayerTokens& tokens,
                                        const EpGroups& groups, int count,
                                        const CountRows& count_rows) {
  if (work.assignment().split()) {
    throw Unsuitable("ranks spread the tokens of an expert over replicas, which chunks cut short",
                     "chunks: 1, or a placement with one slot for every rank and expert");
  }
  if (CapacitySlices::suit(work)) return chunks_of_slices(work, tokens, groups, count);
  std::vector<LayerWork> chunks;
  for (int i = 0; i < count; ++i) {
    const Batch part = part_of_batch(tokens.batch, i, count);
    LayerWork& chunk = chunks.emplace_back(without_counts(work));
    for (const auto& runs : part.ranks) {
      chunk.tokens_per_rank.push_back(tokens_of(runs));
    }
    chunk.counts = count_rows({part, tokens.ids, work.assignment(), tokens.first_gpu});
  }
  return chunks;
}

/// Rows that a chunk of partners moves.
std::vector<RowTable> rows_between(std::vector<RowTable> phases, const Partners& partners,
                                   int chunk) {
  for (RowTable& rows : phases) {
    rows.keep([&](std::size_t from, std::size_t to) {
      const GpuId sender(static_cast<std::int64_t>(from)), receiver(static_cast<std::int64_t>(to));
      return partners.chunk_of(sender, receiver) == chunk;
    });
  }
  return phases;
}

/// What the experts of every GPU get from the block that sends to it in a chunk.
std::vector<std::int64_t> slots_from(const std::vector<RowCounts>& of_block,
                                     const Placement& placement, const Partners& partners,
                                     int chunk) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(placement.slots()));
  for (GpuId gpu(0); gpu.value < placement.gpus(); ++gpu.value) {
    const auto& slots = of_block[static_cast<std::size_t>(partners.sender(gpu, chunk))].slots;
    for (int slot = 0; slot < placement.slots_on(gpu); ++slot) {
      const auto at = placement.first_slot(gpu).index() + static_cast<std::size_t>(slot);
      result[at] = slots[at];
    }
  }
  return result;
}

std::vector<LayerWork> chunks_of_partners(const LayerWork& work, const LayerTokens& tokens,
                                          const EpGroups& groups, int count) {
  if (work.dispatch->shape().size() != 1 || !work.counts.padded_phases.empty()) {
    throw Unsuitable("a dispatch of several phases, or one that pads, has no chunks of partners",
                     "chunk: tokens, or a flat dispatch");
  }
  if (groups.size() % count != 0) {
    throw Unsuitable(fmt::format("{} chunks of partners in EP groups of {}", count, groups.size()),
                     "chunks must divide ep");
  }
  const Partners partners(groups, count);
  std::vector<RowCounts> of_block;
  for (int block = 0; block < count; ++block) {
    Batch senders = tokens.batch;
    for (std::size_t rank = 0; rank < senders.ranks.size(); ++rank) {
      const GpuId gpu(static_cast<std::int64_t>(rank));
      if (partners.block_of(gpu) != block) senders.ranks[rank].clear();
    }
    of_block.push_back(
        work.dispatch->count({senders, tokens.ids, work.assignment(), tokens.first_gpu}));
  }
  const Placement& placement = work.assignment().placement();
  std::vector<LayerWork> chunks;
  for (int i = 0; i < count; ++i) {
    LayerWork& chunk = chunks.emplace_back(without_counts(work));
    const RowCounts& all = work.counts;
    chunk.tokens_per_rank.resize(all.gpus());  // none by themselves
    chunk.counts.gpu_count = all.gpu_count;
    chunk.counts.phases = rows_between(all.phases, partners, i);
    chunk.counts.slots = slots_from(of_block, placement, partners, i);
  }
  return chunks;
}

}  // namespace

Chunking with_results(Chunking chunking) {
  if (chunking.count != 1 || chunking.by == ChunkBy::tiles) {
    throw Unsuitable("overlap: single-batch with layers in chunks",
                     "a schedule without chunks, or another overlap");
  }
  chunking.by = ChunkBy::results;
  chunking.count = 4;
  chunking.streamed = true;
  return chunking;
}

void check_passes(const Chunking& chunking, bool backward) {
  if (!backward || chunking.by != ChunkBy::results) return;
  throw Unsuitable("chunks of results are of forward passes",
                   "pass: forward, or a pass of serving");
}

std::vector<LayerWork> chunks_of(const LayerWork& work, const LayerTokens& tokens,
                                 const EpGroups& groups, const Chunking& chunking,
                                 const CountRows& count_rows) {
  if (chunking.count == 1) return {};
  if (chunking.by == ChunkBy::results) {
    return chunks_of_results(work, tokens, groups, chunking.count);
  }
  auto chunks = chunking.by == ChunkBy::tokens
                    ? chunks_of_tokens(work, tokens, groups, chunking.count, count_rows)
                    : chunks_of_partners(work, tokens, groups, chunking.count);
  for (std::size_t i = 1; i < chunks.size(); ++i) chunks[i].goes_on = chunking.streamed;
  return chunks;
}

void add_chunk_rows(LayerWork& work, const LayerTokens& tokens, const EpGroups& groups,
                    const Chunking& chunking) {
  const auto count = static_cast<int>(work.chunks.size());
  if (chunking.by == ChunkBy::tiles || chunking.by == ChunkBy::results) {
    if (!work.chunks.empty()) add_wave_rows(work, tokens, groups);
    return;
  }
  for (int i = 0; i < count; ++i) {
    LayerWork& chunk = work.chunks[static_cast<std::size_t>(i)];
    if (chunking.by == ChunkBy::partners) {
      const Partners partners(groups, count);
      chunk.rows = work.rows;
      for (auto& rows : chunk.rows) {
        std::erase_if(rows,
                      [&](const RowMove& row) { return partners.chunk_of(row.from, row.to) != i; });
      }
      continue;
    }
    if (CapacitySlices::suit(work)) {
      const CapacitySlices slices(work, groups, count);
      const auto ids = slices.ids(tokens, i);
      chunk.rows = work.dispatch->rows(slices.tokens(tokens, ids));
      continue;
    }
    const Batch part = part_of_batch(tokens.batch, i, count);
    const auto number = numbers_in_batch(tokens.batch, i, count);
    chunk.rows = work.dispatch->rows({part, tokens.ids, work.assignment(), tokens.first_gpu});
    for (auto& rows : chunk.rows) {
      for (RowMove& row : rows) row.token = number[row.token.index()];
    }
  }
}

}  // namespace moesim
