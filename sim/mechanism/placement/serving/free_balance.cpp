// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/free_balance.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/serving/foretold.h"

namespace moesim {
namespace {

/// Whole experts of one domain and who computes them.
class Swaps {
 public:
  Swaps(std::span<const std::int64_t> counts, std::size_t gpus)
      : counts_(counts), loads_(gpus), computed_(gpus) {
    for (std::size_t e = 0; e < counts.size(); ++e) {
      const std::size_t gpu = e / (counts.size() / gpus);
      computed_[gpu].push_back(e);
      loads_[gpu] += counts[e];
    }
  }

  bool swap() {
    const auto most = static_cast<std::size_t>(std::ranges::max_element(loads_) - loads_.begin());
    const auto least = static_cast<std::size_t>(std::ranges::min_element(loads_) - loads_.begin());
    std::int64_t best = loads_[most];
    std::size_t *from = nullptr, *to = nullptr;
    for (std::size_t& a : computed_[most]) {
      for (std::size_t& b : computed_[least]) {
        const std::int64_t moved = counts_[a] - counts_[b];
        const std::int64_t larger = std::max(loads_[most] - moved, loads_[least] + moved);
        if (larger >= best) continue;
        best = larger;
        from = &a;
        to = &b;
      }
    }
    if (from == nullptr) return false;
    const std::int64_t moved = counts_[*from] - counts_[*to];
    loads_[most] -= moved;
    loads_[least] += moved;
    std::swap(*from, *to);
    return true;
  }

  const std::vector<std::int64_t>& loads() const { return loads_; }
  const std::vector<std::vector<std::size_t>>& computed() const { return computed_; }

 private:
  std::span<const std::int64_t> counts_;
  std::vector<std::int64_t> loads_;                 // [gpu]
  std::vector<std::vector<std::size_t>> computed_;  // [gpu] experts
};

class FreeBalance final : public Foretold {
 public:
  FreeBalance(const PlacementContext& c, const SpillOptions& s, Foresight f, int swaps)
      : Foretold(c, s, f), swaps_(swaps), domain_(group_nodes(c).gpus_per_node) {}

 private:
  llep::Plan plan_for(const std::vector<std::int64_t>& counts) const override {
    return free_balance(counts, ep(), domain_, swaps_);
  }

  int swaps_;
  int domain_;
};

}  // namespace

llep::Plan free_balance(std::span<const std::int64_t> counts, int gpus, int domain, int swaps) {
  llep::applies(counts, gpus, 0);  // throws for counts that cannot be spread
  const auto experts = static_cast<int>(counts.size());
  const std::size_t of_domain = counts.size() / static_cast<std::size_t>(gpus / domain);
  llep::Plan plan;
  plan.chunks.resize(counts.size());
  for (std::size_t first = 0; first < counts.size(); first += of_domain) {
    Swaps of(counts.subspan(first, of_domain), static_cast<std::size_t>(domain));
    for (int s = 0; s < swaps && of.swap(); ++s) continue;
    for (const auto& computed : of.computed()) {
      const GpuId gpu(std::ssize(plan.loads));
      plan.loads.push_back(of.loads()[plan.loads.size() % static_cast<std::size_t>(domain)]);
      for (const std::size_t e : computed) {
        const ExpertId expert(static_cast<std::int64_t>(first + e));
        // One row at least: an expert without predicted rows has a place, too.
        const auto rows = std::max<std::int64_t>(1, counts[expert.index()]);
        plan.chunks[expert.index()] = {{gpu, 0, rows}};
        const GpuId owner = llep::owner(expert, experts, gpus);
        if (gpu != owner) plan.transfers.push_back({expert, owner, gpu});
      }
    }
  }
  plan.capacity = std::ranges::max(plan.loads);
  return plan;
}

// predictor: step (default), layer or oracle; swaps: at most so many in a domain and layer (4);
// received: keep or regather; planning_time (0 us).
PlacementMaker read_free_balance(const YamlMap& params) {
  const Foresight foresight = read_foresight(params, Foresight::step);
  const auto swaps = static_cast<int>(params.integer("swaps", {1, 4096}, 4));
  const SpillOptions spill = read_spill_options(params);
  return [=](const PlacementContext& context) {
    return std::make_unique<FreeBalance>(context, spill, foresight, swaps);
  };
}

}  // namespace moesim
