// SPDX-License-Identifier: Apache-2.0
// The inputs of a scenario, opened and checked against each other before anything runs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/base/files.h"
#include "sim/model/gpu_model.h"
#include "sim/model/moe_model.h"
#include "sim/model/software.h"
#include "sim/planner/layer/layer_planner.h"
#include "sim/planner/system.h"
#include "sim/scenario/scenario.h"
#include "sim/topology/gpu_costs.h"
#include "sim/topology/reader.h"
#include "sim/trace/batches.h"

namespace moesim {

struct Connections;
struct InputCache;

struct OpenedScenario;

struct ClusterInput {
  InputFile file;
  Topology topology;
  GpuModels gpus;
  std::vector<InputFile> gpu_files;
  int ep = 0;       // expert-parallel degree of the policies that have no inputs of their own
  Batches batches;  // of the chosen steps
  int first_step = 0;
  std::vector<Batch> warmup;    // of the steps just before them
  std::string unsuitable = {};  // why nothing runs on it, though on other clusters; else empty
  std::shared_ptr<const Connections> connections = {};  // of ranks, for `flow`; none: fair shares
  GpuCosts costs = {};
};

struct Inputs {
  RoutingTrace trace;
  MoeModel model;
  InputFile model_file;
  std::vector<ClusterInput> clusters;  // one per topology of the scenario
  std::vector<SystemSpec> systems;
  std::vector<InputFile> system_files;
  std::vector<int> layers;  // indices into TraceInfo::layers that are replayed
  std::vector<Diagnostic> warnings;
  std::vector<InputFile> transport_files = {};  // of what carries exchanges, by name
  Software software = {};                       // of iterations
  InputFile software_file = {};
  InputFile engine_file = {}, request_file = {};  // of runs of engines, if they have such
  std::string trace_key = {};                     // tells the trace from others in a cache
  /// [policy] its own scenario and inputs, if it differs from the others in more than its file;
  /// else null. Empty if no policy does.
  std::vector<std::shared_ptr<OpenedScenario>> own = {};

  PlannerOptions planner_options(const Scenario& scenario, const ClusterInput& cluster) const;
  /// Reads all of it, because its hash is that of its content.
  InputFile trace_file() const { return {trace.info().name, trace.hash()}; }
};

/// A scenario with what it opens. Of one policy of another scenario (Inputs::own): as it reads for
/// that policy, with the same topologies in the same order.
struct OpenedScenario {
  Scenario scenario;
  Inputs inputs;
};

/// What a policy is planned from. All of it lives as long as the scenario and its inputs.
struct PolicyView {
  const Scenario& scenario;
  const Inputs& inputs;
  const SystemSpec& system;
};

/// The view of a policy, an index into Inputs::systems.
PolicyView view_of(const Scenario& scenario, const Inputs& inputs, std::size_t policy);

/// Opens everything a scenario names. Throws Error for what cannot be: more experts or choices than
/// the model, unknown layers, two policies or clusters of one name, and, if it holds for every
/// cluster, an expert-parallel degree that does not fit, too few tokens, unknown steps.
/// Microbatches of iterations are cut by their planner.
Inputs open_inputs(const Scenario& scenario);
/// The same; what other scenarios have opened comes from the cache.
Inputs open_shared_inputs(const Scenario& scenario, InputCache& cache);
/// As Inputs::trace_file, of inputs from the cache.
InputFile shared_trace_file(const Scenario& scenario, const Inputs& inputs, InputCache& cache);

}  // namespace moesim
