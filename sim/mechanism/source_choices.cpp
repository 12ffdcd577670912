// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/source_choices.h"

#include <algorithm>

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
      counter_(split_ ? ids_ : static_cast<std::size_t>(tokens.assignment.placement().experts())),
      chosen_(ids_),
      all_chosen_(ids_) {}

void SourceChoices::enter(GpuId source) {
  source_ = source;
  held_ = 0;
  for (const TokenRun& run : tokens_.batch.ranks[source.index()]) held_ += run.count;
  find_items();
  if (split_) {
    walk_choices();
  } else if (items_.size() <= most_kept) {
    known_ = KnownChoices::find(tokens_.ids.data(), tokens_.batch.ranks[source.index()]);
  }
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

void SourceChoices::walk_choices() {
  const auto experts = static_cast<std::size_t>(tokens_.assignment.placement().experts());
  const auto dropped = static_cast<std::uint32_t>(ids_ - 1);
  const auto top_k = static_cast<std::size_t>(tokens_.ids.top_k());
  RankWalk walk(tokens_.assignment, source_);
  walked_.resize(static_cast<std::size_t>(held_) * top_k);
  std::uint32_t* to = walked_.data();
  const auto write = [&](const auto& next) {
    for (const TokenRun& run : tokens_.batch.ranks[source_.index()]) {
      with_ids(tokens_.ids, run.first, run.count, [&](auto ids) {
        std::uint32_t* out = to;
        for (const auto id : ids) {
          const bool kept = sizeof(id) == 1 || id < experts;
          *out++ = kept ? static_cast<std::uint32_t>(next(ExpertId(id)).value) : dropped;
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
void SourceChoices::for_each_run(const Use& use) const {
  if (split_) {
    const auto top_k = static_cast<std::size_t>(tokens_.ids.top_k());
    return use(std::span<const std::uint32_t>(walked_).subspan(
        static_cast<std::size_t>(first_) * top_k,
        static_cast<std::size_t>(last_ - first_) * top_k));
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
  count_selected();
}

void SourceChoices::count_selected() {
  if (known_ != nullptr && all_selected() && known_->chosen.size() == items_.size()) {
    std::ranges::copy(known_->chosen, chosen_.begin());
  } else {
    for (const Item& item : items_) chosen_[item.id] = 0;
    for_each_run([&](auto ids) { counter_.add(ids, chosen_); });
    counter_.finish(chosen_);
    if (known_ != nullptr && all_selected()) {
      const auto experts = static_cast<std::ptrdiff_t>(items_.size());
      known_->chosen.assign(chosen_.begin(), chosen_.begin() + experts);
    }
  }
  if (first_ != covered_) return;
  for (const Item& item : items_) all_chosen_[item.id] += chosen_[item.id];
  covered_ = last_;
}

std::span<const std::uint32_t> SourceChoices::choices() {
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

std::span<const std::uint32_t> SourceChoices::rows(StopClasses& classes) const {
  for (const auto& member : classes.only_) classes.rows_[member.of] = chosen_[member.id];
  if (classes.several_.empty()) return classes.rows_;
  const auto rows = rows_of_several(classes);
  for (std::size_t c = 0; c < rows.size(); ++c) classes.rows_[classes.several_[c]] = rows[c];
  return classes.rows_;
}

std::span<const std::uint32_t> SourceChoices::rows_of_several(StopClasses& classes) const {
  const bool keeps = known_ != nullptr && all_selected();
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
  if (covered_ < held_) select(covered_, held_);
  for (const Item& item : items_) slots[item.slot.index()] += all_chosen_[item.id];
}

}  // namespace moesim
