// SPDX-License-Identifier: Apache-2.0
// The lines above a table: version, inputs, batches or grid, and what is assumed.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "sim/base/figures.h"
#include "sim/base/files.h"
#include "sim/model/parameters.h"
#include "sim/planner/iteration/microbatches.h"
#include "sim/run/backends.h"
#include "sim/run/domains_text.h"
#include "sim/run/result_file.h"
#include "sim/run/serving_views.h"
#include "sim/run/software_text.h"
#include "sim/scenario/open_cluster.h"
#include "sim/scenario/policy_inputs.h"
#include "sim/scenario/policy_planner.h"
#include "sim/transport/coverage.h"

namespace moesim {

std::string transport_text(const Inputs& inputs) {
  std::vector<std::string> ideal;
  for (const SystemSpec& system : inputs.systems) {
    if (system.transports.tokens == nullptr) ideal.push_back(system.name);
  }
  std::string text;
  if (!ideal.empty()) {
    text = fmt::format(
        "# transport ideal{}: links as the topology states them, no library's cost\n",
        ideal.size() == inputs.systems.size() ? "" : fmt::format(" ({})", fmt::join(ideal, ", ")));
  }
  for (const ClusterInput& cluster : inputs.clusters) {
    if (!cluster.unsuitable.empty()) continue;
    std::vector<std::pair<std::string, std::vector<std::string>>> known;  // coverage, transports
    for (const SystemSpec& system : inputs.systems) {
      const Transport* transport = system.transports.tokens.get();
      if (transport == nullptr) continue;
      const std::string coverage = coverage_of(*transport, cluster.topology);
      auto same = std::ranges::find(known, coverage, [](const auto& k) { return k.first; });
      if (same == known.end()) same = known.insert(known.end(), {coverage, {}});
      auto& names = same->second;
      if (std::ranges::find(names, transport->name) == names.end())
        names.push_back(transport->name);
    }
    for (const auto& [coverage, names] : known) {
      text += fmt::format("# transport {} on {}: {}\n", fmt::join(names, ", "),
                          cluster.topology.name(), coverage);
    }
  }
  return text;
}

namespace {

std::string gradients_text(const Scenario& scenario, const ClusterInput& cluster) {
  const int groups = cluster.topology.gpu_count() / cluster.ep;
  if (!scenario.backward || groups == 1) return "";
  if (scenario.accumulate == 0) {
    return fmt::format(" ({}; sums of their expert gradients are left out)",
                       counted(groups, "group"));
  }
  const int first = cluster.first_step, steps = static_cast<int>(cluster.batches.batches.size());
  const int sums = (first + steps) / scenario.accumulate - first / scenario.accumulate;
  const std::string when =
      sums == steps ? "every step" : fmt::format("in {} of {} steps", sums, steps);
  return fmt::format(" ({}; expert gradients are summed over them {})", counted(groups, "group"),
                     when);
}

/// Which part of the model `memory` speaks of.
std::string memory_text(const Scenario& scenario, const Inputs& inputs) {
  const auto all = std::max(inputs.model.moe_layers.size(), inputs.layers.size());
  return fmt::format(
      "# memory: only experts{} and activations{}\n",
      scenario.backward ? " (weights, gradients, optimizer state)" : "",
      all > inputs.layers.size()
          ? fmt::format(", of the {} replayed MoE layers; all layers: of the model's {}",
                        inputs.layers.size(), all)
          : "");
}

/// What of the model is not a part of the iteration.
std::string left_out(const MoeModel& model) {
  const std::string missing = model.missing_of_whole();
  if (missing.empty()) return "";
  return fmt::format("# '{}' describes only its experts ({}): dense blocks are left out\n",
                     model.name, missing);
}

/// DeepSeek-V4-Flash on 64 GB200: 10.42 s of Megatron-Bridge, 9.16 s of NeMo AutoModel (issue
/// 3606).
std::string priced_as_fused(const MoeModel& model) {
  const bool compresses =
      model.attention && model.attention->shape && model.attention->shape->compresses();
  if (!compresses) return "";
  return "# compressed keys and residual streams are priced as fused kernels: two published runs "
         "took 2.7 and 7.4 times as long\n";
}

std::string precision_text(const IterationSpec& spec, const ClusterInput& cluster) {
  const std::vector<std::string> lacking = gpus_without_mxfp8(cluster, spec);
  return spec.precision.text() +
         (lacking.empty() ? "" : fmt::format(" (fp8 on {})", fmt::join(lacking, ", ")));
}

std::string grid_text(const IterationSpec& spec, const IterationShape& shape,
                      const ClusterInput& cluster, bool has_experts) {
  const auto size = [&](ParallelAxis axis) { return shape.grid.size(axis); };
  std::string text = fmt::format("tp {} cp {} pp {}", size(ParallelAxis::tp),
                                 size(ParallelAxis::cp), shape.pipeline.stages());
  if (shape.pipeline.chunks() > 1) text += fmt::format(" (x{} chunks)", shape.pipeline.chunks());
  text += fmt::format(" dp {}", size(ParallelAxis::dp));
  if (has_experts) {
    text += fmt::format(", experts: etp {} ep {} edp {}", size(ParallelAxis::etp),
                        size(ParallelAxis::ep), size(ParallelAxis::edp));
  }
  return text +
         fmt::format("; {}, ZeRO {}, {}{}", name_of(spec.pipeline), spec.zero,
                     precision_text(spec, cluster),
                     spec.fused_grouped_mlp ? ", fused grouped MLP" : "") +
         (spec.offload.empty() ? "" : ", offload " + text_of(spec.offload));
}

/// Of iterations for which the trace has no microbatches of their own.
std::string again_text(const Scenario& scenario, const Microbatches& microbatches) {
  const AskedSteps asked = asked_iterations(scenario);
  const auto there = std::ssize(microbatches.recorded);
  if (asked.first == 0 || (asked.first + asked.count) * microbatches.per_iteration <= there) {
    return "";
  }
  return fmt::format("; iterations from {} on take the {} of the trace again",
                     there / microbatches.per_iteration, counted(there, "microbatch"));
}

std::string microbatch_text(const Scenario& scenario, const IterationShape& shape,
                            const RoutingTrace& trace) {
  const IterationSpec& spec = *scenario.iteration;
  std::string text =
      fmt::format("{} of {} in {} per replica", counted(spec.global_batch, "sequence"),
                  counted(spec.sequence, "token"), counted(shape.microbatches, "microbatch"));
  if (spec.distinct_microbatches > 0 && spec.distinct_microbatches < shape.microbatches) {
    text += fmt::format(", {} of them distinct", spec.distinct_microbatches);
  }
  const bool recorded =
      trace.step_count() > 0 && std::ranges::count(spec.routing, RoutingSource::recorded) > 0;
  if (!recorded) return text;
  const Microbatches microbatches = make_microbatches(trace, shape, spec);
  if (microbatches.repeat > 1) {
    text += fmt::format("; the trace is short: each recorded step is played {}",
                        counted(microbatches.repeat, "time"));
  }
  return text + again_text(scenario, microbatches);
}

std::string layers_header(const Scenario& scenario, const Inputs& inputs,
                          const std::string& version) {
  const TraceInfo& info = inputs.trace.info();
  std::string text = fmt::format(
      "# moesim {}\n# trace {} ({} in {} recorded steps, {} of the model's {} MoE layers "
      "replayed), model {}: hidden {}, {} experts, top-{}\n",
      version, info.name, counted(inputs.trace.total_tokens(), "token"), inputs.trace.step_count(),
      inputs.layers.size(), inputs.model.moe_layers.size(), inputs.model.name, inputs.model.hidden,
      inputs.model.experts, inputs.model.top_k);
  for (const ClusterInput& c : inputs.clusters) {
    if (!c.unsuitable.empty()) continue;
    text += fmt::format(
        "# {}: {} on {}, ep {}{}, {} of {} per rank{}{}\n", c.topology.name(),
        counted(c.topology.gpu_count(), "GPU"), counted(c.topology.host_count(), "host"), c.ep,
        gradients_text(scenario, c), counted(std::ssize(c.batches.batches), "step"),
        counted(c.batches.tokens_per_rank, "token"),
        scenario.repeat > 1 ? fmt::format(", repeated {}x", scenario.repeat) : "",
        c.warmup.empty()
            ? ""
            : fmt::format(", {} left out", counted(std::ssize(c.warmup), "warm-up step")));
    text += domains_text(c.topology, c.ep);
    text += ep_text(inputs, static_cast<std::size_t>(&c - inputs.clusters.data()));
  }
  text += own_text(scenario);
  text += transport_text(inputs);
  text += memory_text(scenario, inputs);
  text += fmt::format("# simulated{}; times per step ({}), mean over steps; bytes per step\n",
                      scenario.fidelities.size() == 1
                          ? " at " + backend_name(scenario.fidelities[0], scenario.p2p_order)
                          : "",
                      scenario.backward ? "forward and backward" : "forward only");
  if (inputs.trace.info().phase == Phase::decode && scenario.attention && inputs.model.attention) {
    text += "# decode: every token attends only to itself; reading the KV cache is left out\n";
  }
  text +=
      "# assumed: kernels at their own rates, hosts that take no time (iterations: --software)\n";
  return text;
}

std::string model_text(const MoeModel& model) {
  const bool dense = model.experts == 0;
  std::string text = fmt::format("model {}: {}, ", model.name, counted(model.layers, "layer"));
  text += dense ? "dense" : fmt::format("{} experts, top-{}", model.experts, model.top_k);
  if (!model.missing_of_whole().empty()) return text;
  const auto billions = [](const Parameters& p) { return static_cast<double>(p.main()) * 1e-9; };
  text += fmt::format(", {:.1f}e9 parameters", billions(parameters_of(model)));
  if (dense) return text;
  return text + fmt::format(", {:.1f}e9 of them active", billions(active_parameters_of(model)));
}

std::string iteration_header(const Scenario& scenario, const Inputs& inputs,
                             const std::string& version) {
  const TraceInfo& info = inputs.trace.info();
  const IterationSpec& spec = *scenario.iteration;
  const MoeModel& model = inputs.model;
  std::string text = fmt::format("# moesim {}\n# {}", version, model_text(model));
  text +=
      model.experts == 0 ? "\n# no trace and no policy: no layer has experts\n"
      : !scenario.plays_choices()
          ? "\n# no trace: as many tokens for every expert\n"
          : fmt::format("\n# trace {}: {}, {} recorded layers{}\n", info.name,
                        counted(inputs.trace.total_tokens(), "token"), info.layers.size(),
                        info.layers == model.moe_layers
                            ? ""
                            : fmt::format(", in turn for the model's {}", model.moe_layers.size()));
  for (const ClusterInput& c : inputs.clusters) {
    const IterationShape shape = shape_of(spec, c.topology.gpu_count(), model);
    text += fmt::format(
        "# {}: {} on {}: {}\n#   {}\n", c.topology.name(), counted(c.topology.gpu_count(), "GPU"),
        counted(c.topology.host_count(), "host"), grid_text(spec, shape, c, model.experts > 0),
        microbatch_text(scenario, shape, inputs.trace));
    text += domains_text(c.topology, shape.grid.groups(ParallelAxis::etp_ep));
  }
  text += longest_text(model, spec.sequence, false);
  text += own_text(scenario);
  text += software_text(scenario, inputs);
  text += transport_text(inputs);
  text += left_out(model);
  text += priced_as_fused(model);
  if (spec.collective != ReplicaCollective::ring) {
    text += spec.collective == ReplicaCollective::tree
                ? "# dense gradients are summed up and down two trees of nodes\n"
                : "# dense gradients are summed within nodes, then between them\n";
  }
  if (spec.optimizer != OptimizerKind::adam) {
    text += "# Muon updates matrices, dealt out whole to the replicas; Adam the rest\n";
  }
  text += fmt::format("# simulated{}; times of an iteration, forward, backward and update\n",
                      scenario.fidelities.size() == 1
                          ? " at " + backend_name(scenario.fidelities[0], scenario.p2p_order)
                          : "");
  return text;
}

}  // namespace

std::string result_header(const Scenario& scenario, const Inputs& inputs,
                          const std::string& version) {
  std::string text = scenario.serves()    ? serving_header(scenario, inputs, version)
                     : scenario.iteration ? iteration_header(scenario, inputs, version)
                                          : layers_header(scenario, inputs, version);
  // A config.json may say more than a model file holds; so may a folder that has one.
  if (scenario.model.ends_with(".json") || is_folder(scenario.model)) {
    text += fmt::format("# model {}: {}\n", inputs.model.name, inputs.model.description);
  }
  for (const SystemSpec& system : inputs.systems) {
    for (const std::string& command : system.sources.commands) {
      text += fmt::format("# {} runs a command: {}\n", system.name, command);
    }
  }
  return text;
}

}  // namespace moesim
