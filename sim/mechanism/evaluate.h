// SPDX-License-Identifier: Apache-2.0
// The two evaluations of a dispatch, both from its one `next`: row counts in bulk, explicit rows.
//
// A mechanism works on the ranks of one EP group. It is a pure function from (token, current
// holder, targets) to the next holders of each phase:
//
//   template <class Hops>
//   void next(int phase, GpuId holder, Choices choices, const GpuId* target, Hops& hops) const;
//
// target[k] is the rank that serves choice k; a hop to the holder itself is a local copy. It calls
// hops.add(to, choices) for a copy of its own, or hops.merge(to, choices) for one copy per rank.
//
//   DispatchShape shape(const MoeModel& model) const;  // everything else about it
//
// Optional:
//
//   static constexpr std::size_t max_hops;            // of one row, when it may exceed top-k
//   TokenRange taken(int phase, std::int64_t count) const;  // of a rank's tokens, what a first
//                                       // phase takes; every token is taken by some
//   Choices part(int phase, Choices, const int* local) const;  // of its choices, what one takes;
//                                       // local[k]: where choice k's slot is on its rank
//   int hop(int phase) const;  // phases of one number forward alike, so next() treats them as one
//   bool merges() const;  // True: `next` merges; false: it adds. Each choice moves whatever its
//                         // row's others do. Layers are then counted by routes (bulk_count.h),
//                         // many times as fast as row by row.
#pragma once

#include <array>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "sim/mechanism/bulk_count.h"

namespace moesim {

template <class Mechanism>
constexpr std::size_t max_hops_of() {
  if constexpr (requires { Mechanism::max_hops; }) {
    return Mechanism::max_hops;
  } else {
    return max_top_k;
  }
}

/// A token: its source rank and where it is among the tokens of that rank.
struct TokenPlace {
  GpuId source;
  TokenId token;  // within the batch
  std::int64_t index = 0;
  std::int64_t count = 0;  // tokens of the rank
};

/// Calls visit(place, ids of the token) for every token, rank by rank.
template <class IdType, class Visit>
void for_each_token(const LayerTokens& tokens, Visit visit) {
  const auto* ids = static_cast<const IdType*>(tokens.ids.data());
  const int top_k = tokens.ids.top_k();
  TokenPlace place;
  for (std::size_t rank = 0; rank < tokens.batch.ranks.size(); ++rank) {
    place.source = GpuId(static_cast<std::int64_t>(rank));
    place.index = 0;
    place.count = tokens_of(tokens.batch.ranks[rank]);
    for (const TokenRun& run : tokens.batch.ranks[rank]) {
      for (std::int64_t t = run.first; t < run.first + run.count; ++t) {
        visit(place, ids + t * top_k);
        ++place.token.value;
        ++place.index;
      }
    }
  }
}

/// Whether an id stands for a choice that the routing dropped.
template <class IdType>
bool is_dropped(IdType id) {
  return sizeof(IdType) == 2 && id == IdRows::dropped;
}

/// A mechanism on the ranks of an EP group.
template <class Mechanism>
class Evaluated final : public RowEvaluation {
 public:
  /// One of `groups`, those of all EP groups.
  Evaluated(Mechanism mechanism, const DispatchShape& shape, std::size_t groups = 1)
      : mechanism_(std::move(mechanism)), order_(shape), groups_(groups) {}

  RowCounts count(const LayerTokens& tokens) const override {
    const Placement& placement = tokens.assignment.placement();
    RowCounts counts;
    counts.gpu_count = placement.gpus();
    // Each made by itself: copies would share cells until they are changed, then copy them.
    for (std::size_t p = 0; p < order_.continued_by.size(); ++p) {
      counts.phases.emplace_back(counts.gpus());
    }
    counts.slots.assign(static_cast<std::size_t>(placement.slots()), 0);
    if constexpr (by_routes) {
      BulkCount<Mechanism> bulk(mechanism_, order_, tokens, counts, routes_, groups_);
      for (int g = 0; g < counts.gpu_count; ++g) bulk.add(GpuId(g));
    } else {
      tokens.ids.width() == 1 ? walk_rows<std::uint8_t>(tokens, counts)
                              : walk_rows<std::uint16_t>(tokens, counts);
    }
    return counts;
  }
  std::vector<std::vector<RowMove>> rows(const LayerTokens& tokens) const override {
    return tokens.ids.width() == 1 ? list_rows<std::uint8_t>(tokens)
                                   : list_rows<std::uint16_t>(tokens);
  }

 private:
  using Hops = HopList<max_hops_of<Mechanism>()>;

  static constexpr bool by_slot = BulkCount<Mechanism>::by_slot;
  static constexpr bool by_routes = requires(const Mechanism& m) { m.merges(); };
  /// Calls visit(phase, choices) for every first phase that a token goes through.
  template <class Visit>
  void for_each_first(const TokenPlace& place, Choices all, const int* local, Visit visit) const {
    for (const int phase : order_.first) {
      const TokenRange part = taken(mechanism_, phase, place.count);
      if (place.index < part.first || place.index >= part.last) continue;
      if constexpr (by_slot) {
        if (const Choices some = mechanism_.part(phase, all, local)) visit(phase, some);
      } else {
        visit(phase, all);
      }
    }
  }
  const std::vector<int>& continued_by(int phase) const {
    return order_.continued_by[static_cast<std::size_t>(phase)];
  }

