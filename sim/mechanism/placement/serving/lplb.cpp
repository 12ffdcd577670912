// SPDX-License-Identifier: Apache-2.0
// LPLB's wirings, its placement and the split of a batch.
#include "sim/mechanism/placement/serving/lplb.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/id_vector.h"
#include "sim/mechanism/placement/serving/eplb.h"
#include "sim/mechanism/placement/serving/replica_choice.h"

namespace moesim::lplb {
namespace {

/// The rank before this one in its cycle of four: ranks 4 i to 4 i + 3.
int back_in_cycle(int rank) { return rank / 4 * 4 + (rank + 3) % 4; }

std::size_t replicated(const Layout& layout) {
  return layout.wiring[0].size() * static_cast<std::size_t>(layout.per_class);
}

std::size_t first_rank_of_group(const Layout& layout, std::size_t rank) {
  return rank / layout.wiring.size() * layout.wiring.size();
}

/// The two slots of a replicated expert, and the share of its choices that stays at the original,
/// as the linear program has it. Without a replica both are the same slot.
struct Pair {
  SlotId original, replica;
  double stays = 1;
};

std::vector<Pair> pairs_of(const Layout& layout, const std::vector<Solution>& groups,
                           std::size_t experts) {
  const std::size_t classes = layout.wiring[0].size();
  const std::size_t owned = layout.own[0].size();
  const std::size_t slots = owned + replicated(layout);
  std::vector<Pair> pairs(experts);
  for (std::size_t rank = 0; rank < layout.own.size(); ++rank) {
    for (std::size_t i = 0; i < owned; ++i) {
      Pair& pair = pairs[layout.own[rank][i].index()];
      pair.original = pair.replica = SlotId(static_cast<std::int64_t>(rank * slots + i));
    }
  }
  for (std::size_t rank = 0; rank < layout.own.size(); ++rank) {
    const std::size_t first = first_rank_of_group(layout, rank);
    for (std::size_t i = 0; i < replicated(layout); ++i) {
      const auto q = static_cast<std::size_t>(layout.wiring[rank - first][i % classes]);
      Pair& pair = pairs[layout.own[first + q][i].index()];
      pair.replica = SlotId(static_cast<std::int64_t>(rank * slots + owned + i));
      pair.stays = groups[first / layout.wiring.size()].stays[q][i % classes];
    }
  }
  return pairs;
}

}  // namespace

Wiring cube() {
  Wiring wiring;
  for (int r = 0; r < 8; ++r) wiring.push_back({back_in_cycle(r), r < 4 ? r ^ 6 : r - 4});
  return wiring;
}

Wiring hypercube() {
  Wiring wiring;
  for (int r = 0; r < 16; ++r) wiring.push_back({back_in_cycle(r), (r + 12) % 16});
  return wiring;
}

Wiring torus(int rows, int columns) {
  Wiring wiring;
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) {
      wiring.push_back({(i + 1) % rows * columns + j, i * columns + (j + 1) % columns});
    }
  }
  return wiring;
}

Wiring ring(int ranks) {
  Wiring wiring;
  for (int r = 0; r < ranks; ++r) wiring.push_back({(r + 1) % ranks});
  return wiring;
}

Layout place(std::span<const double> loads, const Wiring& wiring, int per_class, int nodes,
             int gpus) {
  const auto group = static_cast<int>(wiring.size());
  if (group < 1 || per_class < 1 || gpus % group != 0) {
    throw Error(fmt::format("LPLB cannot cut {} into groups of {}", counted(gpus, "GPU"), group));
  }
  for (int r = 0; r < group; ++r) {
    if (std::ranges::count(wiring[static_cast<std::size_t>(r)], r) == 0) continue;
    throw Error(
        fmt::format("LPLB's topology has rank {} of {} replicate its own experts", r, group),
        "a topology of more ranks");
  }
  const auto experts = static_cast<int>(loads.size());
  Layout layout{wiring, per_class,
                eplb::rebalance(loads, {experts, gpus / group, nodes, gpus}).table()};
  for (std::vector<ExpertId>& own : layout.own) {
    std::ranges::sort(own, {}, [&](ExpertId e) { return std::pair(-loads[e.index()], e); });
    if (own.size() < replicated(layout)) {
      throw Error(fmt::format("LPLB replicates {} experts per rank, but a rank has {}",
                              replicated(layout), own.size()));
    }
  }
  return layout;
}

SlotTable Layout::table() const {
  SlotTable table = own;
  for (std::size_t rank = 0; rank < own.size(); ++rank) {
    const std::size_t first = first_rank_of_group(*this, rank);
    const std::vector<int>& from = wiring[rank - first];
    for (std::size_t i = 0; i < replicated(*this); ++i) {
      table[rank].push_back(own[first + static_cast<std::size_t>(from[i % from.size()])][i]);
    }
  }
  return table;
}

std::vector<Solution> solve(const Layout& layout, std::span<const double> loads) {
  const std::size_t ranks = layout.wiring.size();
  const std::size_t classes = layout.wiring[0].size();
  const double scale = loads.empty() ? 0 : *std::max_element(loads.begin(), loads.end());
  std::vector<Solution> solutions;
  for (std::size_t first = 0; first < layout.own.size(); first += ranks) {
    Problem problem{layout.wiring, std::vector(ranks, std::vector<double>(classes)),
                    std::vector<double>(ranks)};
    for (std::size_t r = 0; r < ranks; ++r) {
      for (std::size_t i = 0; i < layout.own[first + r].size(); ++i) {
        const double load = loads[layout.own[first + r][i].index()];
        (i < replicated(layout) ? problem.movable[r][i % classes] : problem.fixed[r]) += load;
      }
    }
    solutions.push_back(solve(problem, scale));
  }
  return solutions;
}

std::vector<std::vector<Shares>> shares(const Layout& layout, const std::vector<Solution>& groups,
                                        const LoadMatrix& loads) {
  const auto experts = static_cast<std::size_t>(loads.experts());
  const std::vector<Pair> pairs = pairs_of(layout, groups, experts);
  IdVector<GpuId, std::vector<Shares>> all(loads.sources());
  for (const GpuId source : all.ids()) {
    for (std::size_t e = 0; e < experts; ++e) {
      const Pair& pair = pairs[e];
      const std::int64_t total = loads.row(source)[e];
      std::vector<SlotId> sequence;
      for (std::int64_t i = 0; pair.original != pair.replica && i < total; ++i) {
        sequence.push_back(keeps_original(i, total, pair.stays) ? pair.original : pair.replica);
      }
      all[source].push_back(sequence.empty() ? Shares{{pair.original, 1}} : run_length(sequence));
    }
  }
  return std::move(all).take();
}

}  // namespace moesim::lplb
