// SPDX-License-Identifier: Apache-2.0
// What stands above the table of iterations, and their JSON file.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/compare/backends.h"
#include "sim/compare/iterations.h"
#include "sim/compare/pictured_results.h"
#include "sim/compare/result_file.h"
#include "sim/compare/software_text.h"
#include "sim/iteration/microbatches.h"
#include "sim/model/parameters.h"
#include "sim/report/compared.h"
#include "sim/scenario/policy_inputs.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

/// What of the model is no part of the iteration.
std::string left_out(const MoeModel& model) {
  const std::string missing = model.missing_of_whole();
  if (missing.empty()) return "";
  return fmt::format("# '{}' describes its experts alone ({}): dense blocks are left out\n",
                     model.name, missing);
}

std::string grid_text(const IterationSpec& spec, const IterationShape& shape) {
  const auto size = [&](ParallelAxis axis) { return shape.grid.size(axis); };
  std::string text = fmt::format("tp {} cp {} pp {}", size(ParallelAxis::tp),
                                 size(ParallelAxis::cp), shape.pipeline.stages());
  if (shape.pipeline.chunks() > 1) text += fmt::format(" (x{} chunks)", shape.pipeline.chunks());
  return text + fmt::format(" dp {}, experts: etp {} ep {} edp {}; {}, ZeRO {}, {}",
                            size(ParallelAxis::dp), size(ParallelAxis::etp), size(ParallelAxis::ep),
                            size(ParallelAxis::edp), name_of(spec.pipeline), spec.zero,
                            training_precision_names[static_cast<std::size_t>(spec.precision)]);
}

std::string microbatch_text(const IterationSpec& spec, const IterationShape& shape,
                            const RoutingTrace& trace) {
  std::string text = fmt::format("{} sequences of {} tokens in {} microbatches per replica",
                                 spec.global_batch, spec.sequence, shape.microbatches);
  if (spec.distinct_microbatches > 0 && spec.distinct_microbatches < shape.microbatches) {
    text += fmt::format(", {} of them distinct", spec.distinct_microbatches);
  }
  const bool recorded = trace.step_count() > 0;
  const int repeat = recorded ? make_microbatches(trace, shape, spec).repeat : 1;
  if (repeat > 1) {
    text += fmt::format("; the trace is short: each recorded step is played {} times", repeat);
  }
  return text;
}

}  // namespace

std::string iteration_header(const Scenario& scenario, const Inputs& inputs,
                             const std::string& version) {
  const TraceInfo& info = inputs.trace.info();
  const IterationSpec& spec = *scenario.iteration;
  const MoeModel& model = inputs.model;
  std::string text = fmt::format("# moesim {}\n# model {}: {} layers, {} experts, top-{}", version,
                                 model.name, model.layers, model.experts, model.top_k);
  if (model.missing_of_whole().empty()) {
    text += fmt::format(", {:.1f}e9 parameters, {:.1f}e9 of them active",
                        static_cast<double>(parameters_of(model).main()) * 1e-9,
                        static_cast<double>(active_parameters_of(model).main()) * 1e-9);
  }
  text +=
      !scenario.plays_choices()
          ? "\n# no trace: as many tokens for every expert\n"
          : fmt::format("\n# trace {}: {} tokens, {} recorded layers{}\n", info.name,
                        inputs.trace.total_tokens(), info.layers.size(),
                        info.layers == model.moe_layers
                            ? ""
                            : fmt::format(", in turn for the model's {}", model.moe_layers.size()));
  for (const ClusterInput& c : inputs.clusters) {
    const IterationShape shape = shape_of(spec, c.topology.gpu_count(), model);
    text += fmt::format("# {}: {} GPUs on {} hosts: {}\n#   {}\n", c.topology.name(),
                        c.topology.gpu_count(), c.topology.host_count(), grid_text(spec, shape),
                        microbatch_text(spec, shape, inputs.trace));
  }
  text += own_text(scenario);
  text += software_text(scenario, inputs);
  text += transport_text(inputs);
  text += left_out(model);
  if (spec.collective != ReplicaCollective::ring) {
    text += spec.collective == ReplicaCollective::tree
                ? "# dense gradients are summed up and down two trees of nodes\n"
                : "# dense gradients are summed within nodes, then between them\n";
  }
  if (spec.optimizer != OptimizerKind::adam) {
    text += "# the update is planned as Adam's: that of Muon is left out\n";
  }
  text += fmt::format("# simulated{}; times of an iteration, forward, backward and update\n",
                      scenario.fidelities.size() == 1
                          ? " at " + backend_name(scenario.fidelities[0], scenario.p2p_order)
                          : "");
  return text;
}

namespace {

Json iterations_document(const Scenario& scenario, const Inputs& inputs,
                         const std::vector<IterationCase>& cases, const std::string& version) {
  Json results = Json::array();
  for (const IterationCase& c : cases) results.push_back(iteration_json(c));
  add_compared(results, cases);
  Json document = document_of_cases("moesim-iterations", scenario, inputs, version);
  document["cases"] = results;
  add_interruption(document, count_done(cases));
  return document;
}

}  // namespace

std::string iterations_json(const Scenario& scenario, const Inputs& inputs,
                            const std::vector<IterationCase>& cases, const std::string& version) {
  return iterations_document(scenario, inputs, cases, version).dump(1) + "\n";
}

std::string pictured_iterations_json(const Scenario& scenario, const Inputs& inputs,
                                     const std::vector<IterationCase>& cases,
                                     const std::string& version) {
  Json document = iterations_document(scenario, inputs, cases, version);
  std::vector<PicturedCase> pictured;
  for (const IterationCase& c : cases) {
    PicturedCase& each = pictured.emplace_back(
        PicturedCase{c.topology + " " + c.fidelity, c.metrics.times.iteration});
    if (!c.pictures.empty()) each.pictures = &c.pictures.front();
    for (const ClusterInput& cluster : inputs.clusters) {
      if (cluster.topology.name() == c.topology) each.topology = &cluster.topology;
    }
  }
  add_pictures(document, pictured, inputs.trace);
  return document.dump() + "\n";
}

}  // namespace moesim
