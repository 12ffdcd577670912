// SPDX-License-Identifier: Apache-2.0
// moesim explain: where the time of one layer goes, and the least that any dispatch would need.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "sim/cli/commands.h"
#include "sim/cli/one_case.h"
#include "sim/cli/version.h"
#include "sim/flags/print_flags.h"
#include "sim/flags/scenario_flags.h"
#include "sim/flags/shared_flags.h"
#include "sim/report/explain_text.h"
#include "sim/run/explain_case.h"
#include "sim/run/explain_iteration.h"
#include "sim/scenario/dense_model.h"

namespace moesim {
namespace {

struct ExplainOptions {
  ScenarioFlags scenario;
  std::optional<int> layer;
  ResultOutput output;
  bool flow = false, elasticities = false;
};

/// The number of the layer to explain.
int choose_layer(const ExplainOptions& options, const Scenario& scenario, const Inputs& inputs) {
  std::vector<int> numbers = inputs.model.moe_layers;
  if (!scenario.iteration) {
    numbers.clear();
    for (const int index : inputs.layers) {
      numbers.push_back(inputs.trace.info().layers[static_cast<std::size_t>(index)]);
    }
  }
  if (numbers.empty()) {
    throw Error(
        fmt::format("--layer explains a layer with experts, and {}", is_dense_text(inputs.model)),
        "without --layer the whole iteration is explained");
  }
  const int layer = options.layer.value_or(numbers.front());
  if (std::ranges::find(numbers, layer) != numbers.end()) return layer;
  throw Error(fmt::format("--layer {}: it is not among the {}", layer,
                          scenario.iteration ? "MoE layers of the model" : "replayed layers"),
              fmt::format("{}: {}", scenario.iteration ? "MoE layers" : "replayed",
                          fmt::join(numbers, ", ")));
}

std::vector<Fidelity> fidelities(const ExplainOptions& options, const Scenario& scenario) {
  std::vector<Fidelity> list = {Fidelity::port, Fidelity::analytic};
  for (const Fidelity fidelity : {Fidelity::flow, Fidelity::simgrid}) {
    const bool asked =
        std::ranges::find(scenario.fidelities, fidelity) != scenario.fidelities.end();
    if (asked || (options.flow && fidelity == Fidelity::flow)) list.push_back(fidelity);
  }
  return list;
}

void explain_whole(const ExplainOptions& options, const Scenario& scenario) {
  if (options.flow) {
    throw Error("--flow is of a layer, and this explains an iteration",
                "--layer N chooses one; --fidelity chooses that of the iteration");
  }
  const Inputs inputs = open_inputs(scenario);
  for (const Diagnostic& w : inputs.warnings) fmt::print(stderr, "{}", w.str());
  const ExplainedIteration e = explain_iteration(scenario, inputs, options.elasticities);
  Printout printout;
  printout.add(explain_iteration_header(scenario, inputs, e, MOESIM_VERSION))
      .add(iteration_explanation_text(e.explanation));
  options.output.write(
      [&] { return explain_iteration_document(scenario, inputs, e, MOESIM_VERSION); }, printout);
}

void explain(const ExplainOptions& options) {
  const Scenario scenario = options.scenario.read();
  check_one_case(scenario, "explain");
  if (scenario.iteration && !options.layer) return explain_whole(options, scenario);
  if (options.elasticities) {
    throw Error("--elasticities are of a whole iteration here",
                "moesim compare --elasticities has those of steps");
  }
  const Inputs inputs = open_inputs(scenario);
  const int layer = choose_layer(options, scenario, inputs);
  for (const Diagnostic& w : inputs.warnings) fmt::print(stderr, "{}", w.str());
  const ExplainedCase c = explain_case(scenario, inputs, layer, fidelities(options, scenario));
  Printout printout;
  printout.add(explain_header(scenario, inputs, c, MOESIM_VERSION))
      .add(explain_text(c.explanation, c.topology(inputs.clusters[0])));
  options.output.write([&] { return explain_document(scenario, inputs, c, MOESIM_VERSION); },
                       printout);
}

}  // namespace

void add_explain_command(CommandLine& app) {
  const auto options = std::make_shared<ExplainOptions>();
  CommandLine command = app.add_subcommand(
      "explain", "Shows where the time of a layer or of an iteration goes, and the least time");
  options->scenario.add_to(command);
  add_allow_commands(command);
  command.add_option("--layer", options->layer,
                     "model layer number (default: the first replayed layer; of iterations: all)");
  command.add_flag("--flow", options->flow, "simulates at fidelity flow, too");
  command.add_flag("--elasticities", options->elasticities,
                   "iteration: simulates it again with 10 % more of each resource");
  options->output.add_to(command, "writes all figures to a file");
  command.callback([options] { explain(*options); });
}

}  // namespace moesim
