// SPDX-License-Identifier: Apache-2.0
// A scenario: which cluster, model, trace and policies to run. See docs/scenarios.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/yaml.h"
#include "sim/planner/iteration/iteration_spec.h"
#include "sim/topology/cluster_limits.h"
#include "sim/trace/synth/synth_reader.h"

namespace moesim {

struct EngineRun;

enum class Fidelity { port, flow, simgrid, analytic };
inline const std::vector<std::string> fidelity_names = {"port", "flow", "simgrid", "analytic"};
/// Whether it simulates a flow per pair of GPUs.
constexpr bool has_flows(Fidelity fidelity) {
  return fidelity == Fidelity::flow || fidelity == Fidelity::simgrid;
}

/// In which order an exchange serves its peers, if it has flows.
enum class P2pOrder { all_at_once, nccl };

/// Which layers must fit into the GPUs; a case that does not fit is refused.
enum class MemoryCheck { replayed, model, ignore };
inline const std::vector<std::string> memory_checks = {"check", "model", "ignore"};

/// A half-open range of simulated steps; last = -1 means to the end.
struct StepRange {
  int first = 0;
  int last = -1;
};

/// The transports of a scenario that need no file: links as topologies state them, and each
/// policy's own.
inline const std::string ideal_transport = "ideal", own_transport = "own";

/// What iterations assume that name no software: what published iterations were predicted with.
inline const std::string default_software = "megatron-core";
/// The same of passes of serving.
inline const std::string serving_software = "serving-engine";

/// A line of the scenario's file that names an input, as `key: name`.
struct NamedAt {
  std::string key, name;
  int line = 0;  // from 1
};

/// What the user asked for, before any input is opened. Lists make a grid of cases.
struct Scenario {
  std::vector<std::string> topologies;  // names or paths
  std::string model;                    // name or path
  std::string trace;  // a trace directory, as it was found; empty if nothing recorded is played
  std::optional<SynthOptions> synth;      // in its place: drawn; what the model says is left out
  std::vector<std::string> policies;      // names of models/system, or paths
  std::string transport = own_transport;  // or ideal, a name of transports, a path
  std::vector<Fidelity> fidelities;
  std::int64_t most_gpus = ClusterLimits().gpus;  // of a cluster
  P2pOrder p2p_order = P2pOrder::all_at_once;
  std::optional<int> ep;  // expert-parallel degree; default: as large as fits
  std::optional<std::int64_t> tokens_per_rank;
  int repeat = 1;
  StepRange steps;
  int warmup = 0;                // steps before `steps` that planners see and no figure counts
  bool recorded_layers = false;  // replay what the trace has, whatever the model says
  std::vector<int> layers;       // model layer numbers; empty: all
  bool backward = true;
  bool attention = true;  // as compute of every layer, if the model describes it
  MemoryCheck memory = MemoryCheck::replayed;
  int accumulate = 1;        // steps that share a sum of expert gradients; 0: never summed
  int gradient_bytes = 2;    // per expert parameter
  int optimizer_bytes = 12;  // per expert parameter
  std::optional<IterationSpec> iteration;  // whole training iterations in place of steps
  /// Requests that passes of serving answer, and the engine that forms the passes; null: one pass.
  std::shared_ptr<const EngineRun> engine_run;
  std::string software;          // of iterations, a name or path; empty for steps
  bool software_stated = false;  // else it is the default
  /// topology.*, model.*, gpu.*, policy.*, transport.*, software.*; only one: policy:NAME.*;
  /// keys of one policy: scenario:NAME.*
  std::vector<Override> set;
  std::string file;            // which it was read from; empty if flags say all
  std::vector<NamedAt> named;  // the inputs that `file` names; none of the inputs that flags name
  /// [policy] the scenario as it reads with the policy's own keys (scenario:NAME.KEY), which names
  /// no other policy; null if it has none. Empty if no policy has, or if there is only one, whose
  /// keys are those of the scenario.
  std::vector<std::shared_ptr<const Scenario>> own;

  /// Whether choices of experts are played, recorded or drawn; else every expert has as many
  /// tokens.
  bool plays_choices() const { return !trace.empty() || synth; }
  /// Whether its steps are passes of a serving engine.
  bool serves() const { return iteration && iteration->serving; }
  /// Whether its steps are iterations of training: passes, gradient sums and updates.
  bool trains() const { return iteration && !iteration->serving; }
  /// Whose tokens policies are run on, side by side; of steps recorded ones.
  std::vector<RoutingSource> routings() const;
  /// The changes of the input ("topology", "model", "gpu", "policy", ...) of that name
  /// (changes_of).
  std::vector<Override> overrides_of(const std::string& input, const std::string& name) const;
};

/// Reads a scenario file (a path, or a name among the data), or only the flags when `given` is
/// empty; flags win over the file. Flags named "set" hold one input.path=value each and come after
/// those of the file; those of the scenario's own keys (is_iteration_key) change these. Throws
/// Error with all mistakes.
Scenario read_scenario(const std::string& given, const std::vector<Override>& flags);

/// The same of the text of a file at `path`, in which `others` are keys of another reader.
Scenario parse_scenario(const std::string& text, const std::string& path,
                        const std::vector<Override>& flags,
                        const std::vector<std::string>& others = {});

/// The path of a scenario's file, given as a path or by its name; a plain file needs no ending.
std::string scenario_file(const std::string& given);

}  // namespace moesim
