// SPDX-License-Identifier: Apache-2.0
// MoETuner (arXiv 2502.06643): balanced clusters of experts per layer, placed on GPUs so that no
// pair of them carries too many transitions between layers.
#include "sim/balance/affinity/moetuner.h"

#include <algorithm>

#include "sim/policy/placement/affinity/affinity_profile.h"
#include "sim/policy/policies.h"

namespace moesim {
namespace {

/// A token row over the narrowest link of the first way from GPU to GPU, for the ranks of a run.
std::vector<double> seconds_per_token(const PlacementContext& c) {
  const auto n = static_cast<std::size_t>(c.ep);
  std::vector<double> seconds(n * n);
  for (int from = 0; from < c.ep; ++from) {
    for (int to = 0; to < c.ep; ++to) {
      if (from == to) continue;
      const Path way = c.topology.paths(GpuId(from), GpuId(to)).front();
      double slowest = 0;
      for (const LinkId link : way.links) {
        const BytesPerSecond bandwidth = c.topology.links()[link.index()].bandwidth;
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
  std::vector<SlotTable> place() override {
    return place_moetuner({all_loads(), all_pairs(), seconds_per_token(context()), context().ep})
        .layers;
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
