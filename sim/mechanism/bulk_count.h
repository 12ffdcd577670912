// SPDX-License-Identifier: Apache-2.0
// The rows of a layer in bulk, for mechanisms that move every choice by itself (evaluate.h). The
// route of a choice then depends only on its source and its destination. The mechanism's own `next`
// finds it once for each such pair, and all choices of a route are counted together. If choices
// merge, a copy has one row for each token with a choice on its route.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/mechanism/dispatch.h"
#include "sim/mechanism/source_choices.h"

namespace moesim {

/// Calls visit(k) for every choice of a row, ascending.
template <class Visit>
void for_each_choice(Choices choices, Visit visit) {
  for (; choices != 0; choices &= choices - 1) visit(std::countr_zero(choices));
}

/// A copy of a token on its way: the choices it carries and the GPU it goes to next.
struct Hop {
  GpuId to;
  Choices choices = 0;
};

/// Collects the hops of one row in one phase.
template <std::size_t capacity>
class HopList {
 public:
  void add(GpuId to, Choices choices) { hops_[size_++] = {to, choices}; }
  void merge(GpuId to, Choices choices) {
    for (std::size_t i = 0; i < size_; ++i) {
      if (hops_[i].to == to) {
        hops_[i].choices |= choices;
        return;
      }
    }
    add(to, choices);
  }
  const Hop* begin() const { return hops_.data(); }
  const Hop* end() const { return hops_.data() + size_; }

 private:
  std::array<Hop, capacity> hops_;
  std::size_t size_ = 0;
};

/// Counts the hops of a phase that no other continues: nobody asks which choices a row carries.
class HopCounter {
 public:
  explicit HopCounter(std::size_t gpus) : seen_(gpus, 0) {}
  /// A new row, whose counts go to one row of the table.
  void start(std::uint32_t* counts) {
    counts_ = counts;
    ++row_;
  }
  void add(GpuId to, Choices) { ++counts_[to.index()]; }
  void merge(GpuId to, Choices) {
    counts_[to.index()] += seen_[to.index()] != row_ ? 1 : 0;
    seen_[to.index()] = row_;
  }

 private:
  std::uint32_t* counts_ = nullptr;
  std::uint64_t row_ = 0;
  std::vector<std::uint64_t> seen_;  // per GPU the newest row that went there
};

/// Tokens of a rank from index `first` up to `last`, which is not included.
struct TokenRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// Which of a rank's `count` tokens a first phase takes.
template <class Mechanism>
TokenRange taken(const Mechanism& mechanism, int phase, std::int64_t count) {
  if constexpr (requires { mechanism.taken(phase, count); }) return mechanism.taken(phase, count);
  return {0, count};
}

/// The copies that a phase makes of a token, if the token has every choice there is. Copies that
/// are made of different copies are different, even if they go to the same GPU.
class RouteCopies {
 public:
  struct Copy {
    std::uint32_t of;  // the copy of the phase before
    GpuId from, to;
  };
  explicit RouteCopies(std::size_t gpus) : newest_(gpus, none) {}
  void clear();
  /// The number of the copy. A new copy is added.
  std::uint32_t find(const Copy& copy);
  const std::vector<Copy>& all() const { return copies_; }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  std::vector<Copy> copies_;
  std::vector<std::uint32_t> newest_;  // [gpu] the newest copy that goes there
  std::vector<std::uint32_t> before_;  // [copy] the one before it that goes to the same GPU
};

/// The GPU where a choice is at some stop, and the copy that carries it there.
struct RoutePlace {
  GpuId at;
  std::uint32_t copy;
};
using Route = std::vector<RoutePlace>;  // [stop]

/// The routes that were found last at this number of hops from the source. They are kept because
/// phases at the same number of hops may share them.
struct HopRoute {
  explicit HopRoute(StopClasses none) : classes(std::move(none)) {}
  int hop = -1;              // its number
  std::uint64_t after = 0;   // the number of the route that it continues from
  std::uint64_t number = 0;  // its own
  Route from, to;
  // Where choices merge.
  std::vector<RouteCopies::Copy> copies;
  StopClasses classes;
};

/// The routes of one source rank.
struct SourceRoutes {
  Route start;
  std::uint64_t number = 0;    // of the start
  std::vector<HopRoute> hops;  // [hops from the source]
};

/// Keeps the routes of all ranks from one layer to the next, because they follow from who serves
/// whom: layers whose experts are alike have the same. Keeps nothing of large groups, nor of the
/// first of such layers.
class KeptRoutes {
 public:
  /// For a layer that comes with `ids` different ids; false: its routes are not kept.
  bool begin(const Assignment& assignment, std::size_t ids, std::size_t groups);
  SourceRoutes& of(GpuId source) { return of_[source.index()]; }
  std::uint64_t& found() { return found_; }

 private:
  std::optional<Assignment> of_layer_;
  std::size_t ids_ = 0;
  std::uint64_t found_ = 0;  // routes so far
  std::vector<SourceRoutes> of_;
};

template <class Mechanism>
class BulkCount {
 public:
  static constexpr bool by_slot = requires(const Mechanism& m, const int* local) {
    m.part(0, Choices{}, local);
  };

