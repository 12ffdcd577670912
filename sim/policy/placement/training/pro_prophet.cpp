// SPDX-License-Identifier: Apache-2.0
// Pro-Prophet: copies of loaded experts on most GPUs for one step, planned from the step before.
// Wang et al., arXiv 2411.10003; king0722/Pro-Prophet, load-balancing/search_algorithm.py.
#include "sim/balance/training/pro_prophet.h"

#include "sim/policy/placement/lagged.h"
#include "sim/policy/placement/training/copier.h"
#include "sim/policy/placement/training/planner_rates.h"
#include "sim/policy/policies.h"

namespace moesim {
namespace {

struct ProphetSetting {
  double balance = 3;
  int excluded = -1;  // below 0: as the public code
  bool overlapped = true;
  Broadcast how = Broadcast::chain;
  Seconds planning;
  PlannerRates rates;
};

class ProProphet final : public Copier {
 public:
  ProProphet(const PlacementContext& context, const ProphetSetting& setting)
      : Copier(context, setting.how),
        setting_(setting),
        throughput_(throughput_of(setting.rates, context)),
        last_(static_cast<std::size_t>(context.layers)) {
    model_.input = context.model.row_bytes();
    model_.parameters = weight_bytes(context);
    model_.gradients = gradient_bytes(context);
    model_.bandwidth = bandwidth_of(setting.rates, context, CountedBytes::all_gpus);
    model_.throughput = 1 / choice_time(context.model, throughput_).value;
    model_.overlapped = setting.overlapped;
  }

  LayerDecision decide(const LayerRoutingNow& now) override {
    LoadMatrix& last = last_[static_cast<std::size_t>(now.layer)];
    model_.dense_forward = dense_time(context().model, throughput_, mean_tokens(now.batch));
    model_.dense_backward = model_.dense_forward * 2.0;
    LayerDecision decision = Copier::decide(now);
    decision.planned = last.sources() > 0;
    decision.planning = decision.planned ? setting_.planning : Seconds(0);
    last = now.loads;
    return decision;
  }

 private:
  /// No copies in the first step, before which nothing is known.
  StepCopies copies(const LayerRoutingNow& now, int first, SlotTable homes) override {
    const LoadMatrix& last = last_[static_cast<std::size_t>(now.layer)];
    if (last.sources() == 0) return {std::move(homes), {}, {}};
    const LoadMatrix loads = rows_of(last, first, context().ep);
    ProphetOptions options{setting_.balance, setting_.excluded};
    if (options.excluded < 0) options.excluded = excludable(loads);
    options.excluded = std::min(options.excluded, context().ep - 1);
    ProphetPlan p = prophet_plan(model_, options, loads, homes);
    return {std::move(p.table), std::move(p.broadcast), std::move(p.reduce)};
  }

  ProphetSetting setting_;
  FlopsPerSecond throughput_;
  ProphetModel model_;
  std::vector<LoadMatrix> last_;  // [layer] the step before; empty before the first
};

}  // namespace

// balance (3): alpha, how uneven loads may stay; excluded (auto): GPUs that a copy skips, a number
// or 1 where every expert has a GPU without choices for it; transfers (overlapped): hidden in the
// performance model, or exposed; broadcast (chain): of parameters and, reversed, gradients: chain,
// by-node or direct; bandwidth of a GPU (default: its share of a uniform all-to-all) and throughput
// (default: that of its GEMMs) in the model; planning_time (0 s) of a layer, hidden.
PlacementMaker read_pro_prophet(const YamlMap& params) {
  ProphetSetting s;
  s.balance = params.number("balance", positive, s.balance);
  const auto excluded = params.find("excluded");
  if (excluded && !(excluded->is_scalar() && excluded->string() == "auto")) {
    s.excluded = static_cast<int>(excluded->integer({0, 1 << 20}));
  }
  s.overlapped = params.choice("transfers", {"overlapped", "exposed"}, 0) == 0;
  s.how = static_cast<Broadcast>(params.choice("broadcast", broadcast_names, 2));
  s.rates = read_planner_rates(params);
  s.planning = params.seconds("planning_time", s.planning);
  return [s](const PlacementContext& context) { return std::make_unique<ProProphet>(context, s); };
}

}  // namespace moesim
