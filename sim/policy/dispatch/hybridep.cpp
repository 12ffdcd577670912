// SPDX-License-Identifier: Apache-2.0
// The token exchange of HybridEP (arXiv 2510.19470): level by level, coarsest first, a row goes to
// the worker of its own place in the target's domain; one row per choice.
#include <fmt/format.h>

#include <numeric>

#include "sim/policy/evaluate.h"
#include "sim/policy/placement/hybrid/hybridep_levels.h"
#include "sim/policy/policies.h"

namespace moesim {
namespace {

/// One level: GPUs whose places differ at this level alone exchange.
struct HopLevel {
  int workers = 1;
  int stride = 1;  // GPUs per worker
  int number = 0;
  Communicators groups = {};

  int place(GpuId gpu) const { return gpu.value / stride % workers; }
};

/// Hops over some levels. The hop of a level moves one coordinate to that of the target: where the
/// target is the serving GPU, it stands at the sender's offset in the domain of the expert's home.
class DomainHops {
 public:
  DomainHops(std::vector<HopLevel> levels, bool only_level)
      : levels_(std::move(levels)), only_level_(only_level) {}
  int phases() const { return static_cast<int>(levels_.size()); }
  std::string phase_name(int phase) const {
    return only_level_ ? "alltoall" : fmt::format("level-{}", at(phase).number);
  }
  const Communicators& communicators(int phase) const { return at(phase).groups; }

  bool merges() const { return false; }
  template <class Hops>
  void next(int phase, GpuId holder, Choices choices, const GpuId* target, Hops& hops) const {
    const HopLevel& level = at(phase);
    for_each_choice(choices, [&](int k) {
      const int steps = level.place(target[k]) - level.place(holder);
      hops.add(GpuId(holder.value + steps * level.stride), Choices{1} << k);
    });
  }

 private:
  const HopLevel& at(int phase) const { return levels_[static_cast<std::size_t>(phase)]; }
  std::vector<HopLevel> levels_;
  bool only_level_;
};

/// The levels of every run of `ep` ranks.
std::vector<HopLevel> hop_levels(const std::vector<int>& workers, int gpus, int ep) {
  std::vector<HopLevel> levels(workers.size());
  int stride = ep;
  for (std::size_t l = 0; l < workers.size(); ++l) {
    stride /= workers[l];
    levels[l] = {workers[l], stride, static_cast<int>(l)};
    for (int g = 0; g < gpus; ++g) {
      if (levels[l].place(GpuId(g)) != 0) continue;
      auto& group = levels[l].groups.emplace_back();
      for (int w = 0; w < workers[l]; ++w) group.emplace_back(g + w * stride);
    }
  }
  return levels;
}

/// Leaves out the levels over which no rank has an expert to reach, as domains of the whole level
/// make them: nothing is exchanged or relayed there.
class HybridEp final : public Dispatch {
 public:
  explicit HybridEp(std::vector<HopLevel> levels) : levels_(std::move(levels)) {
    for (std::size_t used = 0; used < (std::size_t{1} << levels_.size()); ++used) {
      std::vector<HopLevel> some;
      for (std::size_t l = 0; l < levels_.size(); ++l) {
        if ((used >> l & 1) != 0) some.push_back(levels_[l]);
      }
      if (some.empty()) some.push_back(levels_.back());
      by_use_.push_back(std::make_unique<Evaluated<DomainHops>>(
          DomainHops(std::move(some), levels_.size() == 1)));
    }
  }

  const Dispatch& choose(const LayerTokens& tokens) const override {
    const Assignment& assignment = tokens.assignment;
    const Placement& placement = assignment.placement();
    std::size_t used = 0;
    const auto look = [&](GpuId source, GpuId target) {
      for (std::size_t l = 0; l < levels_.size(); ++l) {
        if (levels_[l].place(source) != levels_[l].place(target)) used |= std::size_t{1} << l;
      }
    };
    for (int g = 0; g < placement.gpus(); ++g) {
      for (int e = 0; e < placement.experts(); ++e) {
        if (!assignment.split()) {
          look(GpuId(g), assignment.gpu(GpuId(g), ExpertId(e)));
          continue;
        }
        for (const Share& share : assignment.shares(GpuId(g), ExpertId(e))) {
          look(GpuId(g), placement.gpu_of(share.slot));
        }
      }
    }
    return *by_use_[used];
  }

  // What follows is asked of the chosen dispatch; the one with all hops answers for it.
  int phases() const override { return by_use_.back()->phases(); }
  std::string phase_name(int phase) const override { return by_use_.back()->phase_name(phase); }
  const Communicators& communicators(int phase) const override {
    return by_use_.back()->communicators(phase);
  }
  RowCounts count(const LayerTokens& tokens) const override { return choose(tokens).count(tokens); }
  std::vector<std::vector<RowMove>> rows(const LayerTokens& tokens) const override {
    return choose(tokens).rows(tokens);
  }

 private:
  std::vector<HopLevel> levels_;
  std::vector<std::unique_ptr<Dispatch>> by_use_;  // by the set of levels, as bits
};

}  // namespace

// levels: cluster or flat, as of the placement hybridep.
DispatchMaker read_hybridep_dispatch(const YamlMap& params) {
  const DomainLevels levels = read_domain_levels(params);
  return [levels](const DispatchContext& c) {
    return std::make_unique<HybridEp>(
        hop_levels(domain_workers(c.topology, c.ep, levels), c.topology.gpu_count(), c.ep));
  };
}

}  // namespace moesim
