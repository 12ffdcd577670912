// SPDX-License-Identifier: Apache-2.0
// The placement of ExFlow (arXiv 2401.08383): experts that follow each other over the layers share
// a GPU. Its context coherence, by which a token continues from the GPU of its expert, is not part
// of this.
#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/affinity/affinity_profile.h"
#include "sim/mechanism/placement/affinity/exflow.h"

namespace moesim {
namespace {

class ExFlow final : public AllLayersPlanner {
 public:
  ExFlow(const PlacementContext& context, const ProfileOptions& options, SwapSearch search)
      : AllLayersPlanner(context, options), nodes_(group_nodes(context)), search_(search) {
    check_equal_slots(context);
  }

 private:
  std::vector<SlotTable> place_all() override {
    return place_exflow(all_pairs(), context().experts, nodes_.nodes, nodes_.gpus_per_node,
                        search_);
  }
  GroupNodes nodes_;
  SwapSearch search_;
};

}  // namespace

// profile and others as of occult; kicks: how often the search shuffles a layer.
PlacementMaker read_exflow(const YamlMap& params) {
  const ProfileOptions options = read_profile_options(params);
  SwapSearch search;
  search.kicks = static_cast<int>(params.integer("kicks", {0, 1 << 20}, search.kicks));
  return [=](const PlacementContext& context) {
    return std::make_unique<ExFlow>(context, options, search);
  };
}

}  // namespace moesim
