// SPDX-License-Identifier: Apache-2.0
#include "sim/run/result_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/json.h"
#include "sim/report/compared.h"
#include "sim/run/pictured_results.h"
#include "sim/scenario/scenario_synth.h"
#include "sim/trace/synth/synth_reader.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

Json files_json(const std::vector<InputFile>& files) {
  Json list = Json::array();
  for (const InputFile& file : files) list.push_back(file_json(file));
  return list;
}

Json cluster_json(const Scenario& scenario, const ClusterInput& cluster) {
  Json json = {{"topology", file_json(cluster.file)},
               {"gpu_models", files_json(cluster.gpu_files)},
               {"gpus", cluster.topology.gpu_count()},
               {"hosts", cluster.topology.host_count()}};
  if (!cluster.unsuitable.empty()) {
    json["unsuitable"] = cluster.unsuitable;
    return json;
  }
  json["ep"] = cluster.ep;
  if (scenario.iteration) return json;
  json.update({{"tokens_per_rank", cluster.batches.tokens_per_rank},
               {"first_step", cluster.first_step},
               {"warmup_steps", cluster.warmup.size()},
               {"steps", cluster.batches.batches.size()},
               {"unused_tokens", cluster.batches.unused_tokens}});
  return json;
}

/// Adds the degrees of policies that have another expert-parallel degree than the rest.
void add_own_degrees(Json& json, const Inputs& inputs, std::size_t cluster) {
  for (std::size_t p = 0; p < inputs.own.size(); ++p) {
    if (!inputs.own[p]) continue;
    const ClusterInput& own = inputs.own[p]->inputs.clusters[cluster];
    if (own.ep != inputs.clusters[cluster].ep) json["ep_of"][inputs.systems[p].name] = own.ep;
  }
}

/// The seed in a trace's provenance, wherever it stands there; null when there is none.
Json seed_in(const Json& provenance) {
  if (!provenance.is_object()) return nullptr;
  if (provenance.contains("seed")) return provenance["seed"];
  for (const auto& part : provenance) {
    if (Json seed = seed_in(part); !seed.is_null()) return seed;
  }
  return nullptr;
}

Json warnings_json(const std::vector<Diagnostic>& warnings) {
  Json list = Json::array();
  for (const Diagnostic& w : warnings) list.push_back(w.message);
  return list;
}

/// The files of transports if some policy has one that is not ideal, and that of the software.
void add_transports(Json& document, const Inputs& inputs) {
  const auto carried = [](const SystemSpec& system) { return system.transports != Transports{}; };
  if (std::ranges::any_of(inputs.systems, carried)) {
    document["transports"] = files_json(inputs.transport_files);
  }
  if (!inputs.software_file.name.empty()) document["software"] = file_json(inputs.software_file);
}

/// The trace, and what it was drawn from.
Json trace_json(const Scenario& scenario, const Inputs& inputs) {
  Json json = file_json(inputs.trace_file());
  if (scenario.synth) json["synth"] = own_json(synth_text(drawn_for(scenario, inputs.model)));
  return json;
}

/// What the steps are: MoE layers by themselves, or whole iterations.
void add_steps(Json& document, const Scenario& scenario, const Inputs& inputs) {
  if (scenario.iteration) {
    document["step"] = scenario.serves() ? "serving" : "iteration";
    return;
  }
  Json layers = Json::array();
  for (int l : inputs.layers) {
    layers.push_back(inputs.trace.info().layers[static_cast<std::size_t>(l)]);
  }
  document["step"] = "layers";
  document["repeat"] = scenario.repeat;
  document["accumulate"] = scenario.accumulate == 0 ? Json("never") : Json(scenario.accumulate);
  document["pass"] = scenario.backward ? "forward+backward" : "forward";
  document["layers"] = layers;
}

Json result_document(const Scenario& scenario, const Inputs& inputs,
                     const std::vector<CaseResult>& cases, const std::string& version) {
  Json document = document_of_cases("moesim-result", scenario, inputs, version);
  document["format_version"] = 2;
  add_steps(document, scenario, inputs);
  Json clusters = Json::array();
  for (const ClusterInput& cluster : inputs.clusters) {
    clusters.push_back(cluster_json(scenario, cluster));
    add_own_degrees(clusters.back(), inputs, clusters.size() - 1);
  }
  document["seeds"] = {{"trace", seed_in(json_if(inputs.trace.info().provenance))}};
  document["clusters"] = std::move(clusters);
  document["warnings"] = warnings_json(inputs.warnings);
  Json results = Json::array();
  for (const CaseResult& c : cases) results.push_back(case_json(c));
  add_compared(results, cases);
  document["cases"] = std::move(results);
  add_interruption(document, count_done(cases));
  return document;
}

}  // namespace

Json file_json(const InputFile& file) { return {{"name", file.name}, {"xxh3", file.hash}}; }

void add_interruption(Json& document, const CaseCount& count) {
  if (!count.whole()) document["interrupted"] = {{"done", count.done}, {"cases", count.all}};
}

Json changes_json(const Scenario& scenario) {
  Json changes = Json::array();
  for (const Override& o : scenario.set) changes.push_back(o.path + "=" + o.value);
  return changes;
}

Json document_of_cases(const std::string& format, const Scenario& scenario, const Inputs& inputs,
                       const std::string& version) {
  Json topologies = Json::array();
  for (const ClusterInput& cluster : inputs.clusters) topologies.push_back(file_json(cluster.file));
  Json document = {{"format", format},
                   {"format_version", 1},
                   {"moesim", version},
                   {"trace", trace_json(scenario, inputs)},
                   {"model", file_json(inputs.model_file)},
                   {"policies", files_json(inputs.system_files)},
                   {"topologies", topologies},
                   {"set", changes_json(scenario)}};
  add_transports(document, inputs);
  if (!inputs.engine_file.name.empty()) document["engine"] = file_json(inputs.engine_file);
  if (!inputs.request_file.name.empty()) document["requests"] = file_json(inputs.request_file);
  return document;
}

Json document_of_case(const std::string& format, const Scenario& scenario, const Inputs& inputs,
                      const std::string& version) {
  Json document = {{"format", format},
                   {"format_version", 1},
                   {"moesim", version},
                   {"trace", trace_json(scenario, inputs)},
                   {"model", file_json(inputs.model_file)},
                   {"policy", file_json(inputs.system_files[0])},
                   {"topology", file_json(inputs.clusters[0].file)},
                   {"set", changes_json(scenario)}};
  add_transports(document, inputs);
  return document;
}

std::string result_json(const Scenario& scenario, const Inputs& inputs,
                        const std::vector<CaseResult>& cases, const std::string& version) {
  return result_document(scenario, inputs, cases, version).dump(1) + "\n";
}

std::string pictured_result_json(const Scenario& scenario, const Inputs& inputs,
                                 const std::vector<CaseResult>& cases, const std::string& version) {
  Json document = result_document(scenario, inputs, cases, version);
  std::vector<PicturedCase> pictured;
  for (const CaseResult& c : cases) {
    pictured.push_back({c.name.topology + " " + c.name.fidelity, c.metrics.mean_step(), c.topology,
                        c.pictures.empty() ? nullptr : &c.pictures.front()});
  }
  add_pictures(document, pictured, inputs.trace);
  return document.dump() + "\n";
}

}  // namespace moesim
