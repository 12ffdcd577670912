// SPDX-License-Identifier: Apache-2.0
// moesim explain: where the time of one layer goes, and the least that any dispatch would need.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "sim/cli/commands.h"
#include "sim/cli/planning_notes.h"
#include "sim/cli/result_file.h"
#include "sim/cli/simulate.h"
#include "sim/cli/version.h"
#include "sim/flags/output_file.h"
#include "sim/flags/scenario_flags.h"
#include "sim/report/explain_text.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

struct ExplainOptions {
  ScenarioFlags scenario;
  std::optional<int> layer;
  OutputFile json;
  bool flow = false;
};

/// The index of the layer to explain in TraceInfo::layers.
int choose_layer(const ExplainOptions& options, const Inputs& inputs) {
  if (!options.layer) return inputs.layers.front();
  std::vector<int> numbers;
  for (const int index : inputs.layers) {
    numbers.push_back(inputs.trace.info().layers[static_cast<std::size_t>(index)]);
    if (numbers.back() == *options.layer) return index;
  }
  throw Error(fmt::format("--layer {}: it is not among the replayed layers", *options.layer),
              fmt::format("replayed: {}", fmt::join(numbers, ", ")));
}

std::vector<Fidelity> fidelities(const ExplainOptions& options, const Scenario& scenario) {
  std::vector<Fidelity> list = {Fidelity::port, Fidelity::analytic};
  const bool asked = std::find(scenario.fidelities.begin(), scenario.fidelities.end(),
                               Fidelity::flow) != scenario.fidelities.end();
  if (options.flow || asked) list.push_back(Fidelity::flow);
  return list;
}

/// Which case is explained.
struct Subject {
  const Scenario& scenario;
  const Inputs& inputs;
  int layer;  // model layer number
  std::vector<std::string> notes;
  const ClusterInput& cluster() const { return inputs.clusters[0]; }
};

std::string header(const Subject& s) {
  const ClusterInput& cluster = s.cluster();
  std::string text = fmt::format(
      "# moesim {}\n# policy {} on {}: {} GPUs, hosts: {}, ep {}\n"
      "# model {}: hidden {}, {} experts, top-{}; trace {}\n"
      "# layer {} of step {}{}, {} tokens per rank, {}; simulated, nothing is measured\n",
      MOESIM_VERSION, s.inputs.systems[0].name, cluster.topology.name(),
      cluster.topology.gpu_count(), cluster.topology.host_count(), cluster.ep, s.inputs.model.name,
      s.inputs.model.hidden, s.inputs.model.experts, s.inputs.model.top_k,
      s.inputs.trace.info().name, s.layer, cluster.first_step,
      cluster.warmup.empty() ? "" : fmt::format(" after a warm-up of {}", cluster.warmup.size()),
      cluster.batches.tokens_per_rank,
      s.scenario.backward ? "forward and backward" : "forward only");
  for (const std::string& note : s.notes) {
    text += fmt::format("# note: {} {}\n", s.inputs.systems[0].name, note);
  }
  return text;
}

std::string document(const Subject& s, const StepPlan& planned, const Explanation& explanation) {
  const ClusterInput& cluster = s.cluster();
  Json overrides = Json::array();
  for (const Override& o : s.scenario.set) overrides.push_back(o.path + "=" + o.value);
  Json result = {{"format", "moesim-explanation"},
                 {"format_version", 1},
                 {"moesim", MOESIM_VERSION},
                 {"trace", file_json(s.inputs.trace_file)},
                 {"model", file_json(s.inputs.model_file)},
                 {"policy", file_json(s.inputs.system_files[0])},
                 {"topology", file_json(cluster.file)},
                 {"set", overrides},
                 {"gpus", cluster.topology.gpu_count()},
                 {"hosts", cluster.topology.host_count()},
                 {"ep", cluster.ep},
                 {"tokens_per_rank", cluster.batches.tokens_per_rank},
                 {"step", cluster.first_step},
                 {"warmup_steps", cluster.warmup.size()},
                 {"notes", s.notes},
                 {"layer", s.layer},
                 {"pass", s.scenario.backward ? "forward+backward" : "forward"},
                 {"dropped_choices", planned.change.dropped_choices},
                 {"replaced_choices", planned.change.replaced_choices}};
  result.update(Json::parse(explain_json(explanation, cluster.topology)));
  return result.dump(1) + "\n";
}

void explain_case(const ExplainOptions& options) {
  const Scenario scenario = options.scenario.read();
  if (scenario.topologies.size() * scenario.policies.size() != 1) {
    throw Error("'explain' takes one topology and one policy");
  }
  const Inputs inputs = open_inputs(scenario);
  const int layer = choose_layer(options, inputs);
  for (const Diagnostic& w : inputs.warnings) fmt::print(stderr, "{}", w.str());
  const ClusterInput& cluster = inputs.clusters[0];
  PlannerOptions planner_options = inputs.planner_options(scenario, cluster);
  planner_options.layers = {layer};
  planner_options.explicit_rows = true;
  StepPlanner planner(inputs.systems[0], cluster.topology, inputs.model, inputs.trace,
                      planner_options);
  const StepPlan planned = planner.plan(cluster.batches.batches[0], cluster.first_step);
  std::vector<std::unique_ptr<Backend>> backends;
  std::vector<NamedBackend> named;
  for (const Fidelity fidelity : fidelities(options, scenario)) {
    backends.push_back(make_backend(fidelity, scenario.p2p_order, cluster));
    named.push_back({backend_name(fidelity, scenario.p2p_order), backends.back().get()});
  }
  const Explanation explanation = explain(planned.plan, cluster.topology, cluster.gpus, named);
  const PlanningRecord record{static_cast<int>(cluster.warmup.size()) + 1,
                              planner.replans_in_warmup() + (planned.replanned() ? 1 : 0)};
  const Subject subject{scenario, inputs,
                        inputs.trace.info().layers[static_cast<std::size_t>(layer)],
                        planning_notes(planner, cluster, record)};
  if (options.json.asked()) options.json.write(document(subject, planned, explanation));
  fmt::print(options.json.beside(), "{}{}", header(subject),
             explain_text(explanation, cluster.topology));
}

}  // namespace

void add_explain_command(CommandLine& app) {
  const auto options = std::make_shared<ExplainOptions>();
  CommandLine command = app.add_subcommand(
      "explain", "Shows where the time of one layer goes, and the least possible");
  options->scenario.add_to(command);
  command.add_option("--layer", options->layer, "model layer number (default: first replayed)");
  command.add_flag("--flow", options->flow, "simulates at fidelity flow too, which is slow");
  options->json.add_to(command, "--json", "writes all figures to a file");
  command.callback([options] { explain_case(*options); });
}

}  // namespace moesim
