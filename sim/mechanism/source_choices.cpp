// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/source_choices.h"

#include <algorithm>
#include <utility>

#include "sim/plan/rank_walk.h"

namespace moesim {
namespace {

constexpr std::size_t most_kept = 1024;  // experts: some 20 KB of a rank

/// Ids that choices may have: of experts with the mark of dropped ones, or of slots and one such
/// mark.
std::size_t possible_ids(const LayerTokens& tokens) {
  if (!tokens.assignment.split()) return tokens.ids.width() == 1 ? 256 : 65536;
  return static_cast<std::size_t>(tokens.assignment.placement().slots()) + 1;
}

std::size_t possible_stops(const LayerTokens& tokens, StopPer per) {
  const Placement& placement = tokens.assignment.placement();
  return static_cast<std::size_t>(per == StopPer::gpu ? placement.gpus() : placement.slots());
}

}  // namespace

SourceChoices::SourceChoices(const LayerTokens& tokens, StopPer per)
    : tokens_(tokens),
      per_(per),
      split_(tokens.assignment.split()),
      ids_(possible_ids(tokens)),
      stop_of_(possible_stops(tokens, per), no_class),
      expert_counter_(static_cast<std::size_t>(tokens.assignment.placement().experts())),
      slot_counter_(ids_),
      chosen_(ids_),
      all_chosen_(ids_) {}

void SourceChoices::enter(GpuId source) {
  source_ = source;
  const std::vector<TokenRun>& runs = tokens_.batch.ranks[source.index()];
  held_ = tokens_of(runs);
  find_items();
  walked_ = counted_ = false;
  const bool keeps =
      static_cast<std::size_t>(tokens_.assignment.placement().experts()) <= most_kept;
  known_ = keeps ? KnownChoices::find(tokens_.ids.data(), runs) : nullptr;
  for (const Item& item : items_) all_chosen_[item.id] = 0;
  covered_ = 0;
  first_ = last_ = -1;
}

void SourceChoices::find_items() {
  const Assignment& assignment = tokens_.assignment;
  const int experts = assignment.placement().experts();
  if (!split_ && items_of_.value >= 0 && assignment.alike(items_of_, source_)) return;
  items_of_ = source_;
  for (const Item& item : items_) {
    chosen_[item.id] = 0;
    stop_of_[per_ == StopPer::gpu ? stops_[item.stop].gpu.index() : item.slot.index()] = no_class;
  }
  items_.clear();
  stops_.clear();
  for (int e = 0; e < experts; ++e) {
    if (!split_) {
      add_item(static_cast<std::uint32_t>(e), assignment.slot(source_, ExpertId(e)));
      continue;
    }
    const std::size_t of_expert = items_.size();
    for (const Share& share : assignment.shares(source_, ExpertId(e))) {
      const bool known =
          std::any_of(items_.begin() + static_cast<std::ptrdiff_t>(of_expert), items_.end(),
                      [&](const Item& i) { return i.slot == share.slot; });
      if (!known) add_item(static_cast<std::uint32_t>(share.slot.value), share.slot);
    }
  }
}

void SourceChoices::add_item(std::uint32_t id, SlotId slot) {
  const Placement& placement = tokens_.assignment.placement();
  const GpuId gpu = placement.gpu_of(slot);
  std::uint32_t& stop = stop_of_[per_ == StopPer::gpu ? gpu.index() : slot.index()];
  if (stop == no_class) {
    stop = static_cast<std::uint32_t>(stops_.size());
    stops_.push_back({gpu, static_cast<int>(slot.value - placement.first_slot(gpu).value)});
  }
  items_.push_back({id, stop, slot});
}

/// Calls use(slots) with slots as wide as the assignment needs.
template <class Use>
void SourceChoices::with_slots(const Use& use) {
  ids_ <= std::size_t{1} << 16 ? use(slots_) : use(wide_slots_);
}

void SourceChoices::walk_choices() {
  if (!walked_) with_slots([&](auto& slots) { write_slots(slots); });
  walked_ = true;
}

template <class Slot>
void SourceChoices::write_slots(std::vector<Slot>& slots) {
  const auto experts = static_cast<std::size_t>(tokens_.assignment.placement().experts());
  const auto dropped = static_cast<Slot>(ids_ - 1);
  RankWalk walk(tokens_.assignment, source_);
  slots.resize(static_cast<std::size_t>(held_) * static_cast<std::size_t>(tokens_.ids.top_k()));
  Slot* to = slots.data();
  const auto write = [&](const auto& next) {
    for (const TokenRun& run : tokens_.batch.ranks[source_.index()]) {
      with_ids(tokens_.ids, run.first, run.count, [&](auto ids) {
        Slot* out = to;
#pragma GCC unroll 8
        for (const auto id : ids) {
          const bool kept = sizeof(id) == 1 || id < experts;
          *out++ = kept ? static_cast<Slot>(next(ExpertId(id)).value) : dropped;
        }
        to = out;
      });
    }
  };
  if (walk.singly()) {
    write([&](ExpertId expert) { return walk.next<true>(expert); });
  } else {
    write([&](ExpertId expert) { return walk.next(expert); });
  }
}

/// Calls use(ids) for the ids of the selected tokens, run by run.
template <class Use>
void SourceChoices::for_each_run(const Use& use) {
  if (split_) {
    walk_choices();
    const auto top_k = static_cast<std::size_t>(tokens_.ids.top_k());
    return with_slots([&](const auto& slots) {
      use(std::span(slots).subspan(static_cast<std::size_t>(first_) * top_k,
                                   static_cast<std::size_t>(last_ - first_) * top_k));
    });
  }
  std::int64_t before = 0;
  for (const TokenRun& run : tokens_.batch.ranks[source_.index()]) {
    const std::int64_t from = std::max(first_ - before, std::int64_t{0});
    const std::int64_t to = std::min(last_ - before, run.count);
    before += run.count;
    if (from < to) with_ids(tokens_.ids, run.first + from, to - from, use);
  }
}

void SourceChoices::select(std::int64_t first, std::int64_t last) {
  if (first == first_ && last == last_) return;
  first_ = first;
  last_ = last;
  counted_ = false;
}

void SourceChoices::count_selected() {
  if (std::exchange(counted_, true)) return;
  for (const Item& item : items_) chosen_[item.id] = 0;
  if (all_selected()) {
    count_all();
  } else {
    IdCounter& counter = split_ ? slot_counter_ : expert_counter_;
    for_each_run([&](auto ids) { counter.add(ids, chosen_); });
    counter.finish(chosen_);
  }
  if (first_ != covered_) return;
  for (const Item& item : items_) all_chosen_[item.id] += chosen_[item.id];
  covered_ = last_;
}

void SourceChoices::count_all() {
  const auto experts = chosen_experts();
  if (!split_) {
    std::ranges::copy(experts, chosen_.begin());
    return;
  }
  served_.assign(ids_, 0);
  for (std::size_t e = 0; e < experts.size(); ++e) {
    const ExpertId expert(static_cast<std::int64_t>(e));
    if (experts[e] > 0) add_choices(tokens_.assignment, source_, expert, experts[e], served_);
  }
  for (const Item& item : items_) {
    chosen_[item.id] = static_cast<std::uint32_t>(served_[item.id]);
  }
}

/// [expert] choices of all the rank's tokens.
std::span<const std::uint32_t> SourceChoices::chosen_experts() {
  const auto experts = static_cast<std::size_t>(tokens_.assignment.placement().experts());
  std::vector<std::uint32_t>& chosen = known_ != nullptr ? known_->chosen : chosen_experts_;
  if (known_ != nullptr && chosen.size() == experts) return chosen;
  chosen.assign(experts, 0);
  for (const TokenRun& run : tokens_.batch.ranks[source_.index()]) {
    expert_counter_.add(tokens_.ids, run.first, run.count, chosen);
  }
  expert_counter_.finish(chosen);
  return chosen;
}

std::span<const std::uint32_t> SourceChoices::choices() {
  count_selected();
  choices_.assign(stops_.size(), 0);
  for (const Item& item : items_) choices_[item.stop] += chosen_[item.id];
  return choices_;
}

void SourceChoices::classify(std::span<const std::uint32_t> class_of, std::size_t count,
                             StopClasses& classes) {
  std::vector<std::uint32_t>& ids = classes.ids_;
  ids.assign(count, 0);
  for (const Item& item : items_) {
    if (class_of[item.stop] != no_class) ++ids[class_of[item.stop]];
  }
  classes.several_.clear();
  for (std::uint32_t c = 0; c < count; ++c) {
    if (ids[c] > 1) {
      ids[c] = static_cast<std::uint32_t>(classes.several_.size());
      classes.several_.push_back(c);
    } else {
      ids[c] = no_class;
    }
  }
  classes.only_.clear();
  classes.members_.clear();
  for (const Item& item : items_) {
    const std::uint32_t c = class_of[item.stop];
    if (c == no_class) continue;
    if (ids[c] == no_class) {
      classes.only_.push_back({item.id, c});
    } else {
      classes.members_.push_back({item.id, ids[c]});
    }
  }
  classes.rows_.assign(count, 0);
  if (!classes.several_.empty()) classes.touched_.start(classes.members_, classes.several_.size());
}

std::span<const std::uint32_t> SourceChoices::rows(StopClasses& classes) {
  if (!classes.only_.empty()) count_selected();
  for (const auto& member : classes.only_) classes.rows_[member.of] = chosen_[member.id];
  if (classes.several_.empty()) return classes.rows_;
  const auto rows = rows_of_several(classes);
  for (std::size_t c = 0; c < rows.size(); ++c) classes.rows_[classes.several_[c]] = rows[c];
  return classes.rows_;
}

std::span<const std::uint32_t> SourceChoices::rows_of_several(StopClasses& classes) {
  const bool keeps = known_ != nullptr && !split_ && all_selected();
  if (keeps) {
    const auto same =
        std::ranges::find(known_->touching, classes.members_, &KnownChoices::Rows::members);
    if (same != known_->touching.end()) return same->rows;
  }
  classes.touched_.restart();
  for_each_run([&](auto ids) { classes.touched_.add(ids, tokens_.ids.top_k()); });
  const auto rows = classes.touched_.finish();
  if (keeps) known_->touching.push_back({classes.members_, {rows.begin(), rows.end()}});
  return rows;
}

void SourceChoices::add_to_slots(std::vector<std::int64_t>& slots) {
  if (covered_ < held_) {
    select(covered_, held_);
    count_selected();
  }
  for (const Item& item : items_) slots[item.slot.index()] += all_chosen_[item.id];
}

}  // namespace moesim
