// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/open_policies.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "sim/base/data_files.h"
#include "sim/base/no_such_key.h"
#include "sim/base/piped_command.h"
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

}  // namespace moesim