  /// `kept`: of the layers before, of so many EP groups.
  BulkCount(const Mechanism& mechanism, const PhaseOrder& order, const LayerTokens& tokens,
            RowCounts& counts, KeptRoutes& kept, std::size_t groups)
      : mechanism_(mechanism),
        order_(order),
        choices_(tokens, by_slot ? StopPer::slot : StopPer::gpu),
        counts_(counts),
        kept_(kept),
        keeps_(!by_slot && kept.begin(tokens.assignment, choices_.ids(), groups)),
        copies_(counts.gpus()) {}

  /// Adds the rows of a source rank to every phase, and its choices to the slots.
  void add(GpuId source) {
    choices_.enter(source);
    if (choices_.tokens() == 0) return;
    SourceRoutes& routes = keeps_ ? kept_.of(source) : routes_;
    if (!keeps_ || routes.hops.empty()) {
      routes.start.assign(choices_.stops().size(), {source, 0});
      routes.number = ++kept_.found();
    }
    if (routes.hops.empty()) {
      routes.hops.assign(order_.most_hops(), HopRoute(choices_.no_classes()));
    }
    for (const int phase : order_.first) {
      const TokenRange tokens = taken(mechanism_, phase, choices_.tokens());
      choices_.select(tokens.first, tokens.last);
      if constexpr (by_slot) {
        for (std::size_t i = 0; i < routes.start.size(); ++i) {
          const bool takes = mechanism_.part(phase, only, &choices_.stops()[i].local) != 0;
          routes.start[i].at = takes ? source : nowhere;
        }
        routes.number = ++kept_.found();
      }
      follow(phase, routes.start, routes.number, routes.hops);
    }
    choices_.add_to_slots(counts_.slots);
  }

 private:
  static constexpr GpuId nowhere{-1};
  static constexpr Choices only = 1;
  /// Where the only choice of a row goes.
  struct OnlyHop {
    GpuId to = nowhere;
    void add(GpuId gpu, Choices) { to = gpu; }
    void merge(GpuId gpu, Choices) { to = gpu; }
  };

  /// Phases with the same number forward rows in the same way.
  int hop_of(int phase) const {
    if constexpr (requires { mechanism_.hop(phase); }) {
      return mechanism_.hop(phase);
    } else {
      return phase;
    }
  }

  /// `hops`: the routes from here on.
  void follow(int phase, const Route& from, std::uint64_t after, std::span<HopRoute> hops) {
    HopRoute& route = hops.front();
    if (route.hop != hop_of(phase) || route.after != after) find(phase, from, after, route);
    mechanism_.merges() ? count_merged(phase, route) : count_choices(phase, route);
    for (const int later : order_.continued_by[static_cast<std::size_t>(phase)]) {
      follow(later, route.to, route.number, hops.subspan(1));
    }
  }

  void find(int phase, const Route& from, std::uint64_t after, HopRoute& route) {
    const auto stops = choices_.stops();
    route.hop = hop_of(phase);
    route.after = after;
    route.number = ++kept_.found();
    route.from = from;
    route.to.assign(stops.size(), {nowhere, 0});
    for (std::size_t i = 0; i < stops.size(); ++i) {
      if (from[i].at == nowhere) continue;
      OnlyHop hop;
      mechanism_.next(phase, from[i].at, only, &stops[i].gpu, hop);
      route.to[i].at = hop.to;
    }
    if (mechanism_.merges()) merge(route);
  }

  void merge(HopRoute& route) {
    copies_.clear();
    copy_of_.assign(route.to.size(), SourceChoices::no_class);
    for (std::size_t i = 0; i < route.to.size(); ++i) {
      if (route.to[i].at == nowhere) continue;
      const RoutePlace& from = route.from[i];
      route.to[i].copy = copy_of_[i] = copies_.find({from.copy, from.at, route.to[i].at});
    }
    route.copies = copies_.all();
    choices_.classify(copy_of_, route.copies.size(), route.classes);
  }

  void count_choices(int phase, const HopRoute& route) {
    const auto choices = choices_.choices();
    const auto cells = counts_.phases[static_cast<std::size_t>(phase)].cells();
    for (std::size_t i = 0; i < route.to.size(); ++i) {
      if (route.to[i].at == nowhere) continue;
      cells[cell(route.from[i].at, route.to[i].at)] += choices[i];
    }
  }

  void count_merged(int phase, HopRoute& route) {
    const auto counted = choices_.rows(route.classes);
    const auto cells = counts_.phases[static_cast<std::size_t>(phase)].cells();
    for (std::size_t c = 0; c < counted.size(); ++c) {
      const auto& copy = route.copies[c];
      cells[cell(copy.from, copy.to)] += counted[c];
    }
  }

  std::size_t cell(GpuId from, GpuId to) const {
    return from.index() * counts_.gpus() + to.index();
  }

  const Mechanism& mechanism_;
  const PhaseOrder& order_;
  SourceChoices choices_;
  RowCounts& counts_;
  KeptRoutes& kept_;
  bool keeps_;
  SourceRoutes routes_;  // of the rank at hand, unless they are kept
  // Reused by merge().
  RouteCopies copies_;
  std::vector<std::uint32_t> copy_of_;  // [stop]
};

}  // namespace moesim
