// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/unit.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/unsuitable.h"
#include "sim/base/wire.h"
#include "sim/run/engine_cases.h"
#include "sim/run/engine_views.h"
#include "sim/run/simulate.h"
#include "sim/scenario/inputs.h"
#include "sim/scenario/required_state.h"
#include "sim/scenario/scenario_text.h"

namespace moesim {
namespace {

bool changes_cluster(const Override& change) {
  const std::string input = change.path.substr(0, change.path.find_first_of(".:"));
  return input == "topology" || input == "gpu";
}

/// What planners may look at unless they look at rates.
void put_structure(std::string& bytes, const Topology& topology) {
  put(bytes, topology.name());
  put(bytes, topology.network());
  put(bytes, topology.measured_with());
  for (const Vertex& vertex : topology.vertices()) {
    put(bytes, vertex.name);
    put(bytes, vertex.kind);
    put(bytes, vertex.host);
  }
  for (const Link& link : topology.links()) {
    put(bytes, link.from);
    put(bytes, link.to);
    put(bytes, link.link_class);
    put(bytes, link.cost);
  }
  for (const LinkClass& of : topology.classes()) {
    put(bytes, of.name);
    put(bytes, of.tier);
  }
  for (const GpuId gpu : topology.all_gpus()) {
    put(bytes, topology.vertex_of(gpu));
    put(bytes, topology.gpu_model(gpu));
  }
  for (const Level& level : topology.levels()) {
    put(bytes, level.name);
    put(bytes, level.group_of);
  }
}

/// All mistakes as one line.
std::string reason_of(const Error& e) {
  std::string text;
  for (const Diagnostic& d : e.diagnostics()) {
    if (!text.empty()) text += "; ";
    text += (d.file.empty() ? "" : d.file + ": ") + d.message;
  }
  return text;
}

/// "a+b"
std::string joined(const std::vector<InputFile>& files, std::string InputFile::*what) {
  std::string text;
  for (const InputFile& file : files) text += (text.empty() ? "" : "+") + file.*what;
  return text;
}

/// Where the figures come from, and the scenario itself, which a run takes as it is.
void add_inputs(SweepRow& row, const Inputs& inputs, const InputFile& trace, Scenario scenario,
                Fidelity fidelity) {
  scenario.fidelities = {fidelity};
  const auto add = [&](const char* column, const std::string& text) {
    add_figure(row, column, text_value(text));
  };
  add_figure(row, "ep", integer_value(inputs.clusters[0].ep));
  add_figure(row, "hosts", integer_value(inputs.clusters[0].topology.host_count()));
  add("topology_xxh3", inputs.clusters[0].file.hash);
  add("gpu_xxh3", joined(inputs.clusters[0].gpu_files, &InputFile::hash));
  add("model_xxh3", inputs.model_file.hash);
  add("policy_xxh3", inputs.system_files[0].hash);
  add("trace_xxh3", trace.hash);
  const auto& transports = inputs.transport_files;  // none if links are ideal
  add("transport", transports.empty() ? ideal_transport : joined(transports, &InputFile::name));
  add("transport_xxh3", joined(transports, &InputFile::hash));
  if (!inputs.software_file.name.empty()) {
    add("software", inputs.software_file.name);
    add("software_xxh3", inputs.software_file.hash);
  }
  if (!inputs.engine_file.name.empty()) add("engine_xxh3", inputs.engine_file.hash);
  if (!inputs.request_file.name.empty()) add("requests_xxh3", inputs.request_file.hash);
  add("scenario", scenario_line(scenario));
}

void fill(SweepRow& row, nlohmann::ordered_json result) {
  row.state = sweep_ok;
  if (const auto why = result.find("unsuitable"); why != result.end()) {
    row.state = sweep_unsuitable;
    row.reason = why->get<std::string>();
    result.erase(why);
  }
  std::string notes;
  if (const auto all = result.find("notes"); all != result.end()) {
    for (const auto& note : *all) notes += (notes.empty() ? "" : "; ") + note.get<std::string>();
  }
  add_figures(row, result);
  if (!notes.empty()) add_figure(row, "notes", text_value(notes));
}

/// Of each fidelity: of passes, or of a run of an engine.
std::vector<nlohmann::ordered_json> figures_of(const Scenario& scenario, const Inputs& inputs,
                                               const ComparisonOptions& options) {
  std::vector<nlohmann::ordered_json> figures;
  if (!scenario.engine_run) {
    for (const CaseResult& c : simulate(scenario, inputs, options).cases) {
      figures.push_back(case_json(c));
    }
    return figures;
  }
  for (const EngineCase& c : run_engines(scenario, inputs, options).cases) {
    figures.push_back(engine_case_json(c));
  }
  return figures;
}

/// Why the only case cannot be, if that takes no plan; else empty.
std::string lacking_state(const Scenario& scenario, const Inputs& inputs) {
  try {
    require_state(view_of(scenario, inputs, 0), inputs.clusters[0]);
  } catch (const Unsuitable& e) {
    return e.diagnostics().front().message;
  }
  return "";
}

/// Recorded microbatches that stand for all of an iteration where times may be rough.
constexpr int few_microbatches = 2;

Scenario with_few_microbatches(Scenario scenario) {
  int& distinct = scenario.iteration->distinct_microbatches;
  distinct = distinct == 0 ? few_microbatches : std::min(distinct, few_microbatches);
  return scenario;
}

}  // namespace

std::string plan_key(const OpenedScenario& opened) {
  Scenario scenario = opened.scenario;
  std::erase_if(scenario.set, changes_cluster);
  scenario.fidelities.clear();
  std::string key = scenario_line(scenario);
  put_structure(key, opened.inputs.clusters[0].topology);
  return key;
}

KeptPlans::Steps KeptPlans::find(const OpenedScenario& opened) {
  if (opened.scenario.iteration) return nullptr;
  const Kept* known = kept_.find(plan_key(opened));
  return known != nullptr ? known->steps : nullptr;
}

void KeptPlans::keep(std::shared_ptr<const OpenedScenario> opened, const Steps& steps) {
  if (!steps || !steps->all_kept() || steps->looks().any()) return;
  if (!opened->inputs.systems.front().sources.commands.empty()) return;
  const std::string key = plan_key(*opened);
  kept_.get(key, [&] { return Kept{std::move(opened), steps}; });
}

void UnitRunner::simulate(std::int64_t unit, std::vector<SweepRow>& rows) {
  const Scenario asked = grid_.unit(unit);
  const Scenario read = rough_ && asked.trains() ? with_few_microbatches(asked) : asked;
  const auto opened = std::make_shared<const OpenedScenario>(
      OpenedScenario{read, open_shared_inputs(read, cache_)});
  const auto& [scenario, inputs] = *opened;
  KeptPlans::Steps steps = plans_.find(*opened);
  ComparisonOptions options;
  options.workers = 0;
  options.may_run_none = true;
  options.least_times = rough_ && !scenario.trains();
  options.kept = &steps;
  const InputFile trace = shared_trace_file(scenario, inputs, cache_);
  const std::string lacks = lacking_state(scenario, inputs);
  std::vector<nlohmann::ordered_json> figures(rows.size(), {{"unsuitable", lacks}});
  if (lacks.empty()) {
    figures = figures_of(scenario, inputs, options);
    plans_.keep(opened, steps);
  }
  for (std::size_t f = 0; f < rows.size(); ++f) {
    fill(rows[f], figures[f]);
    add_inputs(rows[f], inputs, trace, asked, scenario.fidelities[f]);
  }
}

std::vector<SweepRow> UnitRunner::not_run(std::int64_t unit, const std::string& state,
                                          const std::string& reason) const {
  std::vector<SweepRow> rows;
  for (std::int64_t f = 0; f < grid_.unit_size(); ++f) {
    SweepRow& row = rows.emplace_back(SweepRow{unit * grid_.unit_size() + f, state, reason});
    const auto points = grid_.points(row.id);
    for (std::size_t a = 0; a < points.size(); ++a) {
      add_figure(row, grid_.axes()[a].name, value_of(points[a]->text));
    }
    add_figure(row, "moesim", text_value(version_));
  }
  return rows;
}

/// What the scenario asks for and a cluster cannot host is reported of the grid or of a change; all
/// else is of a file, which may be another one the next time.
std::string UnitRunner::state_of(const Error& e) const {
  if (dynamic_cast<const Unsuitable*>(&e) != nullptr) return sweep_unsuitable;
  if (dynamic_cast<const Unreadable*>(&e) != nullptr) return sweep_failed;
  const bool asked_for = std::ranges::all_of(e.diagnostics(), [&](const Diagnostic& d) {
    return d.file.empty() || d.file == grid_.file() || d.file.find("--") != std::string::npos;
  });
  return asked_for ? sweep_unsuitable : sweep_failed;
}

InputHashes UnitRunner::hashes(std::int64_t unit) {
  try {
    const Scenario scenario = grid_.unit(unit);
    const Inputs inputs = open_shared_inputs(scenario, cache_);
    SweepRow row;
    add_inputs(row, inputs, shared_trace_file(scenario, inputs, cache_), scenario,
               scenario.fidelities.front());
    const std::map<std::string, std::string> names = {{"topology_xxh3", scenario.topologies[0]},
                                                      {"model_xxh3", scenario.model},
                                                      {"policy_xxh3", scenario.policies[0]},
                                                      {"trace_xxh3", scenario.trace}};
    InputHashes hashes;
    for (const SweepFigure& figure : row.figures) {
      if (!is_input_hash(figure.column)) continue;
      const auto name = names.find(figure.column);
      hashes.found.push_back(
          {figure.column, figure.value.text, name == names.end() ? "" : name->second});
    }
    return hashes;
  } catch (const Error& e) {
    return {{}, reason_of(e)};
  } catch (const std::exception& e) {
    return {{}, cause_of(e)};
  }
}

std::vector<SweepRow> UnitRunner::run(std::int64_t unit) {
  std::vector<SweepRow> rows = not_run(unit, "", "");
  try {
    simulate(unit, rows);
  } catch (const Error& e) {
    return not_run(unit, state_of(e), reason_of(e));
  } catch (const std::exception& e) {
    return not_run(unit, sweep_failed, cause_of(e));
  }
  return rows;
}

}  // namespace moesim
