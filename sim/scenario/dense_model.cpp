// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/dense_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/data_files.h"
#include "sim/planner/system.h"

namespace moesim {
namespace {

/// What a scenario says of experts that its model has not.
class Contradictions {
 public:
  Contradictions(const Scenario& scenario, const MoeModel& model)
      : scenario_(scenario), dense_(is_dense_text(model)) {}

  void check() {
    if (!scenario_.iteration) {
      add(0, "a step has only MoE layers",
          "with 'parallel' and 'batch' the scenario is a whole iteration, with 'serving' a pass of "
          "an engine");
    }
    check_policies();
    if (scenario_.plays_choices()) {
      const char* key = scenario_.synth ? "synth" : "trace";
      add(line_of(key), fmt::format("'{}' has choices of experts", key),
          fmt::format("leave '{0}' out (--set {0}=null)", key));
    }
    if (scenario_.iteration) check_iteration(*scenario_.iteration);
    if (!found_.empty()) throw Error(found_);
  }

 private:
  /// The line of the scenario's file with that key; 0 if flags say it.
  int line_of(const std::string& key) const {
    const auto at = std::ranges::find(scenario_.named, key, &NamedAt::key);
    return at == scenario_.named.end() ? 0 : at->line;
  }

  void add(int line, const std::string& what, const std::string& hint) {
    found_.push_back({Severity::error, line > 0 ? scenario_.file : "", line, 0,
                      what + ", and " + dense_, "", hint});
  }

  void check_policies() {
    for (const std::string& name : scenario_.policies) {
      const SystemSpec system = read_system(data_file("models/system", name));
      if (system.placement.for_dense_models) continue;
      add(line_of("policy"), fmt::format("'policy': '{}' places experts", system.name),
          fmt::format("leave 'policy' out (--set policy=null): it is then {}", no_experts_policy));
    }
  }

  void check_iteration(const IterationSpec& spec) {
    const auto refuse = [&](const std::string& key, int size) {
      add(spec.places.parallel, fmt::format("'{}' is {}", key, size),
          "it is of experts: leave it out; tp, cp, pp and zero divide dense layers");
    };
    if (spec.parallel.ep > 1) refuse("ep", spec.parallel.ep);
    if (spec.parallel.etp && !spec.serving) refuse("etp", *spec.parallel.etp);
    if (std::ranges::count(spec.routing, RoutingSource::recorded) > 0) {
      add(0, "'routing' is recorded", "leave 'routing' out");
    }
  }

  const Scenario& scenario_;
  std::string dense_;
  std::vector<Diagnostic> found_;
};

}  // namespace

bool names_dense_model(const std::string& name) {
  std::string path;
  try {
    path = data_file("models", name);
  } catch (const Error&) {
    return false;  // it shows when the model is opened
  }
  return read_moe_model(path).experts == 0;
}

namespace {

/// What the flag `model` names; empty without one.
std::string model_of(const std::vector<Override>& flags) {
  const auto model = std::ranges::find(flags, "model", &Override::path);
  if (model == flags.end()) return "";
  const auto doc = YamlDocument::from_text("{}", "command line", {*model});
  const auto value = doc->root().map().find("model");
  return value && value->is_scalar() ? value->string() : "";
}

}  // namespace

void require_model_of(const std::vector<Override>& flags) {
  if (const std::string name = model_of(flags); !name.empty()) data_file("models", name);
}

bool flags_name_dense_model(const std::vector<Override>& flags) {
  const std::string name = model_of(flags);
  return !name.empty() && names_dense_model(name);
}

std::string is_dense_text(const MoeModel& model) {
  return fmt::format("the model '{}' is dense", model.name);
}

bool leaves_out_as_dense(const YamlMap& scenario, Scenario& s) {
  const bool lacks_policy = !scenario.find("policy");
  if (!lacks_policy && (s.synth || scenario.find("trace"))) return false;
  if (!names_dense_model(s.model)) return false;
  if (lacks_policy) s.policies = {no_experts_policy};
  if (s.iteration && !scenario.find("routing")) s.iteration->routing = {RoutingSource::balanced};
  return true;
}

void check_dense(const Scenario& scenario, const MoeModel& model) {
  if (model.experts == 0) Contradictions(scenario, model).check();
}

}  // namespace moesim
