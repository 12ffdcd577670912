// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/policy_inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "sim/base/counted.h"
#include "sim/scenario/engine_run.h"
#include "sim/scenario/open_policies.h"

namespace moesim {
namespace {

/// Unless `ep` is stated, it is a matter of the policy's placement.
bool has_own_ep(const Scenario& scenario, const Inputs& inputs, const SystemSpec& system) {
  if (scenario.ep) return false;
  const int experts = inputs.trace.info().experts;
  return std::ranges::any_of(inputs.clusters, [&](const ClusterInput& cluster) {
    return cluster.unsuitable.empty() &&
           default_ep(system, cluster.topology.gpu_count(), experts) != cluster.ep;
  });
}

/// The scenario as the policy has it, but for what follows from the policy itself.
const Scenario& stated_for(const Scenario& scenario, std::size_t policy) {
  const bool has_own = policy < scenario.own.size() && scenario.own[policy];
  return has_own ? *scenario.own[policy] : scenario;
}

bool must_leave_graphs(const Scenario& scenario, const SystemSpec& system) {
  if (!scenario.serves() || scenario.iteration->parallel.ep == 1) return false;
  return scenario.iteration->serving->graphs && system.dispatch.needs_host;
}

void leave_graphs(Scenario& scenario) {
  ServingSpec& serving = *scenario.iteration->serving;
  serving.graphs = false;
  serving.pad.clear();
  if (!scenario.engine_run) return;
  EngineRun run = *scenario.engine_run;
  run.engine.options.graph_sizes.clear();
  scenario.engine_run = std::make_shared<const EngineRun>(std::move(run));
}

void add_new(std::vector<Diagnostic>& warnings, const std::vector<Diagnostic>& more) {
  for (const Diagnostic& d : more) {
    const auto same = [&](const Diagnostic& known) { return known.str() == d.str(); };
    if (std::ranges::none_of(warnings, same)) warnings.push_back(d);
  }
}

/// Times of iterations compare if they train the same tokens.
void warn_of_unequal_tokens(const Scenario& scenario, Inputs& inputs) {
  for (std::size_t p = 0; p < inputs.systems.size() && scenario.iteration; ++p) {
    const Scenario& own = view_of(scenario, inputs, p).scenario;
    const int gpus = inputs.clusters.front().topology.gpu_count();
    const std::int64_t tokens = tokens_of(*own.iteration, gpus);
    const std::int64_t others = tokens_of(*scenario.iteration, gpus);
    if (tokens == others) continue;
    inputs.warnings.push_back(
        {Severity::warning, "", 0, 0,
         fmt::format("{} of {} has {}, of the others {}: compare tokens per second",
                     scenario.serves() ? "a pass" : "an iteration", inputs.systems[p].name,
                     counted(tokens, "token"), others),
         "",
         scenario.serves() ? "tp and cp decide how many ranks have a batch"
                           : "batch.global times batch.sequence should be equal"});
  }
}

/// "tp 8, zero 1": the last value of every key.
std::string keys_text(const std::vector<Override>& changes) {
  std::vector<std::pair<std::string, std::string>> keys;
  for (const Override& change : changes) {
    std::string key = change.path;
    for (const std::string prefix : {"parallel.", "batch."}) {
      if (key.starts_with(prefix)) key.erase(0, prefix.size());
    }
    const auto known = std::ranges::find(keys, key, [](const auto& k) { return k.first; });
    if (known == keys.end()) {
      keys.emplace_back(key, change.value);
    } else {
      known->second = change.value;
    }
  }
  std::vector<std::string> words;
  for (const auto& [key, value] : keys) words.push_back(key + " " + value);
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

PolicyView view_of(const Scenario& scenario, const Inputs& inputs, std::size_t policy) {
  if (policy < inputs.own.size() && inputs.own[policy]) {
    const PolicyInputs& own = *inputs.own[policy];
    return {own.scenario, own.inputs, own.inputs.systems.front()};
  }
  return {scenario, inputs, inputs.systems[policy]};
}

void open_own_inputs(const Scenario& scenario, Inputs& inputs, InputCache& cache) {
  const std::size_t policies = inputs.systems.size();
  for (std::size_t p = 0; p < policies; ++p) {
    const SystemSpec& system = inputs.systems[p];
    const Scenario& stated = stated_for(scenario, p);
    const bool differs = &stated != &scenario || has_own_ep(scenario, inputs, system);
    const bool leaves_graphs = must_leave_graphs(stated, system);
    if (!leaves_graphs && (!differs || policies == 1)) continue;  // the only one's is its own
    Scenario own = without_unknown(stated, scenario.policies[p]);
    own.policies = {scenario.policies[p]};
    own.own.clear();
    if (leaves_graphs) leave_graphs(own);
    Inputs opened = open_shared_inputs(own, cache);
    add_new(inputs.warnings, opened.warnings);
    inputs.own.resize(policies);
    inputs.own[p] = std::make_shared<PolicyInputs>(PolicyInputs{std::move(own), std::move(opened)});
  }
  warn_of_unequal_tokens(scenario, inputs);
}

std::string own_text(const Scenario& scenario) {
  std::string text;
  for (const std::string& policy : scenario.policies) {
    const std::string keys = keys_text(scenario.overrides_of("scenario", policy));
    if (!keys.empty()) text += fmt::format("#   {}: {}\n", policy, keys);
  }
  return text;
}

std::string graphs_text(const Scenario& scenario, const Inputs& inputs) {
  std::string text;
  for (std::size_t p = 0; p < inputs.systems.size(); ++p) {
    if (!must_leave_graphs(stated_for(scenario, p), inputs.systems[p])) continue;
    text += fmt::format("#   {}: no CUDA graphs, as the host waits for its counts\n",
                        inputs.systems[p].name);
  }
  return text;
}

std::string ep_text(const Inputs& inputs, std::size_t cluster) {
  std::map<int, std::vector<std::string>> policies;  // by degree
  for (std::size_t p = 0; p < inputs.own.size(); ++p) {
    if (!inputs.own[p]) continue;
    const ClusterInput& own = inputs.own[p]->inputs.clusters[cluster];
    if (!own.unsuitable.empty() || own.ep == inputs.clusters[cluster].ep) continue;
    policies[own.ep].push_back(inputs.systems[p].name);
  }
  std::string text;
  for (const auto& [ep, names] : policies) {
    text += fmt::format("#   ep {}: {}\n", ep, fmt::join(names, ", "));
  }
  return text;
}

}  // namespace moesim
