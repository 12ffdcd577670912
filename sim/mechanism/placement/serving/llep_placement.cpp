// SPDX-License-Identifier: Apache-2.0
// LLEP, least-loaded expert parallelism (arXiv 2601.17111): once the gate has spoken, GPUs above
// capacity hand token-slots to the least loaded ones, with the weights of their experts.
#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/serving/spilling.h"

namespace moesim {
namespace {

class Llep final : public Spilling {
 public:
  Llep(const PlacementContext& c, const SpillOptions& o, const llep::Parameters& p, double lambda)
      : Spilling(c, o), parameters_(p), lambda_(lambda) {}

 private:
  llep::Plan plan_of(const GroupStep& at) const override {
    const auto counts = at.loads.per_expert();
    return llep::applies(counts, ep(), lambda_) ? llep::plan(counts, ep(), parameters_)
                                                : native_plan(counts.size(), ep());
  }

  llep::Parameters parameters_;
  double lambda_;
};

}  // namespace

// lambda: experts spill when the largest over the mean load of the EP group's ranks reaches it
// (default 0: always); alpha: capacity of a rank over the mean load (1.1); least_chunk: token-slots
// worth a transfer (1024). Defaults are published. received: regather (default: weights are dropped
// after the forward pass and sent again) or keep (unstated). planning_time: of every layer, its
// dispatch waits (0 us, unstated; the all-gather of counts is not simulated).
PlacementMaker read_llep(const YamlMap& params) {
  const double lambda = params.number("lambda", non_negative, 0);
  llep::Parameters parameters;
  parameters.alpha = params.number("alpha", positive, 1.1);
  parameters.least_chunk = params.integer("least_chunk", {1, 1 << 30}, 1024);
  SpillOptions o;
  o.keeps = params.choice("received", {"regather", "keep"}, 0) == 1;
  o.planning = params.seconds("planning_time", Seconds(0));
  return [=](const PlacementContext& context) {
    return std::make_unique<Llep>(context, o, parameters, lambda);
  };
}

}  // namespace moesim
