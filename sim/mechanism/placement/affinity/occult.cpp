// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/affinity/occult.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/affinity/affinity_profile.h"

namespace moesim {
namespace {

/// The growing placement. Means over a set rank as sums do, because all experts that are compared
/// are summed over the same set: counts stay exact.
class Rescheduling {
 public:
  explicit Rescheduling(const PairMatrix& co)
      : co_(co),
        placed_(static_cast<std::size_t>(co.experts())),
        with_placed_(placed_.size()),
        with_members_(placed_.size()) {}

  std::vector<ExpertId> most_frequent_pair() const {
    ExpertId a(0), b(1);
    for (int i = 0; i < co_.experts(); ++i) {
      for (int j = i + 1; j < co_.experts(); ++j) {
        if (co_.at(ExpertId(i), ExpertId(j)) > co_.at(a, b)) a = ExpertId(i), b = ExpertId(j);
      }
    }
    return {a, b};
  }
  ExpertId farthest_from_placed() const {
    return best([&](std::size_t e) { return -with_placed_[e]; });
  }
  ExpertId nearest_to_members() const {
    return best([&](std::size_t e) { return with_members_[e]; });
  }
  void open_gpu() { with_members_.assign(placed_.size(), 0); }
  void place(ExpertId expert) {
    placed_[expert.index()] = true;
    const auto row = co_.row(expert);
    for (std::size_t e = 0; e < row.size(); ++e) {
      with_placed_[e] += row[e];
      with_members_[e] += row[e];
    }
  }

 private:
  /// The unplaced expert of the largest value, the lowest on ties.
  template <class Value>
  ExpertId best(Value&& value) const {
    ExpertId found(-1);
    for (std::size_t e = 0; e < placed_.size(); ++e) {
      if (placed_[e]) continue;
      if (found.value < 0 || value(e) > value(found.index())) {
        found = ExpertId(static_cast<std::int64_t>(e));
      }
    }
    return found;
  }

  const PairMatrix& co_;
  std::vector<bool> placed_;
  std::vector<std::int64_t> with_placed_;   // co-choices with all placed experts
  std::vector<std::int64_t> with_members_;  // co-choices with the experts of the open GPU
};

std::vector<bool> allowed_gpus(std::span<const ExpertId> ranked, std::span<const GpuId> gpu_of,
                               int allowed, bool& prunes) {
  if (allowed < 1) throw Error(fmt::format("a token needs a GPU or more, not {}", allowed));
  std::vector<bool> seen;
  int count = 0;
  prunes = false;
  for (const ExpertId e : ranked) {
    const std::size_t gpu = gpu_of[e.index()].index();
    if (gpu >= seen.size()) seen.resize(gpu + 1);
    if (seen[gpu]) continue;
    if (count == allowed) {
      prunes = true;
    } else {
      seen[gpu] = true;
      ++count;
    }
  }
  return seen;
}

/// The experts on allowed GPUs, ascending.
std::vector<ExpertId> experts_on(const std::vector<bool>& gpus, std::span<const GpuId> gpu_of,
                                 std::size_t needed) {
  std::vector<ExpertId> experts;
  for (std::size_t e = 0; e < gpu_of.size(); ++e) {
    const std::size_t gpu = gpu_of[e].index();
    if (gpu < gpus.size() && gpus[gpu]) experts.emplace_back(static_cast<std::int64_t>(e));
  }
  if (experts.size() < needed) {
    throw Error(fmt::format("a token's {} experts do not fit the {} on its allowed GPUs", needed,
                            experts.size()),
                "allow more GPUs per token");
  }
  return experts;
}

}  // namespace

SlotTable place_occult(const PairMatrix& co, int gpus) {
  const int experts = co.experts();
  if (gpus < 1 || experts < 1 || experts % gpus != 0) {
    throw Error(
        fmt::format("{} experts cannot be placed in equal numbers on {} GPUs", experts, gpus));
  }
  const int per_gpu = experts / gpus;
  Rescheduling growing(co);
  std::vector<GpuId> gpu_of(experts);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    growing.open_gpu();
    std::vector<ExpertId> start = {ExpertId(0)};
    if (gpu > 0) {
      start = {growing.farthest_from_placed()};
    } else if (experts > 1) {
      start = growing.most_frequent_pair();
      if (per_gpu == 1) start.pop_back();
    }
    for (int slot = 0; slot < per_gpu; ++slot) {
      const auto s = static_cast<std::size_t>(slot);
      const ExpertId e = s < start.size() ? start[s] : growing.nearest_to_members();
      growing.place(e);
      gpu_of[e.index()] = GpuId(gpu);
    }
  }
  return table_of(gpu_of, gpus);
}

std::vector<ExpertId> prune_by_score(std::span<const ExpertId> ranked,
                                     std::span<const float> scores, std::span<const GpuId> gpu_of,
                                     int allowed) {
  bool prunes = false;
  const auto gpus = allowed_gpus(ranked, gpu_of, allowed, prunes);
  if (!prunes) return {ranked.begin(), ranked.end()};
  std::vector<ExpertId> experts = experts_on(gpus, gpu_of, ranked.size());
  std::stable_sort(experts.begin(), experts.end(),
                   [&](ExpertId a, ExpertId b) { return scores[a.index()] > scores[b.index()]; });
  experts.resize(ranked.size());
  return experts;
}

std::vector<ExpertId> prune_by_similarity(std::span<const ExpertId> ranked,
                                          const ExpertSimilarity& similarity,
                                          std::span<const GpuId> gpu_of, int allowed) {
  bool prunes = false;
  const auto gpus = allowed_gpus(ranked, gpu_of, allowed, prunes);
  std::vector<ExpertId> result(ranked.begin(), ranked.end());
  if (!prunes) return result;
  std::vector<ExpertId> free = experts_on(gpus, gpu_of, ranked.size());
  for (const ExpertId e : ranked) std::erase(free, e);
  for (ExpertId& e : result) {
    const std::size_t gpu = gpu_of[e.index()].index();
    if (gpu < gpus.size() && gpus[gpu]) continue;
    const auto best = std::max_element(free.begin(), free.end(), [&](ExpertId a, ExpertId b) {
      return similarity.at(e, a) < similarity.at(e, b);
    });
    e = *best;
    free.erase(best);
  }
  return result;
}

// Placement rescheduling of Occult (arXiv 2505.13345): experts chosen together share a GPU.
namespace {

class Occult final : public ProfiledPlanner {
 public:
  Occult(const PlacementContext& context, const ProfileOptions& options)
      : ProfiledPlanner(context, options, Pairs::co_choices) {
    check_equal_slots(context);
  }

 private:
  SlotTable place(int layer) override { return place_occult(pairs_of(layer), ep()); }
};

}  // namespace

// profile: steps whose co-choices it sees before it decides (once, unless `interval` is given);
// profiling: offline (the first slots are loaded) or online (moved); others as of planners that
// lag.
PlacementMaker read_occult(const YamlMap& params) {
  const ProfileOptions options = read_profile_options(params);
  return [options](const PlacementContext& context) {
    return std::make_unique<Occult>(context, options);
  };
}

}  // namespace moesim
