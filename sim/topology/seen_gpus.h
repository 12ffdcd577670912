// SPDX-License-Identifier: Apache-2.0
// Which GPUs of a cluster have ranks in a topology: all, or those of a slice.
#pragma once

#include <vector>

#include "sim/topology/topology.h"

namespace moesim {

class SeenGpus {
 public:
  /// All GPUs of a cluster.
  explicit SeenGpus(int cluster);
  /// Ranks 0 .. n - 1 in the order given. Throws std::invalid_argument unless there is one, and
  /// each is a GPU of the cluster, once.
  SeenGpus(std::vector<GpuId> gpus, int cluster);

  int size() const { return static_cast<int>(gpus_.size()); }
  /// The GPU of a rank, as the cluster numbers it.
  GpuId operator[](GpuId rank) const { return gpus_[rank.index()]; }
  /// Those of `seen`, which counts in ranks of this one.
  SeenGpus of(const std::vector<GpuId>& seen) const;

 private:
  std::vector<GpuId> gpus_;
  int cluster_;  // how many GPUs it has
};

/// The groups that `gpus` have part in, numbered by their first rank.
std::vector<Level> levels_among(const std::vector<Level>& levels, const std::vector<GpuId>& gpus);

/// Numbers from 0 on in place of others, by their first places.
std::vector<int> numbered_anew(const std::vector<int>& numbers);

}  // namespace moesim
