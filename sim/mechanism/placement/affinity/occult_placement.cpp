// SPDX-License-Identifier: Apache-2.0
// Placement rescheduling of Occult (arXiv 2505.13345): experts chosen together share a GPU.
#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/affinity/affinity_profile.h"
#include "sim/mechanism/placement/affinity/occult.h"

namespace moesim {
namespace {

class Occult final : public ProfiledPlanner {
 public:
  Occult(const PlacementContext& context, const ProfileOptions& options)
      : ProfiledPlanner(context, options, Pairs::co_choices) {
    check_equal_slots(context, "occult");
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
