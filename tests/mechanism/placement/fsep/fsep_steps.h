// SPDX-License-Identifier: Apache-2.0
// FSEP and its baselines through the whole step planner, on steps that a test makes up.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "sim/base/data_files.h"
#include "sim/planner/iteration/planner.h"
#include "sim/planner/layer/count_loads.h"
#include "tests/mechanism/random_layers.h"

namespace moesim {

inline constexpr int fsep_tokens_per_rank = 16;

inline const Topology& laer_a100() {
  static const TopologyFile file = read_topology(data_file("topologies", "laer-a100"));
  return file.topology;
}

inline SystemSpec system_of(const std::string& placement) {
  return parse_system(
      "{name: t, source: test, routing: identity, dispatch: alltoall, schedule: {kind: overlap, "
      "reduce: delayed}, placement: " +
          placement + "}",
      "test");
}

/// Steps of one layer; in step s a token's choices are shifted towards expert hot(s).
inline RoutingTrace trace_of(const MoeModel& model, int ranks, int layers, int steps,
                             const std::function<int(int)>& hot) {
  TraceInfo info{"t", "toy", model.experts, model.top_k, {}, Phase::synthetic, ""};
  for (int l = 0; l < layers; ++l) info.layers.push_back(l);
  std::vector<std::shared_ptr<const TraceStep>> all;
  for (int s = 0; s < steps; ++s) {
    std::mt19937 random(static_cast<unsigned>(s) + 1);
    std::vector<int> ids;
    for (int t = 0; t < ranks * fsep_tokens_per_rank * layers; ++t) {
      const int first = random() % 4 > 0 ? hot(s) : static_cast<int>(random() % 8) % model.experts;
      for (int k = 0; k < model.top_k; ++k) ids.push_back((first + 3 * k) % model.experts);
    }
    StepArrays arrays;
    arrays.ids = IdArray(model.experts, ids);
    for (int r = 0; r < ranks; ++r) arrays.sequence_lengths.push_back(fsep_tokens_per_rank);
    all.push_back(make_step(info, std::move(arrays)));
  }
  return {info, all};
}

/// A system's plans for all steps of a trace.
struct FsepSteps {
  FsepSteps(const std::string& placement, const Topology& topology, const MoeModel& model,
            const RoutingTrace& trace, int ep, bool backward = true) {
    PlannerOptions options;
    options.ep = ep;
    options.backward = backward;
    if (!backward) options.state = {0, 0};
    for (std::size_t l = 0; l < trace.info().layers.size(); ++l) {
      options.layers.push_back(static_cast<int>(l));
    }
    const SystemSpec system = system_of(placement);
    Planner planner(system, topology, model, trace, options);
    for (int s = 0; s < trace.step_count(); ++s) {
      Batch batch;
      batch.step = s;
      for (int r = 0; r < topology.gpu_count(); ++r) {
        batch.ranks.push_back({{std::int64_t{r} * fsep_tokens_per_rank, fsep_tokens_per_rank}});
      }
      plans.push_back(planner.plan(batch, s));
      loads.push_back(count_loads(batch, trace.step(s).ids(0), model.experts));
    }
  }
  SlotTable slots(std::size_t step) const {
    return plans[step].layers[0].assignment().placement().table();
  }
  std::vector<PlannedStep> plans;
  std::vector<LoadMatrix> loads;  // [step] of the first layer
};

inline MoeModel fsep_model(int experts = 8) {
  MoeModel model;
  model.hidden = 16;
  model.experts = experts;
  model.top_k = 2;
  model.expert_ffn = 4;  // 192 parameters
  return model;
}

}  // namespace moesim
