// SPDX-License-Identifier: Apache-2.0
// The traces that tests replay: the committed ones, and the public ones if they are at hand.
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/data_files.h"
#include "sim/base/unsuitable.h"
#include "sim/import/importer.h"
#include "sim/planner/iteration/planner.h"
#include "sim/topology/reader.h"
#include "tests/trace/scratch.h"

namespace moesim {

/// A trace and the shipped model whose experts and top-k it has.
struct TraceCase {
  std::string name;
  std::string model;
};

/// One case of a test over topologies, policies and traces.
struct ScenarioCase {
  std::string topology, policy;
  TraceCase trace;

  std::string str() const {
    std::string name = topology + "_" + policy + "_" + trace.name;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
  }
  friend void PrintTo(const ScenarioCase& c, std::ostream* out) { *out << c.str(); }
};

inline const std::vector<TraceCase> trace_cases = {{"tiny-moe-train", "gpt-oss-20b"},
                                                   {"esft-law", "deepseek-v2-lite"},
                                                   {"esft-translation", "deepseek-v2-lite"},
                                                   {"gptoss20b", "gpt-oss-20b"}};

/// Whether a policy's experts stay where they are: what differs is how tokens travel.
inline bool is_static(const std::string& policy) {
  return read_system(data_file("models/system", policy)).placement.name == "contiguous";
}

/// Policies x topologies x traces: every policy with every trace on the first three topologies, and
/// the policies that move no experts with the committed trace on all others.
inline std::vector<ScenarioCase> scenario_cases(const std::vector<std::string>& topologies,
                                                const std::vector<std::string>& policies) {
  std::vector<ScenarioCase> cases;
  for (const std::string& policy : policies) {
    const std::size_t most = is_static(policy) ? topologies.size() : 3;
    for (std::size_t t = 0; t < std::min(most, topologies.size()); ++t) {
      const std::string& topology = topologies[t];
      for (const TraceCase& trace : trace_cases) {
        if (t < 3 || trace.name == "tiny-moe-train") cases.push_back({topology, policy, trace});
      }
    }
  }
  return cases;
}

/// The imported trace lives as long as the process.
inline RoutingTrace imported(const std::string& file, int experts, int first_layer, int layers) {
  static const ScratchFolder scratch;
  ImportOptions options;
  options.inputs = {file};
  options.output = scratch / std::filesystem::path(file).stem().string();
  options.experts = experts;
  for (int l = 0; l < layers; ++l) options.layers.push_back(first_layer + l);
  if (!std::filesystem::exists(options.output)) import_trace("npz", options);
  return RoutingTrace::open(options.output);
}

/// A planner of a shipped policy; nothing when the cluster does not suit it.
inline std::optional<Planner> make_planner(const std::string& policy, const Topology& topology,
                                           const MoeModel& model, const RoutingTrace& trace,
                                           const PlannerOptions& options) {
  try {
    return std::make_optional<Planner>(read_system(data_file("models/system", policy)), topology,
                                       model, trace, options);
  } catch (const Unsuitable&) {
    return std::nullopt;
  }
}

/// The plan of a step; nothing when the policy refuses its tokens, as rules do that few experts or
/// missing weights do not suit.
inline std::optional<PlannedStep> plan_step(Planner& planner, const Batch& batch, int step) {
  try {
    return planner.plan(batch, step);
  } catch (const Unsuitable&) {
    return std::nullopt;
  }
}

inline std::optional<RoutingTrace> read_trace(const std::string& name) {
  const std::string shared = std::string(MOESIM_SHARED) + "/traces";
  if (name == "tiny-moe-train") return RoutingTrace::open(MOESIM_ROOT "/traces/tiny-moe-train");
  if (!std::filesystem::exists(shared)) return std::nullopt;
  if (name == "esft-law") return imported(shared + "/esft_deepseek_v2_lite/law.npz", 64, 1, 26);
  if (name == "esft-translation") {
    return imported(shared + "/esft_deepseek_v2_lite/translation.npz", 64, 1, 26);
  }
  return imported(shared + "/gptoss20b_decode/ids_u8_T_L_K.npz", 32, 0, 24);
}

/// Read once; nothing when the public data are not at hand.
inline const std::optional<RoutingTrace>& open_trace(std::string_view name) {
  static std::map<std::string, std::optional<RoutingTrace>, std::less<>> traces;
  auto it = traces.find(name);
  if (it == traces.end()) it = traces.emplace(name, read_trace(std::string(name))).first;
  return it->second;
}

/// Read once.
inline const Topology& shipped_topology(std::string_view name) {
  static std::map<std::string, TopologyFile, std::less<>> files;
  auto it = files.find(name);
  if (it == files.end()) {
    it = files.emplace(name, read_topology(data_file("topologies", std::string(name)))).first;
  }
  return it->second.topology;
}

}  // namespace moesim
