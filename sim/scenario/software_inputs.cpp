// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/software_inputs.h"

#include "sim/base/data_files.h"
#include "sim/scenario/changes.h"
#include "sim/scenario/input_cache.h"
#include "sim/scenario/iteration_reader.h"
#include "sim/scenario/open_cluster.h"
#include "sim/scenario/serving_reader.h"

namespace moesim {
namespace {

std::vector<Override> joined(std::vector<Override> first, const std::vector<Override>& then) {
  first.insert(first.end(), then.begin(), then.end());
  return first;
}

ExchangesNextToKernels exchanges_of(const Scenario& scenario) {
  return scenario.iteration ? exchanges_next_to_kernels(*scenario.iteration)
                            : ExchangesNextToKernels{};
}

}  // namespace

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
