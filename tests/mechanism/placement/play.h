// SPDX-License-Identifier: Apache-2.0
// A placement that is shown the routing of one step after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/planner/iteration/planner.h"
#include "sim/planner/layer/count_loads.h"
#include "tests/mechanism/layer_tokens.h"

namespace moesim {

class Play {
 public:
  /// `placement` is YAML: a kind, or {kind: ..., ...}.
  Play(const std::string& placement, const Topology& topology, const MoeModel& model, int ep,
       int layers, bool backward)
      : model_(model), ranks_(topology.gpu_count()) {
    const SystemSpec system = parse_system(
        "{name: t, source: test, routing: identity, dispatch: alltoall, schedule: sequential, "
        "placement: " +
            placement + "}",
        "test");
    PlacementContext context{
        EpGroups(topology, ep), model_, model.experts, layers, backward, {}, 0, 0, {}};
    context.recorded = [this](int, int) { return std::vector{loads_}; };
    placer_ = system.placement.make(context);
  }
  Play(const Play&) = delete;
  Play& operator=(const Play&) = delete;

  /// Decides on the next step of a layer, or a further microbatch of it; `ids` holds the choices of
  /// every rank's tokens in turn.
  LayerDecision show(const std::vector<int>& ids, int layer = 0, bool begins = true) {
    const auto tokens = static_cast<std::int64_t>(ids.size()) / model_.top_k;
    const Tokens shown(ranks_, model_.experts, model_.top_k, tokens / ranks_, ids, 1);
    const IdRows rows = shown.step->ids(0);
    loads_ = count_loads(shown.batch, rows, model_.experts);
    if (layer == 0 && begins) ++step_;
    return placer_->decide({step_, layer, shown.batch, rows, loads_, begins});
  }
  const LoadMatrix& loads() const { return loads_; }  // of the last step shown
  bool reacts() const { return placer_->reacts(); }

 private:
  MoeModel model_;
  int ranks_;
  int step_ = -1;
  LoadMatrix loads_;
  std::unique_ptr<Placer> placer_;
};

/// So many choices of each expert, in the order of the experts.
inline std::vector<int> ids_of(const std::vector<int>& counts) {
  std::vector<int> ids;
  for (std::size_t e = 0; e < counts.size(); ++e) {
    ids.insert(ids.end(), static_cast<std::size_t>(counts[e]), static_cast<int>(e));
  }
  return ids;
}

using Experts = std::vector<std::vector<int>>;  // [gpu][slot]

inline Experts experts_of(const LayerDecision& decision) {
  Experts table;
  for (const auto& slots : decision.assignment.placement().table()) {
    auto& row = table.emplace_back();
    for (const ExpertId e : slots) row.push_back(e.value);
  }
  return table;
}

}  // namespace moesim
