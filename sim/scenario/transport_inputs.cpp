// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/transport_inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <string>
#include <utility>

#include "sim/base/data_files.h"
#include "sim/scenario/changes.h"
#include "sim/scenario/input_cache.h"
#include "sim/scenario/open_cluster.h"
#include "sim/scenario/software_inputs.h"
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

}  // namespace moesim
