// SPDX-License-Identifier: Apache-2.0
// The proof of a pipeline: all works are there once, and one order of all turns exists.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "sim/planner/pipeline/pipeline.h"

namespace moesim {
namespace {

std::string words(const StageWork& work) {
  static constexpr const char* kinds[] = {"forward", "backward", "input gradient",
                                          "weight gradient"};
  return fmt::format("{} of microbatch {}, chunk {}", kinds[static_cast<std::size_t>(work.kind)],
                     work.microbatch, work.chunk);
}

std::string words(const Turn& turn) {
  return turn.beside ? words(turn.work) + " with " + words(*turn.beside) : words(turn.work);
}

// turns_ holds forward, input gradient and weight gradient of every position of every microbatch.
constexpr int parts = 3;
int part_of(WorkKind kind) {
  return kind == WorkKind::forward ? 0 : kind == WorkKind::weight_gradient ? 2 : 1;
}

bool is_none(TurnAt at) { return at.turn < 0; }

bool is_wanted(const PipelineShape& shape, WorkKind kind) {
  return shape.backward || kind == WorkKind::forward;
}

}  // namespace

TurnAt Pipeline::turn_of(WorkKind kind, int microbatch, int position) const {
  const int index = (microbatch * positions() + position) * parts + part_of(kind);
  return turns_[static_cast<std::size_t>(index)];
}

void Pipeline::index_works() {
  if (std::ssize(timetables_) != stages()) {
    throw std::logic_error(
        fmt::format("{} timetables of {} pipeline stages", timetables_.size(), stages()));
  }
  const int works = microbatches() * positions() * parts;
  turns_.assign(static_cast<std::size_t>(works), {});
  for (int stage = 0; stage < stages(); ++stage) {
    for (int i = 0; i < static_cast<int>(of(stage).size()); ++i) {
      const TurnAt at{.stage = stage, .turn = i};
      const Turn& turn = this->at(at);
      index_work(turn.work, at);
      if (!turn.beside) continue;
      if (turn.work.kind != WorkKind::forward || turn.beside->kind != WorkKind::backward) {
        throw std::logic_error(fmt::format("stage {} merges {}", stage, words(turn)));
      }
      index_work(*turn.beside, at);
    }
  }
  const int each = shape_.backward ? 1 : parts;  // else only forwards are looked for
  int at = 0;
  while (at < works && !is_none(turns_[static_cast<std::size_t>(at)])) at += each;
  if (at >= works) return;
  static constexpr const char* names[] = {"forward", "backward", "weight gradient"};
  throw std::logic_error(fmt::format("no {} of microbatch {} at position {}", names[at % parts],
                                     at / parts / positions(), at / parts % positions()));
}

void Pipeline::index_work(const StageWork& work, TurnAt at) {
  const ChunkPlace here{.stage = at.stage, .chunk = work.chunk};
  const bool known = work.microbatch >= 0 && work.microbatch < microbatches() && work.chunk >= 0 &&
                     work.chunk < chunks() && is_wanted(shape_, work.kind);
  if (!known || place(work.microbatch, position_of(here)) != here) {
    throw std::logic_error(fmt::format("stage {} has no {}", at.stage, words(work)));
  }
  const int at_position = work.microbatch * positions() + position_of(here);
  const auto first = static_cast<std::size_t>(at_position) * parts;
  const int part = part_of(work.kind);
  const int last = work.kind == WorkKind::backward ? part_of(WorkKind::weight_gradient) : part;
  for (int i = part; i <= last; ++i) {
    TurnAt& turn = turns_[first + static_cast<std::size_t>(i)];
    if (!is_none(turn)) {
      throw std::logic_error(fmt::format("stage {} runs {} twice", at.stage, words(work)));
    }
    turn = at;
  }
}

void Pipeline::find_order() {
  std::vector<int> done(timetables_.size(), 0);  // turns, [stage]
  const auto is_done = [&](TurnAt at) {
    return at.turn < done[static_cast<std::size_t>(at.stage)];
  };
  std::size_t turns = 0;
  for (const Timetable& timetable : timetables_) turns += timetable.size();
  for (bool down = true; order_.size() < turns; down = !down) {
    const std::size_t before = order_.size();
    for (int i = 0; i < stages(); ++i) {
      const int stage = down ? i : stages() - 1 - i;
      int& next = done[static_cast<std::size_t>(stage)];
      const TurnAt at{.stage = stage, .turn = next};
      if (next == std::ssize(of(stage)) || !std::ranges::all_of(inputs(at), is_done)) continue;
      order_.push_back(at);
      ++next;
    }
    if (order_.size() == before) throw std::logic_error(stuck(done));
  }
}

/// One line per stage that has not ended.
std::string Pipeline::stuck(const std::vector<int>& done) const {
  std::string text = "the pipeline deadlocks:";
  for (int stage = 0; stage < stages(); ++stage) {
    const TurnAt at{.stage = stage, .turn = done[static_cast<std::size_t>(stage)]};
    if (at.turn == std::ssize(of(stage))) continue;
    std::vector<std::string> missing;
    for (const TurnAt input : inputs(at)) {
      if (input.turn < done[static_cast<std::size_t>(input.stage)]) continue;
      missing.push_back(fmt::format("stage {}, turn {}", input.stage, input.turn));
    }
    text += fmt::format("\n  stage {}, turn {}: {} waits for {}", stage, at.turn,
                        words(this->at(at)), fmt::join(missing, " and "));
  }
  return text;
}

}  // namespace moesim
