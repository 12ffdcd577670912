// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/affinity/exflow.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/base/error.h"
#include "sim/trace/synth/random.h"

namespace moesim {
namespace {

/// The search from one start after the other; experts only move between parts of one node.
class LayerSwaps {
 public:
  LayerSwaps(const std::vector<PairMatrix>& forward, int parts, int parts_per_node)
      : forward_(forward), parts_(static_cast<std::size_t>(parts)), per_node_(parts_per_node) {
    for (const PairMatrix& m : forward) backward_.push_back(m.transposed());
  }

  /// Local search from `start`, then kicks: a layer is shuffled and the search repeated from there;
  /// what cuts more than before is dropped.
  LayerParts search_from(LayerParts parts, const SwapSearch& search) const {
    improve(parts, std::vector<bool>(parts.size(), true));
    std::int64_t cut = cut_transitions(forward_, parts);
    Random random(search.seed);
    for (int kick = 0; kick < search.kicks && cut > 0; ++kick) {
      LayerParts kicked = parts;
      const std::size_t l = random.below(static_cast<std::uint32_t>(parts.size()));
      shuffle(kicked[l], random);
      // The layers next to it adapt first: from itself it would return to where it was.
      std::vector<bool> open(parts.size());
      mark_neighbours(open, l);
      improve(kicked, std::move(open));
      const std::int64_t after = cut_transitions(forward_, kicked);
      if (after <= cut) cut = after, parts = std::move(kicked);
    }
    return parts;
  }

 private:
  static void mark_neighbours(std::vector<bool>& open, std::size_t l) {
    if (l > 0) open[l - 1] = true;
    if (l + 1 < open.size()) open[l + 1] = true;
  }

  /// Looks at the open layers, and again at those next to one that changed, until none is open.
  void improve(LayerParts& parts, std::vector<bool> open) const {
    while (std::find(open.begin(), open.end(), true) != open.end()) {
      for (std::size_t l = 0; l < parts.size(); ++l) {
        if (!open[l]) continue;
        open[l] = false;
        if (swap_in(parts, l)) mark_neighbours(open, l);
        if (l > 0 && relabel_from(parts, l)) open[l - 1] = open[l] = true;
      }
    }
  }

  /// Exchanges two parts in a layer and all after it while that cuts fewer transitions: what single
  /// swaps cannot do if two stretches of layers agree within themselves but not with each other.
  bool relabel_from(LayerParts& parts, std::size_t l) const {
    std::vector<std::int64_t> kept(parts_ * parts_);  // transitions from part to part
    for (std::size_t e = 0; e < parts[l].size(); ++e) {
      const auto row = forward_[l - 1].row(ExpertId(static_cast<std::int64_t>(e)));
      const auto from = static_cast<std::size_t>(parts[l - 1][e]) * parts_;
      for (std::size_t f = 0; f < row.size(); ++f) {
        kept[from + static_cast<std::size_t>(parts[l][f])] += row[f];
      }
    }
    bool changed = false;
    for (std::size_t p = 0; p < parts_; ++p) {
      const auto node_end = static_cast<std::size_t>((node(static_cast<int>(p)) + 1) * per_node_);
      for (std::size_t q = p + 1; q < node_end; ++q) {
        const auto same = kept[p * parts_ + p] + kept[q * parts_ + q];
        if (kept[p * parts_ + q] + kept[q * parts_ + p] <= same) continue;
        exchange(parts, l, static_cast<int>(p), static_cast<int>(q));
        for (std::size_t r = 0; r < parts_; ++r) {
          std::swap(kept[r * parts_ + p], kept[r * parts_ + q]);
        }
        changed = true;
      }
    }
    return changed;
  }

  static void exchange(LayerParts& parts, std::size_t from, int p, int q) {
    for (std::size_t l = from; l < parts.size(); ++l) {
      for (int& part : parts[l]) part = part == p ? q : part == q ? p : part;
    }
  }

  int node(int part) const { return part / per_node_; }

  /// Exchanges the parts of random experts of each node.
  void shuffle(std::vector<int>& layer, Random& random) const {
    for (std::size_t e = layer.size(); e-- > 1;) {
      std::vector<std::size_t> others;
      for (std::size_t o = 0; o <= e; ++o) {
        if (node(layer[o]) == node(layer[e])) others.push_back(o);
      }
      std::swap(layer[e], layer[others[random.below(static_cast<std::uint32_t>(others.size()))]]);
    }
  }

