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
  std::vector<std::string> files, set;
  std::string scenario;
  ResultOutput output;
};

void validate_benchmarks(const ValidateServingFlags& flags) {
  std::vector<ServedBenchmark> benchmarks;
  for (const std::string& file : flags.files) {
    for (ServedBenchmark& b : read_served_benchmarks(file)) benchmarks.push_back(std::move(b));
  }
  ComparisonOptions options;
  options.workers = worker_count(0);
  const ServingValidation validation = validate_serving(flags.scenario, scenario_changes(flags.set),
                                                        benchmarks, MOESIM_VERSION, options);
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
  command
      .add_option("--scenario", flags->scenario,
                  "of one case of an engine: a file or a shipped one; the benchmark's requests "
                  "replace its own")
      .required();
  command
      .add_option("--set", flags->set,
                  "changes a key of the scenario, or an input: policy=eplb, topology.nodes=4")
      .one_value_each();
  flags->output.add_to(command, "writes everything printed, and more, to a file");
  command.callback([flags, ran] {
    *ran = true;
    validate_benchmarks(*flags);
  });
}

}  // namespace moesim
