// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/software_inputs.h"

#include "sim/base/data_files.h"
#include "sim/scenario/input_cache.h"
#include "sim/scenario/open_cluster.h"

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

const Software& open_software(const Scenario& scenario, InputCache& cache) {
  if (!scenario.iteration) return cache.software.get("", [] { return Software(); });
  const auto overrides = scenario.overrides_of("software", scenario.software);
  const std::string path = data_file("models/software", scenario.software);
  return cache.software.get(changed_file(path, overrides),
                            [&] { return read_software(path, overrides); });
}

InputFile software_file(const Scenario& scenario, InputCache& cache) {
  if (!scenario.iteration) return {};
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
  if (!scenario.iteration) return stated;
  const std::string path = data_file("models/gpu", name);
  const std::string die =
      cache.gpus.get(changed_file(path, stated), [&] { return read_gpu_model(path, stated); }).die;
  return joined(open_software(scenario, cache).changes_of_gpu(die, exchanges_of(scenario)), stated);
}

std::vector<Override> changes_of_policy(const Scenario& scenario, const std::string& name,
                                        InputCache& cache) {
  const auto stated = scenario.overrides_of("policy", name);
  if (!scenario.iteration) return stated;
  const std::string path = data_file("models/system", name);
  const std::string dispatch =
      cache.systems.get(changed_file(path, stated), [&] { return read_system(path, stated); })
          .dispatch.name;
  return joined(open_software(scenario, cache).changes_of_policy(dispatch, exchanges_of(scenario)),
                stated);
}

std::vector<Override> changes_of_transport(const Scenario& scenario, const std::string& name,
                                           InputCache& cache) {
  return joined(open_software(scenario, cache).changes_of_transport(name, exchanges_of(scenario)),
                scenario.overrides_of("transport", name));
}

}  // namespace moesim
