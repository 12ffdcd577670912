// SPDX-License-Identifier: Apache-2.0
// The proof of a pipeline: all works are there once, and one order of all turns exists.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "sim/pipeline/pipeline.h"

namespace moesim {
namespace {

std::string words(const StageWork& work) {
  static constexpr const char* kinds[] = {"forward", "backward", "input gradient",
                                          "weight gradient"};
  return fmt::format("{} of microbatch {}, chunk {}", kinds[static_cast<std::size_t>(work.kind)],
                     work.microbatch, work.chunk);
}

std::string words(const Turn& turn) {
  return turn.beside ? words(turn.work) + " beside " + words(*turn.beside) : words(turn.work);
}

// turns_ holds forward, input gradient and weight gradient of every stage of every microbatch.
constexpr int parts = 3;
int part_of(WorkKind kind) {
  return kind == WorkKind::forward ? 0 : kind == WorkKind::weight_gradient ? 2 : 1;
}

bool is_none(TurnAt at) { return at.turn < 0; }

}  // namespace

TurnAt Pipeline::turn_of(WorkKind kind, int microbatch, int stage) const {
  const int index = (microbatch * stages() + stage) * parts + part_of(kind);
  return turns_[static_cast<std::size_t>(index)];
}

void Pipeline::index_works() {
  if (std::ssize(timetables_) != ranks()) {
    throw std::logic_error(
        fmt::format("{} timetables of {} pipeline ranks", timetables_.size(), ranks()));
  }
  const int works = microbatches() * stages() * parts;
  turns_.assign(static_cast<std::size_t>(works), {});
  for (int rank = 0; rank < ranks(); ++rank) {
    for (int i = 0; i < static_cast<int>(of(rank).size()); ++i) {
      const TurnAt at{.rank = rank, .turn = i};
      const Turn& turn = this->at(at);
      index_work(turn.work, at);
      if (!turn.beside) continue;
      if (turn.work.kind != WorkKind::forward || turn.beside->kind != WorkKind::backward) {
        throw std::logic_error(fmt::format("rank {} merges {}", rank, words(turn)));
      }
      index_work(*turn.beside, at);
    }
  }
  const auto missing = std::find_if(turns_.begin(), turns_.end(), is_none);
  if (missing == turns_.end()) return;
  const int at = static_cast<int>(missing - turns_.begin());
  static constexpr const char* names[] = {"forward", "backward", "weight gradient"};
  throw std::logic_error(fmt::format("no {} of microbatch {} at stage {}", names[at % parts],
                                     at / parts / stages(), at / parts % stages()));
}

void Pipeline::index_work(const StageWork& work, TurnAt at) {
  const StagePlace here{.rank = at.rank, .chunk = work.chunk};
  const bool known = work.microbatch >= 0 && work.microbatch < microbatches() && work.chunk >= 0 &&
                     work.chunk < chunks();
  if (!known || place(work.microbatch, stage_of(here)) != here) {
    throw std::logic_error(fmt::format("rank {} has no {}", at.rank, words(work)));
  }
  const int first = (work.microbatch * stages() + stage_of(here)) * parts;
  const int part = part_of(work.kind);
  const int last = work.kind == WorkKind::backward ? part_of(WorkKind::weight_gradient) : part;
  for (int i = part; i <= last; ++i) {
    TurnAt& turn = turns_[static_cast<std::size_t>(first + i)];
    if (!is_none(turn)) {
      throw std::logic_error(fmt::format("rank {} runs {} twice", at.rank, words(work)));
    }
    turn = at;
  }
}

void Pipeline::find_order() {
  std::vector<int> done(timetables_.size(), 0);  // turns, [rank]
  const auto is_done = [&](TurnAt at) { return at.turn < done[static_cast<std::size_t>(at.rank)]; };
  std::size_t turns = 0;
  for (const Timetable& timetable : timetables_) turns += timetable.size();
  for (bool down = true; order_.size() < turns; down = !down) {
    const std::size_t before = order_.size();
    for (int i = 0; i < ranks(); ++i) {
      const int rank = down ? i : ranks() - 1 - i;
      int& next = done[static_cast<std::size_t>(rank)];
      const TurnAt at{.rank = rank, .turn = next};
      if (next == std::ssize(of(rank)) || !std::ranges::all_of(inputs(at), is_done)) continue;
      order_.push_back(at);
      ++next;
    }
    if (order_.size() == before) throw std::logic_error(stuck(done));
  }
}

/// One line per rank that has not ended.
std::string Pipeline::stuck(const std::vector<int>& done) const {
  std::string text = "the pipeline deadlocks:";
  for (int rank = 0; rank < ranks(); ++rank) {
    const TurnAt at{.rank = rank, .turn = done[static_cast<std::size_t>(rank)]};
    if (at.turn == std::ssize(of(rank))) continue;
    std::vector<std::string> missing;
    for (const TurnAt input : inputs(at)) {
      if (input.turn < done[static_cast<std::size_t>(input.rank)]) continue;
      missing.push_back(fmt::format("rank {}, turn {}", input.rank, input.turn));
    }
    text += fmt::format("\n  rank {}, turn {}: {} waits for {}", rank, at.turn, words(this->at(at)),
                        fmt::join(missing, " and "));
  }
  return text;
}

}  // namespace moesim
