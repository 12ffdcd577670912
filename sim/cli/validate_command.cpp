// SPDX-License-Identifier: Apache-2.0
// moesim validate: what was measured on hardware against the simulator.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "sim/cli/commands.h"
#include "sim/cli/result_file.h"
#include "sim/cli/simulate.h"
#include "sim/cli/version.h"
#include "sim/cli/workers.h"
#include "sim/flags/output_file.h"
#include "sim/report/tolerance.h"
#include "sim/report/validation.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

struct ValidateOptions {
  std::vector<std::string> files, set;
  std::string topology, fidelity = "port", tolerance = "12 %";
  OutputFile json;
};

/// One measured file and what its plans are made of and simulated with.
struct Recalled {
  HardwareResult measured;
  Scenario scenario;
  Inputs planned, simulated;
};

/// The scenario with another cluster or other figures of it, in which its plans are simulated.
Scenario changed(Scenario scenario, const ValidateOptions& options) {
  if (!options.topology.empty()) {
    scenario.topologies = {options.topology};
    std::erase_if(scenario.set, [](const Override& o) { return o.path.starts_with("topology"); });
  }
  for (const std::string& text : options.set) {
    const Override change = parse_override(text);
    const std::string input = change.path.substr(0, change.path.find_first_of(".:"));
    if (input != "topology" && input != "gpu") {
      throw Error(fmt::format("--set {}: the plans are those that were measured", text),
                  "topology.* and gpu.* change what they are simulated on");
    }
    scenario.set.push_back(change);
  }
  return scenario;
}

Recalled recall(const std::string& path, const ValidateOptions& options) {
  HardwareResult measured = read_hardware_result(path);
  Scenario scenario = read_scenario("", measured.scenario);
  const auto known = std::find(fidelity_names.begin(), fidelity_names.end(), options.fidelity);
  if (known == fidelity_names.end()) {
    throw Error(fmt::format("--fidelity: '{}' is not known", options.fidelity),
                did_you_mean(options.fidelity, fidelity_names));
  }
  scenario.fidelities = {static_cast<Fidelity>(known - fidelity_names.begin())};
  Inputs planned = open_inputs(scenario);
  Inputs simulated = open_inputs(changed(scenario, options));
  const int gpus = planned.clusters[0].topology.gpu_count();
  const Topology& topology = simulated.clusters[0].topology;
  if (topology.gpu_count() != gpus) {
    throw error_in(path, fmt::format("{} ranks were measured, {} has {} GPUs", gpus,
                                     topology.name(), topology.gpu_count()));
  }
  return {std::move(measured), std::move(scenario), std::move(planned), std::move(simulated)};
}

Json to_json(const SimulatedCase& simulated) {
  Json steps = Json::array(), kinds = Json::array();
  for (const Seconds step : simulated.steps) steps.push_back(step.value);
  for (const auto& [kind, time] : simulated.ops.kinds) {
    kinds.push_back(
        {kind.name, static_cast<int>(kind.stage), static_cast<int>(kind.lane), time.value});
  }
  return {{"plans", simulated.plans},
          {"steps", steps},
          {"kinds", kinds},
          {"waiting", simulated.ops.waiting.value}};
}

SimulatedCase from_json(const Json& json) {
  SimulatedCase simulated;
  simulated.plans = json["plans"].get<std::vector<std::string>>();
  for (const double step : json["steps"]) simulated.steps.emplace_back(step);
  for (const Json& kind : json["kinds"]) {
    simulated.ops.kinds[{kind[0], static_cast<Stage>(kind[1].get<int>()),
                         static_cast<Lane>(kind[2].get<int>())}] = Seconds(kind[3].get<double>());
  }
  simulated.ops.waiting = Seconds(json["waiting"].get<double>());
  return simulated;
}

/// Plans as for the measurement and simulates.
SimulatedCase simulate_case(const Recalled& recalled, const SystemSpec& system,
                            const Progress& progress) {
  const ClusterInput& cluster = recalled.planned.clusters[0];
  StepPlanner planner(system, cluster.topology, recalled.planned.model, recalled.planned.trace,
                      recalled.planned.planner_options(recalled.scenario, cluster));
  const auto backend = make_backend(recalled.scenario.fidelities[0], recalled.scenario.p2p_order,
                                    recalled.simulated.clusters[0]);
  const auto& batches = cluster.batches.batches;
  SimulatedCase simulated;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const StepPlan planned = planner.plan(batches[i], cluster.first_step + static_cast<int>(i));
    const Timeline timeline = backend->run(planned.plan);
    simulated.plans.push_back(hash_of_plan(planned.plan));
    simulated.steps.push_back(timeline.makespan);
    simulated.ops.add(op_times(planned.plan, timeline), 1.0 / static_cast<double>(batches.size()));
    progress(static_cast<int>(i) + 1, static_cast<int>(batches.size()));
  }
  return simulated;
}