  /// Calls visit(place, all its choices, target GPUs, places of the slots on them).
  template <class IdType, class Visit>
  void for_each_row(const LayerTokens& tokens, Visit visit) const {
    const int top_k = tokens.ids.top_k();
    const Choices all = top_k == max_top_k ? ~Choices{0} : (Choices{1} << top_k) - 1;
    const Placement& placement = tokens.assignment.placement();
    const bool split = tokens.assignment.split();
    AssignmentWalk walk(tokens.assignment);
    std::array<GpuId, max_top_k> target;
    std::array<int, max_top_k> local;
    for_each_token<IdType>(tokens, [&](const TokenPlace& place, const IdType* ids) {
      const GpuId* gpu_of = tokens.assignment.gpus(place.source);
      Choices choices = all;
      for (int k = 0; k < top_k; ++k) {
        if (is_dropped(ids[k])) {
          choices &= ~(Choices{1} << k);
          continue;
        }
        const auto choice = static_cast<std::size_t>(k);
        if constexpr (by_slot) {
          const SlotId slot = walk.next(place.source, ExpertId(ids[k]));
          target[choice] = placement.gpu_of(slot);
          local[choice] = static_cast<int>(slot.value - placement.first_slot(target[choice]).value);
        } else {
          target[choice] =
              split ? placement.gpu_of(walk.next(place.source, ExpertId(ids[k]))) : gpu_of[ids[k]];
        }
      }
      visit(place, choices, target.data(), local.data());
    });
  }

  template <class IdType>
  void walk_rows(const LayerTokens& tokens, RowCounts& counts) const {
    HopCounter counter(counts.gpus());
    for_each_row<IdType>(
        tokens, [&](const TokenPlace& place, Choices all, const GpuId* target, const int* local) {
          for_each_first(place, all, local, [&](int phase, Choices choices) {
            count_phases(phase, place.source, choices, target, counts, counter);
          });
        });
    SourceChoices choices(tokens, StopPer::gpu);
    for (int g = 0; g < counts.gpu_count; ++g) {
      choices.enter(GpuId(g));
      choices.add_to_slots(counts.slots);
    }
  }

  void count_phases(int phase, GpuId holder, Choices choices, const GpuId* target,
                    RowCounts& counts, HopCounter& counter) const {
    RowTable& rows = counts.phases[static_cast<std::size_t>(phase)];
    std::uint32_t* row = rows.cells().data() + holder.index() * counts.gpus();
    if (continued_by(phase).empty()) {
      counter.start(row);
      mechanism_.next(phase, holder, choices, target, counter);
      return;
    }
    Hops hops;
    mechanism_.next(phase, holder, choices, target, hops);
    for (const Hop& hop : hops) {
      ++row[hop.to.index()];
      for (const int later : continued_by(phase)) {
        count_phases(later, hop.to, hop.choices, target, counts, counter);
      }
    }
  }

  template <class IdType>
  std::vector<std::vector<RowMove>> list_rows(const LayerTokens& tokens) const {
    std::vector<std::vector<RowMove>> rows(order_.continued_by.size());
    for_each_row<IdType>(
        tokens, [&](const TokenPlace& place, Choices all, const GpuId* target, const int* local) {
          for_each_first(place, all, local, [&](int phase, Choices choices) {
            follow(phase, place.token, place.source, choices, target, rows);
          });
        });
    return rows;
  }

  /// Runs a row through a phase and the phases that continue it.
  void follow(int phase, TokenId token, GpuId holder, Choices choices, const GpuId* target,
              std::vector<std::vector<RowMove>>& rows) const {
    Hops hops;
    mechanism_.next(phase, holder, choices, target, hops);
    for (const Hop& hop : hops) {
      rows[static_cast<std::size_t>(phase)].push_back({holder, hop.to, token, hop.choices});
      for (const int later : continued_by(phase)) {
        follow(later, token, hop.to, hop.choices, target, rows);
      }
    }
  }

  Mechanism mechanism_;
  PhaseOrder order_;
  std::size_t groups_;
  mutable KeptRoutes routes_;  // found by count()
};

/// The dispatch over a cluster in which every EP group has the mechanism that make(ranks) gives it.
template <class Make>
std::unique_ptr<Dispatch> in_every_group(const DispatchContext& context, const Make& make) {
  using Mechanism = std::invoke_result_t<Make, const RankSpace&>;
  std::vector<DispatchShape> shapes;
  std::vector<RowEvaluationPtr> evaluations;
  for (const RankSpace& ranks : context.groups.spaces()) {
    Mechanism mechanism = make(ranks);
    shapes.push_back(mechanism.shape(context.model));
    evaluations.push_back(std::make_shared<Evaluated<Mechanism>>(
        std::move(mechanism), shapes.back(), context.groups.spaces().size()));
  }
  return std::make_unique<Dispatch>(context.groups, shapes, std::move(evaluations));
}

}  // namespace moesim
