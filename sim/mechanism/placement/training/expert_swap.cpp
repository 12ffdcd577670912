// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/training/expert_swap.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/base/error.h"
#include "sim/mechanism/placement/training/swap_counts.h"

namespace moesim {
namespace {

/// One stage of the d-dimensional AlltoAll, from groups of level `within` to those of `level`.
struct SwapStage {
  int within;
  int level;
  AlphaBeta cost;
};

std::vector<SwapStage> stages_of(const SwapObjective& objective) {
  const CollectiveCosts& costs = objective.costs;
  const int levels = costs.nesting.depth();
  if (objective.depth < 1 || objective.depth > levels) {
    throw Error(
        fmt::format("an all-to-all over {} levels has no depth {}", levels, objective.depth));
  }
  std::vector<SwapStage> stages;
  const auto last = static_cast<std::size_t>(objective.depth - 1);
  for (std::size_t i = 0; i < last; ++i) {
    stages.push_back({static_cast<int>(i), static_cast<int>(i) + 1, costs.inter[i]});
  }
  stages.push_back({objective.depth - 1, levels, last == 0 ? costs.flat : costs.intra[last - 1]});
  return stages;
}

/// Raises worst[r][c], r <= c, to the maximum token count of a group once r and c are exchanged.
void raise(const SwapCounts& counts, Maximum maximum, std::vector<double>& worst) {
  const TwoChanges groups(maximum, counts.touching());
  const int experts = counts.experts();
  auto entry = worst.begin();
  for (int r = 0; r < experts; ++r) {
    entry += r;  // past the pairs below the diagonal
    const int x = counts.group_of(r);
    for (int c = r; c < experts; ++c) {
      const int y = counts.group_of(c);
      const double value =
          x == y ? groups.unchanged()
                 : groups.changed(x, counts.touching_after(r, c), y, counts.touching_after(c, r));
      *entry = std::max(*entry, value);
      ++entry;
    }
  }
}

/// Token runs of ranks that are counted together, and how often they choose pairs of experts.
struct CountedRuns {
  std::vector<TokenRun> runs;
  std::optional<PairedChoices> choices;
};

/// of(n)[i] has the token runs of ranks i, i + n, i + 2 n ..., and their choices. Stages with the
/// same n share them.
class RunsByIndex {
 public:
  RunsByIndex(const LayerChoices& choices, int experts) : choices_(choices), experts_(experts) {}

  const std::vector<CountedRuns>& of(std::size_t indices) {
    const auto [found, added] = known_.try_emplace(indices, indices);
    if (!added) return found->second;
    for (std::size_t s = 0; s < choices_.ranks.size(); ++s) {
      auto& own = found->second[s % indices].runs;
      own.insert(own.end(), choices_.ranks[s].begin(), choices_.ranks[s].end());
    }
    for (CountedRuns& counted : found->second) {
      counted.choices.emplace(experts_, choices_.ids, counted.runs);
    }
    return found->second;
  }

 private:
  const LayerChoices& choices_;
  int experts_;
  std::map<std::size_t, std::vector<CountedRuns>> known_;
};

void check(const SwapObjective& objective, const SlotTable& table, const LayerChoices& choices) {
  const auto gpus = static_cast<std::size_t>(objective.costs.nesting.gpus);
  if (table.size() != gpus || choices.ranks.size() != gpus) {
    throw Error(fmt::format("the costs are of {} GPUs, but {} hold experts and {} hold tokens",
                            gpus, table.size(), choices.ranks.size()));
  }
}

}  // namespace

std::vector<Seconds> swap_times(const SwapObjective& objective, const SlotTable& table,
                                const LayerChoices& choices) {
  check(objective, table, choices);
  const std::vector<GpuId> owners = owners_of(table);
  const std::size_t experts = owners.size();
  const Nesting& nesting = objective.costs.nesting;
  RunsByIndex counted(choices, static_cast<int>(experts));
  std::vector<Seconds> times(experts * experts);
  for (const SwapStage& stage : stages_of(objective)) {
    std::vector<int> group_of;
    for (const GpuId gpu : owners) group_of.push_back(gpu.value / nesting.group_size(stage.level));
    const int groups = nesting.groups_at(stage.level);
    std::vector<double> worst(experts * experts);
    // With CountReading::mean the tokens of all ranks are counted together.
    const int indices =
        objective.reading == CountReading::mean ? 1 : nesting.group_size(stage.within);
    for (const CountedRuns& c : counted.of(static_cast<std::size_t>(indices))) {
      raise(SwapCounts(group_of, groups, choices.ids, c.runs, *c.choices), objective.maximum,
            worst);
    }
    const int sharing =
        objective.reading == CountReading::mean ? nesting.gpus : nesting.groups_at(stage.within);
    const double bytes = static_cast<double>(objective.row.value) * groups / sharing;
    for (std::size_t r = 0; r < experts; ++r) {
      for (std::size_t c = r; c < experts; ++c) {
        times[r * experts + c] += stage.cost.time(bytes * worst[r * experts + c]);
      }
    }
  }
  for (std::size_t r = 0; r < experts; ++r) {
    for (std::size_t c = 0; c < r; ++c) times[r * experts + c] = times[c * experts + r];
  }
  return times;
}

std::optional<ExpertSwap> find_swap(const SwapObjective& objective, const SlotTable& table,
                                    const LayerChoices& choices) {
  const std::vector<Seconds> times = swap_times(objective, table, choices);
  const std::size_t experts = owners_of(table).size();
  if (experts == 0) return std::nullopt;
  const Seconds before = times.front();
  const double rounding = 1e-12 * before.value;
  std::optional<ExpertSwap> best;
  for (std::size_t r = 0; r < experts; ++r) {
    for (std::size_t c = r + 1; c < experts; ++c) {
      const Seconds q = times[r * experts + c];
      if (q.value < (best ? best->after : before).value - rounding) {
        best = {ExpertId(static_cast<std::int64_t>(r)), ExpertId(static_cast<std::int64_t>(c)),
                before, q};
      }
    }
  }
  return best;
}

SlotTable swapped(SlotTable table, ExpertId a, ExpertId b) {
  for (auto& experts : table) {
    for (ExpertId& e : experts) e = e == a ? b : e == b ? a : e;
  }
  return table;
}

}  // namespace moesim