/// The policies that were measured, as the scenario lists them.
std::vector<const SystemSpec*> measured_systems(const Recalled& recalled) {
  const auto& cases = recalled.measured.cases;
  const auto& systems = recalled.planned.systems;
  if (cases.size() != systems.size()) {
    throw error_in(recalled.measured.file,
                   fmt::format("{} case{} for {} policies", cases.size(),
                               cases.size() == 1 ? "" : "s", systems.size()));
  }
  std::vector<const SystemSpec*> list;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (cases[i].policy != systems[i].name) {
      throw error_in(recalled.measured.file, fmt::format("'{}' was measured in the place of '{}'",
                                                         cases[i].policy, systems[i].name));
    }
    if (cases[i].unsuitable.empty()) list.push_back(&systems[i]);
  }
  return list;
}

std::string setting(const Recalled& recalled) {
  const Inputs& inputs = recalled.planned;
  const ClusterInput& cluster = inputs.clusters[0];
  return fmt::format(
      "trace {}, model {}: hidden {}, expert ffn {}, {} layers, {} steps of {} tokens per rank, {}",
      inputs.trace.info().name, inputs.model.name, inputs.model.hidden, inputs.model.expert_ffn,
      inputs.layers.size(), cluster.batches.batches.size(), cluster.batches.tokens_per_rank,
      recalled.scenario.backward ? "forward and backward" : "forward only");
}

Validation validate_all(const std::vector<Recalled>& all, double tolerance) {
  std::vector<WorkerJob> jobs;
  for (const Recalled& recalled : all) {
    for (const SystemSpec* system : measured_systems(recalled)) {
      jobs.push_back({fmt::format("{} {}", recalled.measured.file, system->name),
                      [&recalled, system](const Progress& progress) {
                        return to_json(simulate_case(recalled, *system, progress)).dump();
                      }});
    }
  }
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const auto texts = run_jobs(jobs, cores);
  auto text = texts.begin();
  Validation validation{.results = {}, .tolerance = tolerance};
  for (const Recalled& recalled : all) {
    std::vector<SimulatedCase> cases(measured_systems(recalled).size());
    for (SimulatedCase& c : cases) c = from_json(Json::parse(*text++));
    ResultValidation result = validate(recalled.measured, cases);
    result.setting = setting(recalled);
    result.topology = recalled.simulated.clusters[0].topology.name();
    result.fidelity = backend_name(recalled.scenario.fidelities[0], recalled.scenario.p2p_order);
    validation.results.push_back(std::move(result));
  }
  return validation;
}

void validate_files(const ValidateOptions& options) {
  const double tolerance = parse_tolerance(options.tolerance);
  std::vector<Recalled> all;
  for (const std::string& file : options.files) all.push_back(recall(file, options));
  for (const Recalled& recalled : all) {
    for (const Diagnostic& w : recalled.simulated.warnings) fmt::print(stderr, "{}", w.str());
  }
  const Validation validation = validate_all(all, tolerance);
  options.json.write(validation_json(validation, MOESIM_VERSION));
  fmt::print(options.json.beside(), "{}", validation_text(validation, MOESIM_VERSION));
  if (!validation.objections().empty()) throw std::runtime_error("the simulator is not valid here");
}

}  // namespace

void add_validate_command(CommandLine& app) {
  const auto options = std::make_shared<ValidateOptions>();
  CommandLine command = app.add_subcommand(
      "validate", "Compares what moesim-hw measured with the simulator, op by op");
  command.add_option("MEASURED", options->files, "files of moesim-hw run --json").required();
  command.add_option("--tolerance", options->tolerance,
                     "of the mean absolute error of step times (default 12%)");
  command.add_option("--fidelity", options->fidelity, "port (default), flow or analytic");
  command.add_option("--topology", options->topology,
                     "simulates the measured plans on this cluster, such as a calibrated one");
  command
      .add_option("--set", options->set,
                  "changes what they are simulated on: topology.PATH=VALUE, gpu.PATH=VALUE")
      .one_value_each();
  options->json.add_to(command, "--json", "writes everything printed, and more, to a file");
  command.callback([options] { validate_files(*options); });
}

}  // namespace moesim