  /// Transitions between each expert of a layer and each part of the layers next to it.
  std::vector<std::int64_t> pulls(const LayerParts& parts, std::size_t l) const {
    std::vector<std::int64_t> pull(parts[l].size() * parts_);
    const auto add = [&](const PairMatrix& counts, const std::vector<int>& other) {
      for (std::size_t e = 0; e < other.size(); ++e) {
        const auto row = counts.row(ExpertId(static_cast<std::int64_t>(e)));
        for (std::size_t o = 0; o < other.size(); ++o) {
          pull[e * parts_ + static_cast<std::size_t>(other[o])] += row[o];
        }
      }
    };
    if (l > 0) add(backward_[l - 1], parts[l - 1]);
    if (l + 1 < parts.size()) add(forward_[l], parts[l + 1]);
    return pull;
  }

  /// Swaps experts of one layer, each with its best partner, until no swap cuts fewer transitions.
  /// The layers next to it stay, so pulls do too. Whether anything was swapped.
  bool swap_in(LayerParts& parts, std::size_t l) const {
    const auto pull = pulls(parts, l);
    auto& part = parts[l];
    const auto at = [&](std::size_t e, int p) {
      return pull[e * parts_ + static_cast<std::size_t>(p)];
    };
    bool swapped = false;
    for (bool better = true; better;) {
      better = false;
      for (std::size_t a = 0; a < part.size(); ++a) {
        std::int64_t best = 0;
        std::size_t with = a;
        for (std::size_t b = 0; b < part.size(); ++b) {
          const int p = part[a], q = part[b];
          if (p == q || node(p) != node(q)) continue;
          const std::int64_t gain = at(a, q) - at(a, p) + at(b, p) - at(b, q);
          if (gain > best) best = gain, with = b;
        }
        if (with == a) continue;
        std::swap(part[a], part[with]);
        better = swapped = true;
      }
    }
    return swapped;
  }

  const std::vector<PairMatrix>& forward_;
  std::vector<PairMatrix> backward_;
  std::size_t parts_;
  int per_node_;  // parts that may exchange experts: consecutive ones
};

void check_sizes(const std::vector<PairMatrix>& transitions, int experts, int parts) {
  if (parts < 1 || experts < 1 || experts % parts != 0) {
    throw Error(fmt::format("{} experts cannot be split into {} equal parts", experts, parts));
  }
  for (const PairMatrix& m : transitions) {
    if (m.experts() != experts) {
      throw Error(fmt::format("transitions of {} experts, not {}", m.experts(), experts));
    }
  }
}

}  // namespace

std::int64_t cut_transitions(const std::vector<PairMatrix>& transitions, const LayerParts& parts) {
  std::int64_t cut = 0;
  for (std::size_t l = 0; l < transitions.size(); ++l) {
    for (std::size_t e = 0; e < parts[l].size(); ++e) {
      const auto row = transitions[l].row(ExpertId(static_cast<std::int64_t>(e)));
      for (std::size_t f = 0; f < row.size(); ++f) {
        if (parts[l][e] != parts[l + 1][f]) cut += row[f];
      }
    }
  }
  return cut;
}

LayerParts exflow_parts(const std::vector<PairMatrix>& transitions, int experts, int parts,
                        const SwapSearch& search) {
  check_sizes(transitions, experts, parts);
  std::vector<int> contiguous;
  for (int e = 0; e < experts; ++e) contiguous.push_back(e / (experts / parts));
  return LayerSwaps(transitions, parts, parts)
      .search_from(LayerParts(transitions.size() + 1, contiguous), search);
}

std::vector<SlotTable> place_exflow(const std::vector<PairMatrix>& transitions, int experts,
                                    int nodes, int gpus_per_node, const SwapSearch& search) {
  const int gpus = nodes * gpus_per_node;
  check_sizes(transitions, experts, gpus);
  LayerParts parts = exflow_parts(transitions, experts, nodes, search);
  for (auto& layer : parts) {  // the experts of a node in order onto its GPUs
    std::vector<int> met(nodes);
    for (int& part : layer) {
      const int rank = met[part]++;
      part = part * gpus_per_node + rank / (experts / gpus);
    }
  }
  parts = LayerSwaps(transitions, gpus, gpus_per_node).search_from(parts, search);
  std::vector<SlotTable> tables;
  for (const auto& layer : parts) {
    const std::vector<GpuId> gpu_of(layer.begin(), layer.end());
    tables.push_back(table_of(gpu_of, gpus));
  }
  return tables;
}

}  // namespace moesim
