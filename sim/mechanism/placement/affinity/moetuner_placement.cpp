// SPDX-License-Identifier: Apache-2.0
// MoETuner (arXiv 2502.06643): balanced clusters of experts per layer, placed on GPUs so that no
// pair of them carries too many transitions between layers.
#include <algorithm>

#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/affinity/affinity_profile.h"
#include "sim/mechanism/placement/affinity/moetuner.h"

namespace moesim {
namespace {

/// A token row over the narrowest link of the first path from rank to rank, in the first EP group.
std::vector<double> seconds_per_token(const PlacementContext& c) {
  const int ranks = c.groups.size();
  const auto n = static_cast<std::size_t>(ranks);
  std::vector<double> seconds(n * n);
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      if (from == to) continue;
      const Topology& network = c.groups.network();
      const Path path =
          network.paths(c.groups.gpu(0, GpuId(from)), c.groups.gpu(0, GpuId(to))).front();
      double slowest = 0;
      for (const LinkId link : path.links) {
        const BytesPerSecond bandwidth = network.link(link).bandwidth;
        slowest = std::max(slowest, (c.model.row_bytes() / bandwidth).value);
      }
      seconds[GpuId(from).index() * n + GpuId(to).index()] = slowest;
    }
  }
  return seconds;
}

class MoeTuner final : public AllLayersPlanner {
 public:
  MoeTuner(const PlacementContext& context, const ProfileOptions& options)
      : AllLayersPlanner(context, options) {}

 private:
  std::vector<SlotTable> place_all() override {
    return place_moetuner({all_loads(), all_pairs(), seconds_per_token(context()), ep()}).layers;
  }
};

}  // namespace

// profile and others as of occult.
PlacementMaker read_moetuner(const YamlMap& params) {
  const ProfileOptions options = read_profile_options(params);
  return [options](const PlacementContext& context) {
    return std::make_unique<MoeTuner>(context, options);
  };
}

}  // namespace moesim
