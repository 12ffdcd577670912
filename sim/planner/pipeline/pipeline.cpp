// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/pipeline/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/planner/pipeline/stage_orders.h"

namespace moesim {
namespace {

constexpr std::int64_t most_passes = 1'000'000;  // far beyond any cluster

bool is_interleaved(PipelineKind kind) {
  return kind == PipelineKind::interleaved || kind == PipelineKind::combined_interleaved;
}
bool is_dual(PipelineKind kind) {
  return kind == PipelineKind::dualpipe || kind == PipelineKind::dualpipev;
}
bool is_building_block(PipelineKind kind) {
  return kind == PipelineKind::v_half || kind == PipelineKind::v_min;
}
/// Whether a stage holds the chunks that its kind says.
bool folds(PipelineKind kind) { return is_v(kind) || kind == PipelineKind::dualpipe; }

void require(bool kept, const PipelineShape& shape, const std::string& rule,
             const std::string& hint) {
  if (!kept) throw Error(fmt::format("{}: {}", name_of(shape.kind), rule), hint);
}

void check_shape(const PipelineShape& s) {
  require(s.stages >= 1, s, fmt::format("{} pipeline stages", s.stages), "at least 1");
  require(s.microbatches >= 1, s, counted(s.microbatches, "microbatch"), "at least 1");
  require(std::int64_t{s.stages} * s.microbatches <= most_passes / std::max(s.chunks, 1), s,
          fmt::format("{} through {} pipeline stages with {}",
                      counted(s.microbatches, "microbatch"), s.stages, counted(s.chunks, "chunk")),
          fmt::format("at most {} passes of a microbatch through a chunk", most_passes));
  if (is_interleaved(s.kind)) {
    require(s.chunks >= 2, s, fmt::format("{} model chunk per stage", s.chunks),
            "at least 2; 1f1b and combined-1f1b have one");
    require(s.microbatches % s.stages == 0, s,
            fmt::format("{} {} not a multiple of {} pipeline stages",
                        counted(s.microbatches, "microbatch"), s.microbatches == 1 ? "is" : "are",
                        s.stages),
            "a group of as many microbatches as stages passes each chunk in turn");
  } else {
    require(s.chunks == 1, s, fmt::format("{} model chunks per stage", s.chunks),
            "only interleaved and combined-interleaved choose their chunks");
  }
  if (!folds(s.kind)) return;
  require(s.backward, s, "forward passes by themselves", "1f1b or interleaved");
  if (!is_dual(s.kind)) return;
  const bool v = s.kind == PipelineKind::dualpipev;
  require(v || s.stages % 2 == 0, s, fmt::format("{} pipeline stages are odd", s.stages),
          "the stages of one half mirror those of the other");
  require(v || s.microbatches % 2 == 0, s, fmt::format("{} microbatches are odd", s.microbatches),
          "half of them enter at each end");
  require(s.microbatches >= 2 * s.stages, s,
          fmt::format("{} microbatches are fewer than twice the {} pipeline stages", s.microbatches,
                      s.stages),
          fmt::format("at least {}", 2 * s.stages));
}

const PipelineShape& checked(const PipelineShape& shape) {
  check_shape(shape);
  return shape;
}

Timetable order_of(const PipelineShape& shape, int stage) {
  if (!shape.backward) return forward_order(shape);
  if (shape.kind == PipelineKind::zb1p) return zb1p_order(shape, stage);
  if (shape.kind == PipelineKind::zbv) return zbv_order(shape, stage);
  if (is_building_block(shape.kind)) return building_block_order(shape, stage);
  return is_dual(shape.kind) ? dualpipe_order(shape, stage) : one_f_one_b_order(shape, stage);
}

std::vector<Timetable> orders_of(const PipelineShape& shape) {
  check_shape(shape);
  std::vector<Timetable> orders;
  for (int stage = 0; stage < shape.stages; ++stage) orders.push_back(order_of(shape, stage));
  return orders;
}

}  // namespace

const std::vector<std::string>& pipeline_kind_names() {
  static const std::vector<std::string> names = {
      "gpipe", "1f1b",     "interleaved", "combined-1f1b", "combined-interleaved",
      "zb1p",  "dualpipe", "dualpipev",   "zbv",           "v-half",
      "v-min"};
  return names;
}

const std::string& name_of(PipelineKind kind) {
  return pipeline_kind_names().at(static_cast<std::size_t>(kind));
}

bool is_v(PipelineKind kind) {
  return kind == PipelineKind::dualpipev || kind == PipelineKind::zbv || is_building_block(kind);
}

bool awaits_sends(PipelineKind kind) { return is_dual(kind); }

Pipeline::Pipeline(const PipelineShape& shape) : Pipeline(shape, orders_of(shape)) {}

Pipeline::Pipeline(const PipelineShape& shape, std::vector<Timetable> timetables)
    : shape_(checked(shape)), timetables_(std::move(timetables)) {
  index_works();
  find_order();
}

int Pipeline::chunks() const { return folds(shape_.kind) ? 2 : shape_.chunks; }

int Pipeline::positions() const { return shape_.stages * chunks() / copies(); }

ChunkPlace Pipeline::place(int microbatch, int position) const {
  const int p = shape_.stages;
  if (shape_.kind == PipelineKind::dualpipe) {
    return microbatch < shape_.microbatches / 2 ? ChunkPlace{.stage = position, .chunk = 0}
                                                : ChunkPlace{.stage = p - 1 - position, .chunk = 1};
  }
  if (is_v(shape_.kind)) {
    return position < p ? ChunkPlace{.stage = position, .chunk = 0}
                        : ChunkPlace{.stage = 2 * p - 1 - position, .chunk = 1};
  }
  return {.stage = position % p, .chunk = position / p};
}

int Pipeline::position_of(ChunkPlace place) const {
  if (!folds(shape_.kind)) return place.chunk * shape_.stages + place.stage;
  return place.chunk == 0 ? place.stage : positions() - 1 - place.stage;
}

std::vector<TurnAt> Pipeline::inputs(TurnAt at) const {
  std::vector<TurnAt> found;
  const auto add = [&](const StageWork& work) {
    const int position = position_of({.stage = at.stage, .chunk = work.chunk});
    const auto needs = [&](WorkKind kind, int where) {
      found.push_back(turn_of(kind, work.microbatch, where));
    };
    if (work.kind == WorkKind::forward) {
      if (position > 0) needs(WorkKind::forward, position - 1);
    } else if (work.kind == WorkKind::weight_gradient) {
      needs(WorkKind::input_gradient, position);
    } else {
      needs(WorkKind::forward, position);
      if (position + 1 < positions()) needs(WorkKind::input_gradient, position + 1);
    }
  };
  const Turn& turn = this->at(at);
  add(turn.work);
  if (turn.beside) add(*turn.beside);
  return found;
}

}  // namespace moesim
