// SPDX-License-Identifier: Apache-2.0
// PROBE (arXiv 2602.00509): the loads of the next layer are predicted, copies of its loaded experts
// are fetched while this one computes. Its code is not published. Interpreted: the predictor, which
// is a distilled router there and a profile here; the planner, which is that of UltraEP's quotas;
// and copies that do not pause while tokens are exchanged.
#include <memory>

#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/serving/exact_load.h"
#include "sim/mechanism/placement/serving/foretold.h"

namespace moesim {
namespace {

class Probe final : public Foretold {
 public:
  Probe(const PlacementContext& c, const SpillOptions& s, Foresight f, const exact_load::Quota& q)
      : Foretold(c, s, f), quota_(q), domain_(group_nodes(c).gpus_per_node) {}

 private:
  llep::Plan plan_for(const std::vector<std::int64_t>& counts) const override {
    return exact_load::ultra_ep(counts, ep(), domain_, quota_);
  }

  exact_load::Quota quota_;
  int domain_;
};

}  // namespace

// predictor: layer (default), step or oracle; slots: of a rank for copies (3); least_rows: worth a
// copy if no limit near the mean is met (1); received: keep or regather; planning_time (0 us).
PlacementMaker read_probe(const YamlMap& params) {
  const Foresight foresight = read_foresight(params, Foresight::layer);
  exact_load::Quota quota;
  quota.slots = static_cast<int>(params.integer("slots", {1, 512}, 3));
  quota.least = params.integer("least_rows", {1, 1 << 30}, 1);
  const SpillOptions spill = read_spill_options(params);
  return [=](const PlacementContext& context) {
    return std::make_unique<Probe>(context, spill, foresight, quota);
  };
}

}  // namespace moesim
