// SPDX-License-Identifier: Apache-2.0
// The base of placements that plan a layer before its gate, by predicted loads. Tokens then go
// where the true gate sends them: what was mispredicted is paid for.
#pragma once

#include <vector>

#include "sim/mechanism/placement/serving/adjacent_layers.h"
#include "sim/mechanism/placement/serving/spilling.h"

namespace moesim {

enum class Foresight {
  layer,  // by the gate of the layer before, and what followed such choices in earlier steps
  step,   // the layer's loads of the step or microbatch before
  oracle  // the true loads: a bound
};

/// `predictor`: layer, step or oracle.
Foresight read_foresight(const YamlMap& params, Foresight absent);

class Foretold : public Spilling {
 public:
  Foretold(const PlacementContext& context, const SpillOptions& options, Foresight foresight);

 protected:
  /// A plan for predicted choices per expert, in the ranks of an EP group.
  virtual llep::Plan plan_for(const std::vector<std::int64_t>& counts) const = 0;

 private:
  llep::Plan plan_of(const GroupStep& at) const final;
  /// The true choices of an expert in the ratio of the plan; all at its owner if none was foreseen.
  Assignment assign(const GroupStep& at, Placement slots) override;
  void observe(const GroupStep& at) override;
  void observe_all(const LayerRoutingNow& now, bool begins) override;
  std::vector<double> expected(const GroupStep& at) const;

  Foresight foresight_;
  AdjacentLayers adjacent_;
  std::vector<std::vector<double>> newest_;  // [cell] choices per expert; empty before the first
};

}  // namespace moesim
