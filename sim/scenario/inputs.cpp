// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "sim/base/data_files.h"
#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/scenario/changes.h"
#include "sim/scenario/dense_model.h"
#include "sim/scenario/engine_run.h"
#include "sim/scenario/input_cache.h"
#include "sim/scenario/open_cluster.h"
#include "sim/scenario/policy_inputs.h"
#include "sim/scenario/replayed_layers.h"
#include "sim/scenario/scenario_synth.h"
#include "sim/scenario/software_inputs.h"
#include "sim/scenario/unused_words.h"
#include "sim/trace/synth/drawn_trace.h"
#include "sim/trace/verify.h"

namespace moesim {
namespace {

/// The mistakes met so far, to tell them in one run.
class Mistakes {
 public:
  template <class Action>
  void collect(Action action) {
    try {
      action();
    } catch (const Error& e) {
      all_.insert(all_.end(), e.diagnostics().begin(), e.diagnostics().end());
    }
  }
  void throw_any() const {
    if (!all_.empty()) throw Error(all_);
  }

 private:
  std::vector<Diagnostic> all_;
};

void check_trace_exists(const std::string& path) {
  if (!is_there(path)) {
    throw error_in(path, "'trace': there is no such folder", hint_for_trace(path));
  }
}

/// The same mistake at the line of the scenario's file that names the input.
Error at_its_line(const Error& mistake, const Scenario& scenario, const std::string& key,
                  const std::string& name) {
  const auto at = std::ranges::find_if(
      scenario.named, [&](const NamedAt& n) { return n.key == key && n.name == name; });
  if (at == scenario.named.end()) return mistake;
  std::vector<Diagnostic> diagnostics = mistake.diagnostics();
  for (Diagnostic& d : diagnostics) {
    if (!d.file.empty()) d.message += fmt::format(": {}", d.file);
    d.file = scenario.file;
    d.line = at->line;
  }
  return Error(std::move(diagnostics));
}

/// Looks for everything a scenario names, so that one run tells all that is not there.
void check_names(const Scenario& scenario) {
  Mistakes mistakes;
  const auto look = [&](const std::string& key, const std::string& name, const auto& find) {
    mistakes.collect([&] {
      try {
        find();
      } catch (const Error& e) {
        throw at_its_line(e, scenario, key, name);
      }
    });
  };
  const auto look_in = [&](const std::string& kind, const std::string& key,
                           const std::string& name) {
    look(key, name, [&] { find_file(fmt::format("'{}'", key), kind, name); });
  };
  for (const std::string& name : scenario.topologies) look_in("topologies", "topology", name);
  look_in("models", "model", scenario.model);
  if (!scenario.trace.empty()) {
    look("trace", scenario.trace, [&] { check_trace_exists(scenario.trace); });
  }
  for (const std::string& name : scenario.policies) look_in("models/system", "policy", name);
  if (scenario.transport != ideal_transport && scenario.transport != own_transport) {
    look_in("transports", "transport", scenario.transport);
  }
  unless_unreadable([&] { mistakes.throw_any(); });
}

void require_equal(const Scenario& scenario, const char* what, const char* key, int trace,
                   int model, const std::string& model_name) {
  if (trace == model) return;
  if (scenario.synth) {
    throw at_its_line(Error(fmt::format("'synth': {} {}, and the model '{}' has {}", trace, what,
                                        model_name, model),
                            fmt::format("leave synth.{} out, and it is the model's", key)),
                      scenario, "synth", "");
  }
  throw error_in(
      scenario.trace,
      fmt::format("'{}': the trace has {} {}, the model '{}' has {}", key, trace, what, model_name,
                  model),
      fmt::format("choose the model that was recorded, or say --set model.{}={}", key, trace));
}

/// Results are distinguished only by these names.
void check_distinct(const std::string& what, const std::vector<std::string>& names) {
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (seen.insert(name).second) continue;
    throw Error(fmt::format("two {} of the scenario are called '{}'", what, name),
                "leave one of them out, or change its 'name'");
  }
}

void check_distinct(const Inputs& inputs) {
  std::vector<std::string> policies, topologies;
  for (const SystemSpec& system : inputs.systems) policies.push_back(system.name);
  for (const ClusterInput& c : inputs.clusters) topologies.push_back(c.topology.name());
  check_distinct("policies", policies);
  check_distinct("topologies", topologies);
}

/// Ids index tables from here on, so that a damaged trace must not get further.
void check_ids_of(const std::string& folder, const RoutingTrace& trace,
                  const std::vector<int>& layers) {
  for (int s = 0; s < trace.step_count(); ++s) {
    for (int layer : layers) {
      if (!check_ids(trace.step(s).ids(layer), trace.info().experts).any()) continue;
      throw error_in(
          folder,
          fmt::format("step {}, layer {}: ids out of range, or twice in a row",
                      trace.step(s).number(), trace.info().layers[static_cast<std::size_t>(layer)]),
          fmt::format("moesim trace verify {} tells where", folder));
    }
  }
}

void check_ids_once(const std::string& folder, const RoutingTrace& trace,
                    const std::vector<int>& layers, InputCache& cache) {
  cache.checked_ids.get(fmt::format("{}\n{}", folder, fmt::join(layers, ",")), [&] {
    check_ids_of(folder, trace, layers);
    return true;
  });
}

/// The trace of the scenario, or an empty one of the model's shape.
RoutingTrace trace_of(const Scenario& scenario, const MoeModel& model, InputCache& cache) {
  if (scenario.synth) {
    try {
      const SynthOptions options = drawn_for(scenario, model);
      return cache.traces.get(drawn_name(options), [&] { return drawn_trace(options); });
    } catch (const Error& e) {
      throw at_its_line(e, scenario, "synth", "");
    }
  }
  if (!scenario.trace.empty()) {
    return unless_unreadable([&]() -> const RoutingTrace& {
      return cache.traces.get(scenario.trace, [&] { return RoutingTrace::open(scenario.trace); });
    });
  }
  return {{"none", model.name, model.experts, model.top_k, model.moe_layers, Phase::synthetic, {}},
          {}};
}

void add_engine_files(const EngineRun& run, Inputs& inputs, InputCache& cache) {
  if (const std::string& path = run.engine_file; !path.empty()) {
    inputs.engine_file = input_file(run.engine.name, path, {}, cache);
  }
  if (const std::string& path = run.request_file; !path.empty()) {
    inputs.request_file = {path, cache.hashes.get(path, [&] { return hash_of(read_bytes(path)); })};
  }
}

/// An engine holds the weights in the type that it multiplies.
void refuse_weights(const std::vector<Override>& changes_of_model) {
  const auto change = std::ranges::find(changes_of_model, "weights", &Override::path);
  if (change == changes_of_model.end()) return;
  throw error_in(change->str(), "'model.weights' has no effect on passes of serving",
                 "serving.precision says in which type an engine holds them");
}

/// Nobody updates weights of four bits.
void refuse_four_bits(const Scenario& scenario, const MoeModel& model) {
  const bool trains = scenario.trains() || (!scenario.iteration && scenario.backward);
  if (!trains || bytes_per_element(model.weights) >= 1) return;
  throw Error(fmt::format("model '{}': weights of {} in a backward pass", model.name,
                          name_of(model.weights)),
              "pass: forward; in training 'precision' says what products are in");
}

/// All but how the trace fits the clusters.
Inputs open_all(const Scenario& scenario, InputCache& cache) {
  check_names(scenario);
  const auto model_overrides = scenario.overrides_of("model", scenario.model);
  const std::string model_path = data_file("models", scenario.model);
  MoeModel read = cache.models.get(changed_file(model_path, model_overrides),
                                   [&] { return read_moe_model(model_path, model_overrides); });
  if (scenario.serves()) {
    refuse_weights(model_overrides);
    read.weights = scenario.iteration->serving->weights;
  }
  refuse_four_bits(scenario, read);
  check_dense(scenario, read);
  RoutingTrace trace = trace_of(scenario, read, cache);
  Inputs inputs{std::move(trace), std::move(read), {}, {}, {}, {}, {}, {}};
  inputs.model_file = input_file(scenario.model, model_path, model_overrides, cache);
  const TraceInfo& info = inputs.trace.info();
  const MoeModel& model = inputs.model;
  Mistakes mistakes;
  mistakes.collect([&] {
    require_equal(scenario, "experts", "experts", info.experts, model.experts, model.name);
  });
  mistakes.collect([&] {
    require_equal(scenario, "choices a token", "top_k", info.top_k, model.top_k, model.name);
  });
  mistakes.throw_any();
  // An iteration has all layers of the model: recorded ones stand for the others.
  if (!scenario.iteration) {
    inputs.layers = choose_layers(scenario, info, inputs.model, inputs.warnings);
  } else {
    inputs.layers.resize(info.layers.size());
    std::iota(inputs.layers.begin(), inputs.layers.end(), 0);
  }
  inputs.trace_key = scenario.synth ? drawn_name(drawn_for(scenario, model)) : scenario.trace;
  if (!scenario.synth) {
    unless_unreadable([&] { check_ids_once(scenario.trace, inputs.trace, inputs.layers, cache); });
  }
  inputs.software = open_software(scenario, cache);
  inputs.software_file = software_file(scenario, cache);
  open_policies(scenario, inputs, cache);
  for (const std::string& name : scenario.topologies) {
    inputs.clusters.push_back(open_cluster(scenario, name, inputs.warnings, cache));
  }
  check_distinct(inputs);
  warn_of_what_is_unused(scenario, inputs);
  inputs.transport_files = open_transports(scenario, inputs.systems, inputs.warnings, cache);
  if (scenario.engine_run) add_engine_files(*scenario.engine_run, inputs, cache);
  return inputs;
}

}  // namespace

