// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/layer/layer_waves.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "sim/base/unsuitable.h"

namespace moesim {
namespace {

std::int64_t quotient_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Calls visit(source, index of the token in the batch, k, slot) for every choice of a step that
/// was not dropped, in token order.
template <class Visit>
void for_each_served(const LayerTokens& tokens, Visit visit) {
  AssignmentWalk walk(tokens.assignment);
  const IdRows& ids = tokens.ids;
  std::int64_t number = 0;
  for (std::size_t rank = 0; rank < tokens.batch.ranks.size(); ++rank) {
    const GpuId source(static_cast<std::int64_t>(rank));
    for (const TokenRun& run : tokens.batch.ranks[rank]) {
      for (std::int64_t t = run.first; t < run.first + run.count; ++t, ++number) {
        for (int k = 0; k < ids.top_k(); ++k) {
          const int id = ids.at(t, k);
          if (ids.width() == 2 && id == IdRows::dropped) continue;
          visit(source, number, k, walk.next(source, ExpertId(id)));
        }
      }
    }
  }
}

/// Which rows of a layer are in which tile.
class RowTiles {
 public:
  RowTiles(const LayerTokens& tokens, const EpGroups& groups, std::int64_t tile)
      : placement_(tokens.assignment.placement()), groups_(groups), tile_(tile) {
    const auto ranks = static_cast<std::size_t>(groups.size());
    rows_.assign(static_cast<std::size_t>(placement_.slots()) * ranks, 0);
    for_each_served(
        tokens, [&](GpuId source, std::int64_t, int, SlotId slot) { ++rows_[at(slot, source)]; });
    for (GpuId gpu(0); gpu.value < placement_.gpus(); ++gpu.value) {
      std::int64_t& of_gpu = tiles_.emplace_back(0);
      for (int i = 0; i < placement_.slots_on(gpu); ++i) {
        const SlotId slot(placement_.first_slot(gpu).value + i);
        first_tile_.push_back(of_gpu);
        of_gpu += quotient_up(rows_of(slot), tile);
      }
    }
  }
  const std::vector<std::int64_t>& tiles() const { return tiles_; }  // [gpu]
  std::int64_t rows_of(SlotId slot) const {
    const auto first = rows_.begin() + static_cast<std::ptrdiff_t>(at(slot, GpuId(0)));
    return std::accumulate(first, first + groups_.size(), std::int64_t{0});
  }
  std::vector<std::int64_t> slot_rows() const {
    std::vector<std::int64_t> rows;
    for (int slot = 0; slot < placement_.slots(); ++slot) rows.push_back(rows_of(SlotId(slot)));
    return rows;
  }
  /// Calls visit(source, i, wave) for the rows of a slot: the i-th ones of all sources, then the
  /// next ones.
  template <class Visit>
  void for_each_row(SlotId slot, int waves, Visit visit) const {
    const GpuId gpu = placement_.gpu_of(slot);
    const std::int64_t all = rows_of(slot), tiles = tiles_[gpu.index()];
    const std::int64_t first = first_tile_[slot.index()];
    const std::int64_t first_source = groups_.first(groups_.group_of(gpu));
    std::int64_t done = 0;
    for (std::int64_t i = 0; done < all; ++i) {
      for (int rank = 0; rank < groups_.size(); ++rank) {
        const GpuId source(first_source + rank);
        if (rows_[at(slot, source)] <= i) continue;
        const std::int64_t tile = first + done++ / tile_;
        visit(source, i, static_cast<std::size_t>(tile * waves / tiles));
      }
    }
  }
  std::size_t at(SlotId slot, GpuId source) const {
    return slot.index() * static_cast<std::size_t>(groups_.size()) +
           groups_.rank_of(source).index();
  }

