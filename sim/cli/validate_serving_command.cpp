// SPDX-License-Identifier: Apache-2.0
// moesim validate serving: benchmarks of an engine next to the simulated engine of a scenario.
#include <memory>

#include "sim/cli/commands.h"
#include "sim/cli/version.h"
#include "sim/evidence/serving_validation.h"
#include "sim/flags/print_flags.h"
#include "sim/flags/scenario_flags.h"
#include "sim/run/worker_count.h"
#include "sim/serving/measured/benchmark_reader.h"

namespace moesim {
namespace {

struct ValidateServingFlags {
  std::vector<std::string> files;
  NamedScenario scenario;
  ResultOutput output;
};

void validate_benchmarks(const ValidateServingFlags& flags) {
  std::vector<ServedBenchmark> benchmarks;
  for (const std::string& file : flags.files) {
    for (ServedBenchmark& b : read_served_benchmarks(file)) benchmarks.push_back(std::move(b));
  }
  ComparisonOptions options;
  options.workers = worker_count(0);
  const ServingValidation validation = validate_serving(
      flags.scenario.file(), flags.scenario.overrides(), benchmarks, MOESIM_VERSION, options);
  flags.output.write([&] { return serving_validation_json(validation, MOESIM_VERSION); },
                     serving_validation_text(validation));
}

}  // namespace

void add_validate_serving(CommandLine& validate, const std::shared_ptr<bool>& ran) {
  const auto flags = std::make_shared<ValidateServingFlags>();
  CommandLine command = validate.add_subcommand(
      "serving", "Sets benchmarks of a serving engine next to the simulated engine");
  command
      .add_option("RESULT", flags->files,
                  "of vllm bench serve, SGLang's bench_serving, trtllm-bench or AIPerf")
      .required();
  flags->scenario.add_to(command,
                         "of one case of an engine: a file or a shipped one; the benchmark's "
                         "requests replace its own");
  flags->output.add_to(command, "writes everything printed, and more, to a file");
  command.callback([flags, ran] {
    *ran = true;
    validate_benchmarks(*flags);
  });
}

}  // namespace moesim