PlannerOptions Inputs::planner_options(const Scenario& scenario,
                                       const ClusterInput& cluster) const {
  PlannerOptions options;
  options.ep = cluster.ep;
  options.layers = layers;
  options.backward = scenario.backward;
  options.attention = scenario.attention;
  options.state = scenario.backward
                      ? TrainingState{scenario.gradient_bytes, scenario.optimizer_bytes}
                      : TrainingState{0, 0};
  options.accumulate = scenario.accumulate;
  options.batches = cluster.batches.batches;
  options.first_step = cluster.first_step;
  options.warmup = cluster.warmup;
  return options;
}

InputFile shared_trace_file(const Scenario& scenario, const Inputs& inputs, InputCache& cache) {
  const TraceInfo& info = inputs.trace.info();
  if (!scenario.plays_choices()) return inputs.trace_file();
  return {info.name, cache.hashes.get(inputs.trace_key, [&] { return inputs.trace.hash(); })};
}

Inputs open_shared_inputs(const Scenario& scenario, InputCache& cache) {
  Inputs inputs = open_all(scenario, cache);
  if (!scenario.iteration) {
    fit_trace(scenario, inputs, cache);
  } else {
    for (ClusterInput& cluster : inputs.clusters) cluster.ep = scenario.iteration->parallel.ep;
  }
  open_own_inputs(scenario, inputs, cache);
  return inputs;
}

Inputs open_inputs(const Scenario& scenario) {
  InputCache cache;
  return open_shared_inputs(scenario, cache);
}

}  // namespace moesim
