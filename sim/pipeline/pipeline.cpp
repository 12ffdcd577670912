// SPDX-License-Identifier: Apache-2.0
#include "sim/pipeline/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "sim/base/error.h"
#include "sim/pipeline/rank_orders.h"

namespace moesim {
namespace {

constexpr std::int64_t most_passes = 1'000'000;  // far beyond any cluster

bool is_interleaved(PipelineKind kind) {
  return kind == PipelineKind::interleaved || kind == PipelineKind::combined_interleaved;
}
bool is_dual(PipelineKind kind) {
  return kind == PipelineKind::dualpipe || kind == PipelineKind::dualpipev;
}

void require(bool kept, const PipelineShape& shape, const std::string& rule,
             const std::string& hint) {
  if (!kept) throw Error(fmt::format("{}: {}", name_of(shape.kind), rule), hint);
}

void check_shape(const PipelineShape& s) {
  require(s.ranks >= 1, s, fmt::format("{} pipeline ranks", s.ranks), "at least 1");
  require(s.microbatches >= 1, s, fmt::format("{} microbatches", s.microbatches), "at least 1");
  require(std::int64_t{s.ranks} * s.microbatches <= most_passes / std::max(s.chunks, 1), s,
          fmt::format("{} microbatches through {} pipeline ranks with {} chunks", s.microbatches,
                      s.ranks, s.chunks),
          fmt::format("at most {} passes of a microbatch through a chunk", most_passes));
  if (is_interleaved(s.kind)) {
    require(s.chunks >= 2, s, fmt::format("{} model chunk per rank", s.chunks),
            "at least 2; 1f1b and combined-1f1b have one");
    require(s.microbatches % s.ranks == 0, s,
            fmt::format("{} microbatches are no multiple of {} pipeline ranks", s.microbatches,
                        s.ranks),
            "a group of as many microbatches as ranks passes each chunk in turn");
  } else {
    require(s.chunks == 1, s, fmt::format("{} model chunks per rank", s.chunks),
            "only interleaved and combined-interleaved choose their chunks");
  }
  if (!is_dual(s.kind)) return;
  const bool v = s.kind == PipelineKind::dualpipev;
  require(v || s.ranks % 2 == 0, s, fmt::format("{} pipeline ranks are odd", s.ranks),
          "the ranks of one half mirror those of the other");
  require(v || s.microbatches % 2 == 0, s, fmt::format("{} microbatches are odd", s.microbatches),
          "half of them enter at each end");
  require(s.microbatches >= 2 * s.ranks, s,
          fmt::format("{} microbatches are fewer than twice the {} pipeline ranks", s.microbatches,
                      s.ranks),
          fmt::format("at least {}", 2 * s.ranks));
}

const PipelineShape& checked(const PipelineShape& shape) {
  check_shape(shape);
  return shape;
}

Timetable order_of(const PipelineShape& shape, int rank) {
  if (shape.kind == PipelineKind::zb1p) return zb1p_order(shape, rank);
  return is_dual(shape.kind) ? dualpipe_order(shape, rank) : one_f_one_b_order(shape, rank);
}

std::vector<Timetable> orders_of(const PipelineShape& shape) {
  check_shape(shape);
  std::vector<Timetable> orders;
  for (int rank = 0; rank < shape.ranks; ++rank) orders.push_back(order_of(shape, rank));
  return orders;
}

}  // namespace

const std::vector<std::string>& pipeline_kind_names() {
  static const std::vector<std::string> names = {
      "gpipe", "1f1b",     "interleaved", "combined-1f1b", "combined-interleaved",
      "zb1p",  "dualpipe", "dualpipev"};
  return names;
}

const std::string& name_of(PipelineKind kind) {
  return pipeline_kind_names().at(static_cast<std::size_t>(kind));
}

Pipeline::Pipeline(const PipelineShape& shape) : Pipeline(shape, orders_of(shape)) {}

Pipeline::Pipeline(const PipelineShape& shape, std::vector<Timetable> timetables)
    : shape_(checked(shape)), timetables_(std::move(timetables)) {
  index_works();
  find_order();
}

int Pipeline::chunks() const { return is_dual(shape_.kind) ? 2 : shape_.chunks; }

int Pipeline::stages() const { return shape_.ranks * chunks() / copies(); }

StagePlace Pipeline::place(int microbatch, int stage) const {
  const int p = shape_.ranks;
  switch (shape_.kind) {
    case PipelineKind::dualpipe:
      return microbatch < shape_.microbatches / 2 ? StagePlace{.rank = stage, .chunk = 0}
                                                  : StagePlace{.rank = p - 1 - stage, .chunk = 1};
    case PipelineKind::dualpipev:
      return stage < p ? StagePlace{.rank = stage, .chunk = 0}
                       : StagePlace{.rank = 2 * p - 1 - stage, .chunk = 1};
    default:
      return {.rank = stage % p, .chunk = stage / p};
  }
}

int Pipeline::stage_of(StagePlace place) const {
  if (!is_dual(shape_.kind)) return place.chunk * shape_.ranks + place.rank;
  return place.chunk == 0 ? place.rank : stages() - 1 - place.rank;
}

std::vector<TurnAt> Pipeline::inputs(TurnAt at) const {
  std::vector<TurnAt> found;
  const auto add = [&](const StageWork& work) {
    const int stage = stage_of({.rank = at.rank, .chunk = work.chunk});
    const auto needs = [&](WorkKind kind, int where) {
      found.push_back(turn_of(kind, work.microbatch, where));
    };
    if (work.kind == WorkKind::forward) {
      if (stage > 0) needs(WorkKind::forward, stage - 1);
    } else if (work.kind == WorkKind::weight_gradient) {
      needs(WorkKind::input_gradient, stage);
    } else {
      needs(WorkKind::forward, stage);
      if (stage + 1 < stages()) needs(WorkKind::input_gradient, stage + 1);
    }
  };
  const Turn& turn = this->at(at);
  add(turn.work);
  if (turn.beside) add(*turn.beside);
  return found;
}

}  // namespace moesim