 private:
  const Placement& placement_;
  const EpGroups& groups_;
  std::int64_t tile_;
  std::vector<std::int64_t> rows_;        // [slot][rank of its EP group]
  std::vector<std::int64_t> first_tile_;  // [slot] among those of its GPU
  std::vector<std::int64_t> tiles_;       // [gpu]
};

constexpr std::int64_t whole_expert = std::int64_t{1} << 40;  // rows of a tile

void check_rows(const LayerWork& work) {
  const std::vector<std::int64_t>& slots = work.counts.slots;
  const std::int64_t choices = std::accumulate(slots.begin(), slots.end(), std::int64_t{0});
  const bool one_each = work.dispatch->shape().size() == 1 && work.counts.padded_phases.empty() &&
                        work.counts.phases[0].total() == static_cast<std::uint64_t>(choices);
  if (!one_each) {
    throw Unsuitable(
        "chunks of tiles or results need a row for every token and choice, in one "
        "phase",
        "dispatch: fused, alltoall, or deepep-low-latency for results");
  }
  if (work.tensor_groups) {
    throw Unsuitable(
        "chunks of tiles or results are of whole experts, here tensor groups share them", "etp: 1");
  }
}

/// [wave] what every GPU sends to every other one.
std::vector<RowTable> row_tables(const RowTiles& tiles, const Placement& placement,
                                 const EpGroups& groups, int waves,
                                 std::vector<std::vector<std::int64_t>>& slots) {
  std::vector<RowTable> tables;
  const auto ranks = static_cast<std::size_t>(groups.size());
  for (int g = 0; g < groups.count(); ++g) {
    std::vector<RowTable> of_group;
    std::vector<std::span<std::uint32_t>> cells;  // [wave][from * ranks + to]
    for (int w = 0; w < waves; ++w) of_group.emplace_back(ranks);
    for (RowTable& table : of_group) cells.push_back(table.cells());
    for (int rank = 0; rank < groups.size(); ++rank) {
      const GpuId gpu = groups.gpu(g, GpuId(rank));
      for (int i = 0; i < placement.slots_on(gpu); ++i) {
        const SlotId slot(placement.first_slot(gpu).value + i);
        tiles.for_each_row(slot, waves, [&](GpuId source, std::int64_t, std::size_t wave) {
          const std::size_t from = groups.rank_of(source).index();
          ++cells[wave][from * ranks + static_cast<std::size_t>(rank)];
          ++slots[wave][slot.index()];
        });
      }
    }
    if (g == 0) {
      tables = std::move(of_group);
      continue;
    }
    for (std::size_t w = 0; w < tables.size(); ++w) tables[w].append(std::move(of_group[w]));
  }
  return tables;
}

std::vector<LayerWork> in_waves(const LayerWork& work, const RowTiles& tiles,
                                const EpGroups& groups, int waves) {
  std::vector<std::vector<std::int64_t>> slots(static_cast<std::size_t>(waves),
                                               std::vector<std::int64_t>(work.counts.slots.size()));
  auto tables = row_tables(tiles, work.assignment().placement(), groups, waves, slots);
  std::vector<LayerWork> chunks;
  for (std::size_t w = 0; w < tables.size(); ++w) {
    LayerWork& chunk = chunks.emplace_back(LayerDecision(work.assignment()));
    chunk.number = work.number;
    chunk.dispatch = work.dispatch;
    chunk.tokens_per_rank.resize(work.counts.gpus());  // none by themselves
    chunk.counts.gpu_count = work.counts.gpu_count;
    chunk.counts.phases = {std::move(tables[w])};
    chunk.counts.slots = std::move(slots[w]);
    chunk.goes_on = w > 0;
  }
  return chunks;
}

}  // namespace

ProductTiles product_tiles(const Chunking& chunking, const LayerWork& work, bool backward) {
  if (backward) {
    throw Unsuitable("schedule.tile is of forward passes, or of fused kernels",
                     "pass: forward, or chunk: tiles");
  }
  return {tile_rows(chunking.kernel, work.counts.slots), chunking.kernel.weights,
          chunking.kernel.products};
}

std::vector<LayerWork> waves_of(const LayerWork& work, const LayerTokens& tokens,
                                const EpGroups& groups, const WaveShape& shape) {
  check_rows(work);
  auto kernel = std::make_shared<TiledLayer>();
  kernel->tile = tile_rows(shape.chunking.kernel, work.counts.slots);
  kernel->fill = shape.chunking.kernel.fill > 0 ? shape.chunking.kernel.fill : kernel->tile;
  const RowTiles tiles(tokens, groups, kernel->tile);
  kernel->tiles = tiles.tiles();
  kernel->slot_rows = tiles.slot_rows();
  kernel->weights = shape.chunking.kernel.weights;
  kernel->products = shape.chunking.kernel.products;
  const int compute_sms = shape.sms - work.dispatch->shape().sms;
  if (compute_sms < 1) {
    throw Unsuitable(fmt::format("its exchanges take {} multiprocessors of {}",
                                 work.dispatch->shape().sms, shape.sms),
                     "dispatch.sms below that");
  }
  const std::int64_t most_tiles = *std::ranges::max_element(kernel->tiles);
  const std::int64_t at_once =
      most_tiles * quotient_up(shape.columns, shape.chunking.kernel.columns);
  const std::int64_t most =
      std::min<std::int64_t>(shape.chunking.count, std::max<std::int64_t>(1, most_tiles));
  const int waves =
      static_cast<int>(std::clamp<std::int64_t>(quotient_up(at_once, compute_sms), 1, most));
  std::vector<LayerWork> chunks = in_waves(work, tiles, groups, waves);
  for (int w = 0; w < waves; ++w) chunks[static_cast<std::size_t>(w)].wave = {kernel, w, waves};
  return chunks;
}

std::vector<LayerWork> chunks_of_results(const LayerWork& work, const LayerTokens& tokens,
                                         const EpGroups& groups, int count) {
  check_rows(work);
  const RowTiles experts(tokens, groups, whole_expert);
  const auto most = std::max<std::int64_t>(1, *std::ranges::max_element(experts.tiles()));
  std::vector<LayerWork> chunks =
      in_waves(work, experts, groups, static_cast<int>(std::min<std::int64_t>(count, most)));
  for (LayerWork& chunk : chunks) {
    chunk.of_results = true;
    chunk.tiles = work.tiles;
  }
  return chunks;
}

void add_wave_rows(LayerWork& work, const LayerTokens& tokens, const EpGroups& groups) {
  const int waves = static_cast<int>(work.chunks.size());
  const auto& first = work.chunks.front();
  const RowTiles tiles(tokens, groups, first.wave ? first.wave->kernel->tile : whole_expert);
  const Placement& placement = work.assignment().placement();
  // The wave of every row of a (slot, source), in order.
  std::vector<std::vector<std::size_t>> wave(static_cast<std::size_t>(placement.slots()) *
                                             static_cast<std::size_t>(groups.size()));
  for (int slot = 0; slot < placement.slots(); ++slot) {
    tiles.for_each_row(SlotId(slot), waves, [&](GpuId source, std::int64_t, std::size_t of_row) {
      wave[tiles.at(SlotId(slot), source)].push_back(of_row);
    });
  }
  const auto top_k = static_cast<std::size_t>(tokens.ids.top_k());
  std::vector<std::size_t> of_choice(static_cast<std::size_t>(tokens.batch.tokens()) * top_k);
  std::vector<std::size_t> next(wave.size());
  for_each_served(tokens, [&](GpuId source, std::int64_t token, int k, SlotId slot) {
    const std::size_t at = tiles.at(slot, source);
    of_choice[static_cast<std::size_t>(token) * top_k + static_cast<std::size_t>(k)] =
        wave[at][next[at]++];
  });
  for (LayerWork& chunk : work.chunks) chunk.rows.assign(1, {});
  for (const RowMove& row : work.rows[0]) {
    const auto k = static_cast<std::size_t>(std::countr_zero(row.choices));
    work.chunks[of_choice[row.token.index() * top_k + k]].rows[0].push_back(row);
  }
}

}  // namespace moesim
