// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/policy_inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "sim/base/data_files.h"
#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/piped_command.h"
#include "sim/scenario/engine_run.h"
#include "sim/scenario/input_cache.h"
#include "sim/scenario/open_cluster.h"
#include "sim/scenario/software_inputs.h"

namespace moesim {
namespace {

bool is_of_all_policies(const Override& change) { return change.path.starts_with("policy."); }

bool has_change(const Scenario& scenario, const Override& change) {
  return std::ranges::any_of(scenario.set,
                             [&](const Override& o) { return o.str() == change.str(); });
}

/// Only a person says that commands may run, never a file.
void refuse_commands(const std::string& policy, const SystemSpec& system) {
  if (system.sources.commands.empty() || commands_allowed()) return;
  throw error_in(policy, fmt::format("it runs a command: {}", system.sources.commands.front()),
                 "read it first; moesim run --allow-commands lets it");
}

void open_policy(const Scenario& scenario, const std::string& name, Inputs& inputs,
                 InputCache& cache) {
  const std::string path = data_file("models/system", name);
  const std::vector<Override> overrides = changes_of_policy(scenario, name, cache);
  inputs.systems.push_back(cache.systems.get(changed_file(path, overrides),
                                             [&] { return read_system(path, overrides); }));
  refuse_commands(name, inputs.systems.back());
  inputs.system_files.push_back(whole_input(input_file(name, path, overrides, cache),
                                            inputs.systems.back().sources.files, cache));
}

/// Warns of the changes that only some of the policies have a key for; a change that none has a key
/// for stays.
void warn_of_unknown(const Scenario& scenario, std::vector<Scenario>& read,
                     std::vector<Diagnostic>& warnings) {
  for (const Override& change : scenario.set) {
    std::vector<std::string> without;
    for (std::size_t p = 0; p < read.size(); ++p) {
      if (!has_change(read[p], change)) without.push_back(scenario.policies[p]);
    }
    if (without.empty()) continue;
    if (without.size() == read.size()) {
      read.assign(read.size(), scenario);
      return;
    }
    warnings.push_back(no_such_key(change.str(), without));
  }
}

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

Diagnostic no_such_key(const std::string& change, const std::vector<std::string>& policies) {
  return {Severity::warning,
          change,
          0,
          0,
          fmt::format("{} {} no such key: nothing is changed there", fmt::join(policies, ", "),
                      policies.size() == 1 ? "has" : "have"),
          "",
          ""};
}

Scenario without_unknown(Scenario scenario, const std::string& policy) {
  std::vector<Override> all;
  std::swap(all, scenario.set);
  for (Override& change : all) {
    const bool of_all = is_of_all_policies(change);
    scenario.set.push_back(std::move(change));
    if (!of_all) continue;
    try {
      read_system(data_file("models/system", policy), scenario.overrides_of("policy", policy));
    } catch (const NoSuchKey&) {
      scenario.set.pop_back();
    } catch (const Error&) {
      continue;  // it shows when the policy is opened with all its changes
    }
  }
  return scenario;
}

void open_policies(const Scenario& scenario, Inputs& inputs, InputCache& cache) {
  std::vector<Scenario> read(scenario.policies.size(), scenario);  // with what each has keys for
  if (read.size() > 1 && std::ranges::any_of(scenario.set, is_of_all_policies)) {
    for (std::size_t p = 0; p < read.size(); ++p) {
      read[p] = without_unknown(scenario, scenario.policies[p]);
    }
    warn_of_unknown(scenario, read, inputs.warnings);
  }
  for (std::size_t p = 0; p < read.size(); ++p) {
    const std::string& name = scenario.policies[p];
    read_changed("policy", read.size(), scenario.overrides_of("policy", name), [&] {
      open_policy(read[p], name, inputs, cache);
      return true;
    });
  }
}

PolicyView view_of(const Scenario& scenario, const Inputs& inputs, std::size_t policy) {
  if (policy < inputs.own.size() && inputs.own[policy]) {
    const OpenedScenario& own = *inputs.own[policy];
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
    inputs.own[p] =
        std::make_shared<OpenedScenario>(OpenedScenario{std::move(own), std::move(opened)});
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
