// SPDX-License-Identifier: Apache-2.0
// The rows of a layer in bulk, for mechanisms that move every choice by itself (evaluate.h).
//
// The route of a choice then depends on its source and its end alone. It is found once for each
// such pair, by the mechanism's own `next`, and all choices that share it are counted together.
// Where choices merge, the rows of a copy are the tokens with a choice on its route.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/policy/hops.h"
#include "sim/policy/source_choices.h"

namespace moesim {

/// Tokens of a rank from index `first` up to `last`, excluded.
struct TokenRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// The tokens that a first phase takes of the `count` of a rank.
template <class Mechanism>
TokenRange taken(const Mechanism& mechanism, int phase, std::int64_t count) {
  if constexpr (requires { mechanism.taken(phase, count); }) return mechanism.taken(phase, count);
  return {0, count};
}

/// The copies that a phase makes of one token that has all choices. Copies made of different ones
/// are different, even where they go the same way.
class RouteCopies {
 public:
  struct Copy {
    std::uint32_t of;  // the copy of the phase before
    GpuId from, to;
  };
  explicit RouteCopies(std::size_t gpus) : newest_(gpus, none) {}
  void clear();
  /// The number of the copy, which is made when it is new.
  std::uint32_t find(const Copy& copy);
  const std::vector<Copy>& all() const { return copies_; }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  std::vector<Copy> copies_;
  std::vector<std::uint32_t> newest_;  // [gpu] the newest copy that goes there
  std::vector<std::uint32_t> before_;  // [copy] the one before it that goes to the same GPU
};

template <class Mechanism>
class BulkCount {
 public:
  static constexpr bool by_slot = requires(const Mechanism& m, const int* local) {
    m.part(0, Choices{}, local);
  };

  BulkCount(const Mechanism& mechanism, const PhaseOrder& order, const LayerTokens& tokens,
            RowCounts& counts)
      : mechanism_(mechanism),
        order_(order),
        choices_(tokens, by_slot ? StopPer::slot : StopPer::gpu),
        counts_(counts),
        merged_(counts.phases.size(), Merged(counts.gpus())),
        routes_(counts.phases.size() + 1) {}

  /// Adds the rows of a source rank to every phase, its choices to the slots.
  void add(GpuId source) {
    choices_.enter(source);
    if (choices_.tokens() == 0) return;
    Route& start = routes_.back();
    for (const int phase : order_.first) {
      const TokenRange tokens = taken(mechanism_, phase, choices_.tokens());
      choices_.select(tokens.first, tokens.last);
      start.assign(choices_.stops().size(), {source, 0});
      if constexpr (by_slot) {
        for (std::size_t i = 0; i < start.size(); ++i) {
          if (!mechanism_.part(phase, only, &choices_.stops()[i].local)) start[i].at = nowhere;
        }
      }
      follow(phase, start, 0);
    }
    choices_.add_to_slots(counts_.slots);
  }

 private:
  static constexpr GpuId nowhere{-1};
  static constexpr Choices only = 1;
  /// Where a choice with a certain stop is, and on which copy.
  struct Place {
    GpuId at;
    std::uint32_t copy;
    bool operator==(const Place&) const = default;
  };
  using Route = std::vector<Place>;  // [stop]

  /// What was found for the last phase so many hops from the source: phases beside each other may
  /// share their routes.
  struct Merged {
    explicit Merged(std::size_t gpus) : copies(gpus) {}
    Route from, to;
    std::vector<std::uint32_t> copy_of;  // [stop]
    RouteCopies copies;
  };

  /// Where the only choice of a row goes.
  struct OnlyHop {
    GpuId to = nowhere;
    void add(GpuId gpu, Choices) { to = gpu; }
    void merge(GpuId gpu, Choices) { to = gpu; }
  };

  void follow(int phase, const Route& from, std::size_t hops) {
    const auto stops = choices_.stops();
    Route& route = routes_[static_cast<std::size_t>(phase)];
    route.assign(stops.size(), {nowhere, 0});
    for (std::size_t i = 0; i < stops.size(); ++i) {
      if (from[i].at == nowhere) continue;
      OnlyHop hop;
      mechanism_.next(phase, from[i].at, only, &stops[i].gpu, hop);
      route[i].at = hop.to;
    }
    if (mechanism_.merges()) {
      count_merged(phase, from, merged_[hops], route);
    } else {
      count_choices(phase, from, route);
    }
    for (const int later : order_.continued_by[static_cast<std::size_t>(phase)]) {
      follow(later, route, hops + 1);
    }
  }

  void count_choices(int phase, const Route& from, const Route& to) {
    const auto choices = choices_.choices();
    for (std::size_t i = 0; i < to.size(); ++i) {
      if (to[i].at != nowhere) rows(phase, from[i].at, to[i].at) += choices[i];
    }
  }

  void count_merged(int phase, const Route& from, Merged& merged, Route& to) {
    if (merged.from != from || merged.to != to) merge(from, to, merged);
    const auto counted = choices_.rows(merged.copy_of, merged.copies.all().size());
    for (std::size_t c = 0; c < counted.size(); ++c) {
      const auto& copy = merged.copies.all()[c];
      rows(phase, copy.from, copy.to) += counted[c];
    }
    for (std::size_t i = 0; i < to.size(); ++i) to[i].copy = merged.copy_of[i];
  }

  void merge(const Route& from, const Route& to, Merged& merged) {
    merged.from = from;
    merged.to = to;
    merged.copies.clear();
    merged.copy_of.assign(to.size(), SourceChoices::no_class);
    for (std::size_t i = 0; i < to.size(); ++i) {
      if (to[i].at == nowhere) continue;
      merged.copy_of[i] = merged.copies.find({from[i].copy, from[i].at, to[i].at});
    }
  }

  std::uint32_t& rows(int phase, GpuId from, GpuId to) {
    return counts_.phases[static_cast<std::size_t>(phase)].row(from.index())[to.index()];
  }

  const Mechanism& mechanism_;
  const PhaseOrder& order_;
  SourceChoices choices_;
  RowCounts& counts_;
  std::vector<Merged> merged_;  // [hops from the source]
  std::vector<Route> routes_;   // [phase], and before the first
};

}  // namespace moesim
