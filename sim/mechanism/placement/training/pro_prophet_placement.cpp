// SPDX-License-Identifier: Apache-2.0
// Pro-Prophet: copies of loaded experts on most GPUs for one step, planned from the step before.
// Wang et al., arXiv 2411.10003; king0722/Pro-Prophet, load-balancing/search_algorithm.py.
#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/training/expert_copies.h"
#include "sim/mechanism/placement/training/planner_rates.h"
#include "sim/mechanism/placement/training/pro_prophet.h"

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
      : Copier(context, {setting.how}, when(setting), Keeps::by_rank),
        setting_(setting),
        throughput_(throughput_of(setting.rates, context)) {
    model_.input = context.model.row_bytes();
    model_.parameters = weight_bytes(context);
    model_.gradients = gradient_bytes(context);
    model_.bandwidth = bandwidth_of(setting.rates, context, CountedBytes::all_gpus);
    model_.throughput = 1 / choice_time(context.model, throughput_).value;
    model_.overlapped = setting.overlapped;
  }

 private:
  static PlanningOptions when(const ProphetSetting& setting) {
    PlanningOptions options;
    options.planning = setting.planning;
    return options;
  }

  /// No copies in the first step, before which nothing is known.
  StepSlots in_step(const GroupStep& at) override {
    if (seen(at.cell).empty()) return {at.slots};
    const LoadMatrix& last = seen(at.cell).newest();
    ProphetModel model = model_;
    model.dense_forward = dense_time(context().model, throughput_, mean_tokens(at.batch));
    model.dense_backward = model.dense_forward * 2.0;
    ProphetOptions options{setting_.balance, setting_.excluded};
    if (options.excluded < 0) options.excluded = excludable(last);
    options.excluded = std::min(options.excluded, ep() - 1);
    ProphetPlan p = prophet_plan(model, options, last, at.slots);
    return {std::move(p.table), std::move(p.broadcast), std::move(p.reduce), true};
  }

  ProphetSetting setting_;
  FlopsPerSecond throughput_;
  ProphetModel model_;
};

}  // namespace

// balance (3): alpha, how uneven loads may stay; excluded (auto): GPUs that a copy skips, a number
// or 1 if every expert has a GPU without choices for it; transfers (overlapped): hidden in the
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
