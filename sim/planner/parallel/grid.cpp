// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/parallel/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/id_vector.h"
#include "sim/base/place_of.h"

namespace moesim {
namespace {

using Names = std::vector<std::string>;

const Names axis_names = {"tp", "cp", "ep", "dp", "pp"};

/// "tp-cp" -> tp, cp. Throws Error for what is not an axis, or twice.
Names axes_of(const std::string& order) {
  Names axes;
  for (std::size_t start = 0; start <= order.size();) {
    const std::size_t end = std::min(order.find('-', start), order.size());
    const std::string name = order.substr(start, end - start);
    if (std::ranges::find(axis_names, name) == axis_names.end()) {
      throw Error(fmt::format("the order {} has no axis '{}'", order, name),
                  "axes are tp, cp, ep, dp and pp, as in tp-cp-ep-dp-pp");
    }
    if (std::ranges::find(axes, name) != axes.end()) {
      throw Error(fmt::format("the order {} has {} twice", order, name));
    }
    axes.push_back(name);
    start = end + 1;
  }
  return axes;
}

/// A grid of these sizes in that order; axes of size 1 may be missing in it.
RankGrid grid_of(const std::string& order, const std::vector<GridAxis>& sizes) {
  const Names axes = axes_of(order);
  std::vector<GridAxis> ordered;
  for (const std::string& name : axes) {
    const auto at = std::ranges::find(sizes, name, &GridAxis::name);
    ordered.push_back(at == sizes.end() ? GridAxis{name, 1} : *at);
  }
  for (const GridAxis& axis : sizes) {
    if (axis.size == 1 || std::ranges::find(axes, axis.name) != axes.end()) continue;
    throw Error(
        fmt::format("the order {} lacks {}, which has size {}", order, axis.name, axis.size),
        "every axis larger than 1 has its place in the order");
  }
  return RankGrid(std::move(ordered));
}

void check_sizes(const ParallelSizes& s, int gpus) {
  const std::pair<const char*, int> sizes[] = {{"tp", s.tp},
                                               {"cp", s.cp},
                                               {"pp", s.pp},
                                               {"vpp", s.vpp},
                                               {"ep", s.ep},
                                               {"etp", s.etp.value_or(1)},
                                               {"dp", s.dp.value_or(1)}};
  for (const auto& [name, size] : sizes) {
    if (size < 1) throw Error(fmt::format("{} = {} is not a degree of parallelism", name, size));
  }
  if (s.vpp > 1 && s.pp == 1) {
    throw Error(fmt::format("vpp = {} with pp = 1", s.vpp),
                "stages of a pipeline hold several chunks of layers: pp must be larger than 1");
  }
  const std::int64_t dense = std::int64_t{s.tp} * s.cp * s.pp;
  if (gpus % dense != 0) {
    throw Error(fmt::format("{} cannot form a grid of tp {} x cp {} x pp {}", counted(gpus, "GPU"),
                            s.tp, s.cp, s.pp),
                "tp x cp x pp must divide the number of GPUs");
  }
  if (s.dp && *s.dp * dense != gpus) {
    throw Error(fmt::format("tp {} x cp {} x dp {} x pp {} are {}, not {}", s.tp, s.cp, *s.dp, s.pp,
                            counted(*s.dp * dense, "GPU"), gpus),
                fmt::format("the product must be the number of GPUs: dp = {}", gpus / dense));
  }
  const int etp = s.etp.value_or(s.tp);
  if (gpus % (std::int64_t{etp} * s.ep * s.pp) != 0) {
    throw Error(
        fmt::format("{} cannot form a grid of etp {} x ep {} x pp {}{}", counted(gpus, "GPU"), etp,
                    s.ep, s.pp, s.etp ? "" : " (etp is tp unless it is given)"),
        "etp x ep x pp must divide the number of GPUs");
  }
}

}  // namespace

int RankGrid::coordinate(int rank, const std::string& axis) const {
  int stride = 1;
  for (const GridAxis& a : axes_) {
    if (a.name == axis) return rank / stride % a.size;
    stride *= a.size;
  }
  return 0;
}

std::vector<int> RankGrid::groups(int ranks, const std::vector<std::string>& axes) const {
  std::vector<int> group_of;
  for (int rank = 0; rank < ranks; ++rank) {
    // The digits of the other axes are the group's number: with the last axis the most significant
    // one, as in the rank, groups ascend with their first rank.
    int group = 0, stride = 1, numbers = 1;
    for (const GridAxis& a : axes_) {
      if (std::ranges::find(axes, a.name) == axes.end()) {
        group += rank / stride % a.size * numbers;
        numbers *= a.size;
      }
      stride *= a.size;
    }
    group_of.push_back(group);
  }
  return group_of;
}

void check_axis_order(const std::string& order) { axes_of(order); }

const char* name_of(ParallelAxis axis) {
  static constexpr const char* names[] = {"tp",  "cp",  "dp",    "pp",    "ep",
                                          "etp", "edp", "tp-cp", "dp-cp", "etp-ep"};
  return names[static_cast<int>(axis)];
}

Grid::Grid(const ParallelSizes& sizes, int gpus) : vpp_(sizes.vpp) {
  check_sizes(sizes, gpus);
  const int etp = sizes.etp.value_or(sizes.tp);
  const int dp = gpus / (sizes.tp * sizes.cp * sizes.pp);
  const int edp = gpus / (etp * sizes.ep * sizes.pp);
  const std::string& order = sizes.order;
  const RankGrid dense =
      grid_of(order, {{"tp", sizes.tp}, {"cp", sizes.cp}, {"dp", dp}, {"pp", sizes.pp}});
  const RankGrid expert =
      grid_of(order, {{"tp", etp}, {"ep", sizes.ep}, {"dp", edp}, {"pp", sizes.pp}});
  const bool pp_last = axes_of(order).back() == "pp" || sizes.pp == 1;
  if ((!pp_last && dp != edp) || dense.groups(gpus, {"pp"}) != expert.groups(gpus, {"pp"})) {
    throw Error(
        fmt::format("in the order {} dense layers and experts have different pipelines", order),
        fmt::format("let pp come last, or let dp and edp be the same: they are {} and {}", dp,
                    edp));
  }

  stages_.resize(static_cast<std::size_t>(sizes.pp));
  for (const GpuId gpu : ids<GpuId>(gpus)) {
    const auto of = [&](const RankGrid& grid, const char* axis) {
      return grid.coordinate(gpu.value, axis);
    };
    places_.push_back({of(dense, "tp"), of(dense, "cp"), of(dense, "dp"), of(dense, "pp"),
                       of(expert, "tp"), of(expert, "ep"), of(expert, "dp")});
    stages_[static_cast<std::size_t>(places_.back().pp)].push_back(gpu);
  }

  const auto add = [&](ParallelAxis axis, const RankGrid& grid, const Names& names) {
    Groups& groups = groups_[static_cast<std::size_t>(axis)];
    groups.of = grid.groups(gpus, names);
    groups.lists.resize(static_cast<std::size_t>(std::ranges::max(groups.of)) + 1);
    for (const GpuId gpu : ids<GpuId>(gpus)) {
      groups.lists[static_cast<std::size_t>(groups.of[gpu.index()])].push_back(gpu);
    }
    groups.size = static_cast<int>(groups.lists.front().size());
  };
  add(ParallelAxis::tp, dense, {"tp"});
  add(ParallelAxis::cp, dense, {"cp"});
  add(ParallelAxis::dp, dense, {"dp"});
  add(ParallelAxis::pp, dense, {"pp"});
  add(ParallelAxis::tp_cp, dense, {"tp", "cp"});
  add(ParallelAxis::dp_cp, dense, {"dp", "cp"});
  add(ParallelAxis::ep, expert, {"ep"});
  add(ParallelAxis::etp, expert, {"tp"});
  add(ParallelAxis::edp, expert, {"dp"});
  add(ParallelAxis::etp_ep, expert, {"tp", "ep"});
}

std::vector<GpuId> Grid::stage_by(ParallelAxis axis, int pp) const {
  if (axis == ParallelAxis::pp) throw std::invalid_argument("pipelines do not lie within a stage");
  std::vector<GpuId> gpus;
  for (const auto& group : groups(axis)) {
    if (place(group.front()).pp == pp) gpus.insert(gpus.end(), group.begin(), group.end());
  }
  return gpus;
}

int Grid::member(ParallelAxis axis, GpuId gpu) const {
  const Groups& all = groups_of(axis);
  const auto& group = all.lists[static_cast<std::size_t>(all.of[gpu.index()])];
  return static_cast<int>(place_of(group, gpu));
}

}  // namespace moesim
