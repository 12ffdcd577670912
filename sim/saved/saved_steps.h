// SPDX-License-Identifier: Apache-2.0
// Planned steps with all that their execution needs, and the file that carries them to machines
// that cannot plan (docs/gpu.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/files.h"
#include "sim/plan/plan.h"
#include "sim/saved/held_iteration.h"
#include "sim/saved/served_layer.h"
#include "sim/topology/topology.h"

namespace moesim {

/// One step of a policy, with explicit rows.
struct ExecutableStep {
  int number = 0;  // among the steps of the trace
  Plan plan;
  std::vector<ServedLayer> layers;  // that the plan computes
  Seconds planning;                 // of the host, over all layers
  Bytes peak_memory;                // of the fullest GPU
  std::int64_t dropped_choices = 0;
  std::int64_t replaced_choices = 0;
  std::optional<HeldIteration> iteration = {};  // what a whole one needs besides
};

struct SavedPolicy {
  std::string name;
  std::string unsuitable;  // why the cluster cannot host it; empty: it can
  std::vector<ExecutableStep> steps;
};

/// What the steps were planned for; results repeat it.
struct StepsOrigin {
  std::string moesim;    // the version that planned them
  std::string scenario;  // as a file that read_scenario reads
  InputFile trace, model, topology;
  std::string model_name;
  std::int64_t hidden = 0, expert_ffn = 0;  // of the model
  bool gated = false;                       // its experts have three matrices
  int layers = 0, steps = 0;
  std::int64_t tokens_per_rank = 0;
  bool backward = true;
  bool iteration = false;  // the steps are whole iterations
};

struct SavedSteps {
  StepsOrigin origin;
  Topology cluster;
  std::vector<SavedPolicy> policies;
};

/// The file's content: gzip of one line of JSON each for what they are of, every step, and the hash
/// of it all. The same steps give the same bytes.
std::string pack_steps(const StepsOrigin& origin, const Topology& cluster,
                       const std::vector<SavedPolicy>& policies);

/// Reads a file with the content of pack_steps. Throws Error with file and line for what is cut
/// short, altered, of another version, or does not fit together.
SavedSteps read_steps(const std::string& path);

}  // namespace moesim
