// SPDX-License-Identifier: Apache-2.0
// The choices of one source rank after the other, counted by where they end instead of followed one
// by one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/mechanism/dispatch.h"
#include "sim/mechanism/known_choices.h"
#include "sim/trace/id_counts.h"

namespace moesim {

/// Where a choice ends: a GPU, and if it matters which of the GPU's slots.
struct Stop {
  GpuId gpu;
  int local = 0;  // the slot's place on its GPU, with StopPer::slot
};

/// What makes a stop: all slots of a GPU, or every slot by itself.
enum class StopPer { gpu, slot };

/// Stops that belong together, for one rank: rows are counted by class. May be used again.
class StopClasses {
 public:
  /// Ids are below `ids`.
  explicit StopClasses(std::size_t ids) : touched_(ids) {}

 private:
  friend class SourceChoices;
  // Classes of one id: who chooses it is a row.
  std::vector<TouchCounter::Member> only_;
  // Classes of several ids, numbered by themselves.
  std::vector<std::uint32_t> several_;  // their classes
  std::vector<TouchCounter::Member> members_;
  TouchCounter touched_;
  std::vector<std::uint32_t> ids_;   // [class] how many, then its number in several_
  std::vector<std::uint32_t> rows_;  // [class]
};

/// Counts the choices and the rows of one rank by the stops of the choices. Ids stand for experts;
/// if the assignment is split they stand for slots. The slots of all choices follow from how often
/// each expert is chosen; if others are asked for, or rows, the rank's choices are walked once and
/// written down as slots.
class SourceChoices {
 public:
  /// `tokens` must outlive it.
  SourceChoices(const LayerTokens& tokens, StopPer per);

  /// Ids are below this.
  std::size_t ids() const { return ids_; }
  /// Goes to a rank.
  void enter(GpuId source);
  std::int64_t tokens() const { return held_; }
  /// The stops that choices of the rank may have.
  std::span<const Stop> stops() const { return stops_; }

  /// What is counted from here on: the rank's tokens from index `first` up to `last`, excluded.
  void select(std::int64_t first, std::int64_t last);
  /// Choices of the selected tokens: [stop].
  std::span<const std::uint32_t> choices();
  /// Says which stops of the rank are of which class: class_of[stop] is below `count`, and every
  /// class has a stop, or it is no_class.
  void classify(std::span<const std::uint32_t> class_of, std::size_t count, StopClasses& classes);
  StopClasses no_classes() const { return StopClasses(ids_); }
  /// Selected tokens with a choice in each class of stops of the rank: [class].
  std::span<const std::uint32_t> rows(StopClasses& classes);
  static constexpr std::uint32_t no_class = ~std::uint32_t{0};

  /// Adds the choices of all tokens of the rank to slots[slot].
  void add_to_slots(std::vector<std::int64_t>& slots);

 private:
  /// An id that choices of the rank may have, and where it ends.
  struct Item {
    std::uint32_t id;
    std::uint32_t stop;
    SlotId slot;
  };
  void find_items();
  void add_item(std::uint32_t id, SlotId slot);
  void walk_choices();
  template <class Slot>
  void write_slots(std::vector<Slot>& slots);
  template <class Use>
  void with_slots(const Use& use);
  void count_selected();
  void count_all();
  std::span<const std::uint32_t> chosen_experts();
  std::span<const std::uint32_t> rows_of_several(StopClasses& classes);
  bool all_selected() const { return first_ == 0 && last_ == held_; }
  template <class Use>
  void for_each_run(const Use& use);

  const LayerTokens& tokens_;
  StopPer per_;
  bool split_;
  std::size_t ids_;  // that there may be
  GpuId source_{-1};
  KnownChoices::OfRank* known_ = nullptr;  // of the rank
  std::int64_t held_ = 0;                  // tokens of the rank
  std::int64_t first_ = 0, last_ = 0;      // selected
  std::int64_t covered_ = 0;               // tokens that all_chosen_ counts, from the first on
  // [token][k] slots if the assignment is split; one of both, as wide as they need.
  bool walked_ = false;
  std::vector<std::uint16_t> slots_;
  std::vector<std::uint32_t> wide_slots_;
  GpuId items_of_{-1};  // the rank whose they are
  std::vector<Item> items_;
  std::vector<Stop> stops_;
  std::vector<std::uint32_t> stop_of_;  // [gpu or slot] its stop, or no_class
  IdCounter expert_counter_, slot_counter_;
  bool counted_ = false;                       // whether the next ones are of the selected tokens
  std::vector<std::uint32_t> chosen_;          // [id] by the selected tokens
  std::vector<std::uint32_t> all_chosen_;      // [id] by the covered tokens
  std::vector<std::uint32_t> chosen_experts_;  // [expert] by all tokens, unless they are known
  std::vector<std::int64_t> served_;           // [slot] choices of all tokens
  std::vector<std::uint32_t> choices_;         // [stop]
};

}  // namespace moesim
