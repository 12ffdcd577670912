// SPDX-License-Identifier: Apache-2.0
// Process groups of a training job in Megatron-Core's terms: which GPUs share a tensor, a sequence,
// the replicas of a parameter, a pipeline. One grid of ranks: a rank is a number whose digits are
// its coordinates.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/types.h"

namespace moesim {

/// An axis of a grid with its size, such as {"tp", 8}.
struct GridAxis {
  std::string name;
  int size = 1;
};

/// rank = sum of coordinate[i] x product of the sizes of the axes before i.
class RankGrid {
 public:
  /// The axis of neighbouring ranks first.
  explicit RankGrid(std::vector<GridAxis> axes) : axes_(std::move(axes)) {}

  /// The coordinate of a rank on an axis; 0 for an axis that there is not.
  int coordinate(int rank, const std::string& axis) const;
  /// Per rank of so many the group it is in, if the ranks of a group differ only in these axes;
  /// groups are numbered by their first rank.
  std::vector<int> groups(int ranks, const std::vector<std::string>& axes) const;

 private:
  std::vector<GridAxis> axes_;
};

/// Megatron-Core's sizes. Attention and dense blocks are on the grid tp x cp x dp x pp, experts on
/// the grid etp x ep x edp x pp of the same GPUs (MoE Parallel Folding, arXiv 2504.14960).
struct ParallelSizes {
  int tp = 1;                   // tensor (and sequence) parallel
  int cp = 1;                   // context parallel
  int pp = 1;                   // pipeline stages
  int vpp = 1;                  // chunks of layers that a stage holds
  int ep = 1;                   // expert parallel
  std::optional<int> etp = {};  // tensor parallel of experts; default: tp
  std::optional<int> dp = {};   // replicas; default: what the GPUs leave
  /// Axes from the one of neighbouring ranks on; those of size 1 may be left out. "tp" stands for
  /// etp and "dp" for edp on the grid of the experts, which has no cp.
  std::string order = "tp-cp-ep-dp-pp";
  bool operator==(const ParallelSizes&) const = default;
};

/// Throws Error for what is not an axis in an order, or twice in it.
void check_axis_order(const std::string& order);

/// What the GPUs of a group differ in.
enum class ParallelAxis {
  tp,
  cp,
  dp,
  pp,      // the stages of one pipeline
  ep,      // who exchanges tokens
  etp,     // who shares the tensors of an expert
  edp,     // who holds the same experts
  tp_cp,   // who shares a sequence
  dp_cp,   // who holds the same dense parameters
  etp_ep,  // who holds each expert of a layer once
};
inline constexpr int parallel_axis_count = static_cast<int>(ParallelAxis::etp_ep) + 1;
/// "tp", "dp-cp", "etp-ep" ...
const char* name_of(ParallelAxis axis);

/// Where a GPU is on both grids.
struct GridPlace {
  int tp = 0, cp = 0, dp = 0, pp = 0, etp = 0, ep = 0, edp = 0;
  bool operator==(const GridPlace&) const = default;
};

/// Groups of GPUs; every GPU is in one of them.
using GpuGroups = std::vector<std::vector<GpuId>>;

class Grid {
 public:
  /// Throws Error naming the rule that the sizes break:
  ///  - every size is at least 1, vpp > 1 needs pp > 1;
  ///  - tp x cp x pp divides the GPUs, and times dp, if given, is the GPUs;
  ///  - etp x ep x pp divides the GPUs;
  ///  - `order` has each of tp, cp, ep, dp, pp at most once and all that are larger than 1;
  ///  - both grids have the same pipelines: "pp" comes last in `order`, or pp = 1, or dp = edp and
  ///    the axes around "pp" have the same sizes on both.
  Grid(const ParallelSizes& sizes, int gpus);

  int gpus() const { return static_cast<int>(places_.size()); }
  /// GPUs of a group of that axis.
  int size(ParallelAxis axis) const { return groups_of(axis).size; }
  int vpp() const { return vpp_; }

  GridPlace place(GpuId gpu) const { return places_[gpu.index()]; }
  /// Which of `copies` equal parts of the replicas a GPU is in.
  int copy_of(GpuId gpu, int copies) const {
    return place(gpu).dp / (size(ParallelAxis::dp) / copies);
  }
  /// All GPUs of a pipeline stage, 0 .. pp - 1, ascending.
  const std::vector<GpuId>& stage(int pp) const { return stages_[static_cast<std::size_t>(pp)]; }
  /// The same, the groups of an axis within stages one after the other: those of EP groups are then
  /// consecutive ranks of Topology::of_gpus, whatever their places in the cluster.
  std::vector<GpuId> stage_by(ParallelAxis axis, int pp) const;
  int stages() const { return static_cast<int>(stages_.size()); }

  /// Groups ascend in their first GPU, GPUs in their group: the member with index i has coordinate
  /// i on the axis; of two axes the one that comes first in `order` runs faster.
  const GpuGroups& groups(ParallelAxis axis) const { return groups_of(axis).lists; }
  /// An index into groups(axis).
  int group_of(ParallelAxis axis, GpuId gpu) const { return groups_of(axis).of[gpu.index()]; }
  /// Which member of its group a GPU is.
  int member(ParallelAxis axis, GpuId gpu) const;

 private:
  struct Groups {
    int size = 1;
    GpuGroups lists;
    std::vector<int> of;  // per GPU
  };
  const Groups& groups_of(ParallelAxis axis) const {
    return groups_[static_cast<std::size_t>(axis)];
  }

  int vpp_;
  std::vector<GridPlace> places_;
  std::vector<std::vector<GpuId>> stages_;
  std::array<Groups, parallel_axis_count> groups_;
};

}  // namespace moesim
