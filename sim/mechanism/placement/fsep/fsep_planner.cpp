// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/fsep/fsep_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/base/unsuitable.h"
#include "sim/mechanism/placement/fsep/baselines.h"
#include "sim/mechanism/placement/fsep/flex.h"

namespace moesim {
namespace {

/// For the slowest link between two GPUs: share / bandwidth, because equal-cost paths share the
/// bytes.
double seconds_per_byte(const Topology& topology, GpuId from, GpuId to) {
  std::vector<std::pair<LinkId, double>> shares;
  for (const Path& path : topology.paths(from, to)) {
    for (const LinkId link : path.links) {
      const auto known = std::find_if(shares.begin(), shares.end(),
                                      [&](const auto& entry) { return entry.first == link; });
      if (known == shares.end()) {
        shares.emplace_back(link, path.share);
      } else {
        known->second += path.share;
      }
    }
  }
  double most = 0;
  for (const auto& [link, share] : shares) {
    most = std::max(most, share / topology.link(link).bandwidth.value);
  }
  return most;
}

}  // namespace

FsepPlanner::FsepPlanner(const PlacementContext& context, const FsepPlannerOptions& options,
                         std::optional<int> slots)
    : groups_(context.groups), options_(options), experts_(context.experts) {
  // What FSEP calls a node: hosts, if they are equal and divide or are divided by the EP group.
  grid_ = {groups_.size(), groups_.equal_blocks(), slots.value_or(std::max(1, experts_ / 4))};
  if (!slots) {
    while (grid_.slots_per_rank < experts_ && !suits(grid_.slots_per_rank)) ++grid_.slots_per_rank;
  } else if (!suits(*slots)) {
    throw Unsuitable(
        fmt::format("planner '{}' cannot place {} experts on {} ranks of {} slots",
                    fsep_planning_names[static_cast<std::size_t>(options_.planning)], experts_,
                    grid_.ranks, grid_.slots_per_rank),
        "every expert needs a slot; fsdp-ep and smart: the slots must divide the experts, and "
        "their quotient the ranks; laer without pq: the experts must divide all slots");
  }
  cost_.token = context.model.row_bytes();
  cost_.per_token_slot = options_.per_token_slot;
  cost_.activation_checkpointing = options_.checkpointing;
}

bool FsepPlanner::suits(int slots) const {
  const int all = grid_.ranks * slots;
  if (all < experts_) return false;
  switch (options_.planning) {
    case FsepPlanning::laer:
      return options_.queue || all % experts_ == 0;
    case FsepPlanning::fsdp_ep:
    case FsepPlanning::smart:
      return experts_ % slots == 0 && grid_.ranks % (experts_ / slots) == 0;
    default:
      return true;
  }
}

SlotTable FsepPlanner::first() const {
  if (options_.planning != FsepPlanning::even) return fsep::initial_slots(experts_, grid_);
  const std::vector<std::int64_t> equal(static_cast<std::size_t>(experts_), 1);
  return fsep::place(equal, fsep::queue_replicas(equal, grid_).of, grid_).slots;
}

bool FsepPlanner::replans() const {
  return options_.planning != FsepPlanning::even && options_.planning != FsepPlanning::initial;
}

std::string FsepPlanner::forced() const {
  int replicas = 1;
  switch (options_.planning) {
    case FsepPlanning::laer: {
      const std::vector<std::int64_t> any(static_cast<std::size_t>(experts_), 1);
      if (options_.queue) replicas = fsep::queue_replicas(any, grid_).base;
      break;
    }
    case FsepPlanning::flex:
      break;
    case FsepPlanning::smart:
      if (grid_.slots_per_rank == 1) replicas = grid_.slots() / experts_;
      break;
    default:
      return "";
  }
  if (replicas * experts_ != grid_.slots()) return "";
  return fmt::format(
      "had no slot to spare: any loads give each of {} experts {} replica{} in {} slots "
      "(placement.slots)",
      experts_, replicas, replicas == 1 ? "" : "s", grid_.slots());
}

SlotTable FsepPlanner::replan(int group, const LoadMatrix& loads, const SlotTable& current) const {
  switch (options_.planning) {
    case FsepPlanning::laer:
      return fsep::plan(loads, grid_, {cost_, options_.even, options_.queue, links(group)})
          .choice()
          .placed.slots;
    case FsepPlanning::fsdp_ep:
      return fsep::fsdp_ep_slots(experts_, grid_);
    case FsepPlanning::flex:
      return fsep::flex_plan(loads, current, grid_, options_.flex_steps).slots;
    case FsepPlanning::smart:
      return fsep::smart_slots(loads.per_expert(), grid_);
    default:
      return current;
  }
}

fsep::Links FsepPlanner::links(int group) const {
  if (!options_.cluster_bandwidths) return {};
  return [this, group](GpuId source, std::span<double> seconds) {
    const GpuId from = groups_.gpu(group, source);
    for (std::size_t to = 0; to < seconds.size(); ++to) {
      const GpuId rank(static_cast<std::int64_t>(to));
      seconds[to] = rank == source
                        ? 1 / cost_.same_rank.value
                        : seconds_per_byte(groups_.network(), from, groups_.gpu(group, rank));
    }
  };
}

namespace {

// Milliseconds by slots per rank (1, 2, 4, 8, 16) and ranks (64, 128, 256, 512, 1024).
constexpr std::size_t measured_sizes = 5;
constexpr std::array<std::array<double, measured_sizes>, measured_sizes> published = {{
    {0.49, 1.29, 3.59, 24.5, 99.8},
    {0.52, 1.54, 4.45, 28.6, 116},
    {0.75, 2.08, 6.05, 33.6, 131},
    {1.00, 2.94, 9.44, 46.6, 182},
    {1.75, 5.28, 17.4, 76.3, 282},
}};

/// A place between two neighbours of a row of powers of two.
struct Between {
  std::size_t low;
  double part;  // of the way to the next
};

Between between(int value, int first) {
  const double doublings = std::log2(static_cast<double>(value) / first);
  const double place = std::clamp(doublings, 0.0, static_cast<double>(measured_sizes - 1));
  const auto low = std::min(static_cast<std::size_t>(place), measured_sizes - 2);
  return {low, place - static_cast<double>(low)};
}

}  // namespace

Seconds published_planning_time(int ranks, int slots_per_rank) {
  const Between n = between(ranks, 64);
  const Between c = between(slots_per_rank, 1);
  const auto in_row = [&](std::size_t row) {
    return std::lerp(std::log(published[row][n.low]), std::log(published[row][n.low + 1]), n.part);
  };
  return Seconds(1e-3 * std::exp(std::lerp(in_row(c.low), in_row(c.low + 1), c.part)));
}

}  // namespace moesim
