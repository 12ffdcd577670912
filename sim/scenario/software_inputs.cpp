// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/software_inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <string>
#include <utility>

#include "sim/base/data_files.h"
#include "sim/scenario/changes.h"
#include "sim/scenario/input_cache.h"
#include "sim/scenario/iteration_reader.h"
#include "sim/scenario/open_cluster.h"
#include "sim/scenario/serving_reader.h"
#include "sim/transport/reader.h"
#include "sim/transport/transport.h"

namespace moesim {
namespace {

/// Warns of times on ideal links next to those with measured rates.
void warn_of_mixed(const std::vector<SystemSpec>& systems, std::vector<Diagnostic>& warnings) {
  std::vector<std::string> ideal, carried;
  for (const SystemSpec& system : systems) {
    (system.transports.tokens == nullptr ? ideal : carried).push_back(system.name);
  }
  if (ideal.empty() || carried.empty()) return;
  warnings.push_back(
      {Severity::warning, "", 0, 0,
       fmt::format("{} on ideal links and {} at measured rates: their times do not compare",
                   fmt::join(ideal, ", "), fmt::join(carried, ", ")),
       "", "leave 'transport' out of a policy for that of its dispatch, or say --transport ideal"});
}

/// The transports of a scenario by name or path, with its changes of all or of that one.
class OpenTransports {
 public:
  OpenTransports(const Scenario& scenario, InputCache& cache)
      : scenario_(scenario), cache_(cache) {}

  Transports open(const std::string& name) {
    return find_transports(name, [&](const std::string& each) { return find(each); });
  }
  InputFile file(const std::string& name) {
    return input_file(name, data_file("transports", name), changes(name), cache_);
  }

 private:
  std::vector<Override> changes(const std::string& name) {
    return changes_of_transport(scenario_, name, cache_);
  }
  TransportPtr find(const std::string& name) {
    const std::string path = data_file("transports", name);
    const auto overrides = changes(name);
    return cache_.transports.get(changed_file(path, overrides),
                                 [&] { return unless_ideal(read_transport(path, overrides)); });
  }

  const Scenario& scenario_;
  InputCache& cache_;
};

std::vector<Override> joined(std::vector<Override> first, const std::vector<Override>& then) {
  first.insert(first.end(), then.begin(), then.end());
  return first;
}

ExchangesNextToKernels exchanges_of(const Scenario& scenario) {
  return scenario.iteration ? exchanges_next_to_kernels(*scenario.iteration)
                            : ExchangesNextToKernels{};
}

}  // namespace

std::vector<InputFile> open_transports(const Scenario& scenario, std::vector<SystemSpec>& systems,
                                       std::vector<Diagnostic>& warnings, InputCache& cache) {
  OpenTransports transports(scenario, cache);
  std::set<std::string> used;
  const std::string& collectives = open_software(scenario, cache).collectives;
  for (SystemSpec& system : systems) {
    const bool own = scenario.transport == own_transport;
    const std::string name = own ? system.transport : scenario.transport;
    if (name == ideal_transport) continue;
    system.transports = transports.open(name);
    used.insert(name);
    const TransportPtr& tokens = system.transports.tokens;
    if (own && tokens && !collectives.empty()) {
      system.transports.others = transports.open(collectives).tokens;
      used.insert(collectives);
      continue;
    }
    if (tokens && !tokens->others.empty()) used.insert(tokens->others);
  }
  warn_of_mixed(systems, warnings);
  std::vector<InputFile> files;
  for (const std::string& name : used) {
    files.push_back(transports.file(name));
  }
  for (Diagnostic& d : unreached(scenario.set, "transport", {used.begin(), used.end()})) {
    d.severity = Severity::warning;
    warnings.push_back(std::move(d));
  }
  for (const Override& change : scenario.set) {
    if (!used.empty() || !change.path.starts_with("transport.")) continue;
    warnings.push_back({Severity::warning, change.str(), 0, 0,
                        "it has no effect: all exchanges are ideal", "",
                        "--transport own, the default, or a name of `moesim list transports`"});
  }
  return files;
}

Software read_software_of(Scenario& s, const YamlMap& map, const std::vector<Override>& flagged) {
  if (!is_iteration(map)) return {};
  const auto value = map.find("software");
  const std::string given = value             ? value->string()
                            : is_serving(map) ? serving_software
                                              : default_software;
  s.software_stated = value.has_value();
  s.software = as_named_in(s.file, "models/software", given);
  const auto overrides = joined(changes_of(s.set, "software", s.software),
                                changes_of(flagged, "software", s.software));
  std::string path;
  try {
    path = data_file("models/software", s.software);
  } catch (const Error& e) {
    if (!value) throw;
    value->error(e.diagnostics()[0].message, e.diagnostics()[0].hint);
    return {};
  }
  return read_software(path, overrides);
}

const Software& open_software(const Scenario& scenario, InputCache& cache) {
  if (scenario.software.empty()) return cache.software.get("", [] { return Software(); });
  const auto overrides = scenario.overrides_of("software", scenario.software);
  const std::string path = data_file("models/software", scenario.software);
  return cache.software.get(changed_file(path, overrides),
                            [&] { return read_software(path, overrides); });
}

InputFile software_file(const Scenario& scenario, InputCache& cache) {
  if (scenario.software.empty()) return {};
  std::string content;
  for (const std::string& path : open_software(scenario, cache).files) {
    content += cache.files.get(path, [&] { return read_file(path); });
  }
  for (const Override& o : scenario.overrides_of("software", scenario.software)) {
    content += "\n" + o.path + "=" + o.value;
  }
  return {scenario.software, hash_of(content)};
}

std::vector<Override> changes_of_gpu(const Scenario& scenario, const std::string& name,
                                     InputCache& cache) {
  const auto stated = scenario.overrides_of("gpu", name);
  if (scenario.software.empty()) return stated;
  const std::string path = data_file("models/gpu", name);
  const std::string die =
      cache.gpus.get(changed_file(path, stated), [&] { return read_gpu_model(path, stated); }).die;
  return joined(open_software(scenario, cache).changes_of_gpu(die, exchanges_of(scenario)), stated);
}

std::vector<Override> changes_of_policy(const Scenario& scenario, const std::string& name,
                                        InputCache& cache) {
  const auto stated = scenario.overrides_of("policy", name);
  if (scenario.software.empty()) return stated;
  const std::string path = data_file("models/system", name);
  const std::string dispatch =
      cache.systems.get(changed_file(path, stated), [&] { return read_system(path, stated); })
          .dispatch.name;
  const bool stash = scenario.iteration && scenario.iteration->stash;
  return joined(
      open_software(scenario, cache).changes_of_policy(dispatch, exchanges_of(scenario), stash),
      stated);
}

std::vector<Override> changes_of_transport(const Scenario& scenario, const std::string& name,
                                           InputCache& cache) {
  return joined(open_software(scenario, cache).changes_of_transport(name, exchanges_of(scenario)),
                scenario.overrides_of("transport", name));
}

}  // namespace moesim
