// SPDX-License-Identifier: Apache-2.0
#include "sim/compare/result_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/compare/backends.h"
#include "sim/compare/pictured_results.h"
#include "sim/report/compared.h"
#include "sim/scenario/policy_inputs.h"
#include "sim/scenario/scenario_synth.h"
#include "sim/trace/synth/synth_reader.h"
#include "sim/transport/coverage.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

Json files_json(const std::vector<InputFile>& files) {
  Json list = Json::array();
  for (const InputFile& file : files) list.push_back(file_json(file));
  return list;
}

Json cluster_json(const ClusterInput& cluster) {
  Json json = {{"topology", file_json(cluster.file)},
               {"gpu_models", files_json(cluster.gpu_files)},
               {"gpus", cluster.topology.gpu_count()},
               {"hosts", cluster.topology.host_count()}};
  if (!cluster.unsuitable.empty()) {
    json["unsuitable"] = cluster.unsuitable;
    return json;
  }
  json.update({{"ep", cluster.ep},
               {"tokens_per_rank", cluster.batches.tokens_per_rank},
               {"first_step", cluster.first_step},
               {"warmup_steps", cluster.warmup.size()},
               {"steps", cluster.batches.batches.size()},
               {"unused_tokens", cluster.batches.unused_tokens}});
  return json;
}

/// Of the policies that have another expert-parallel degree than the rest.
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

/// "1 host", "2 hosts".
std::string count(std::int64_t number, const std::string& noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

std::string gradients_text(const Scenario& scenario, const ClusterInput& cluster) {
  const int groups = cluster.topology.gpu_count() / cluster.ep;
  if (!scenario.backward || groups == 1) return "";
  if (scenario.accumulate == 0) {
    return fmt::format(" ({} groups; sums of their expert gradients are left out)", groups);
  }
  const int first = cluster.first_step, steps = static_cast<int>(cluster.batches.batches.size());
  const int sums = (first + steps) / scenario.accumulate - first / scenario.accumulate;
  const std::string when =
      sums == steps ? "every step" : fmt::format("in {} of {} steps", sums, steps);
  return fmt::format(" ({} groups; expert gradients are summed over them {})", groups, when);
}

/// Which part of the model `memory` speaks of.
std::string memory_text(const Scenario& scenario, const Inputs& inputs) {
  const auto all = std::max(inputs.model.moe_layers.size(), inputs.layers.size());
  return fmt::format(
      "# memory: experts{} and activations alone{}\n",
      scenario.backward ? " (weights, gradients, optimizer state)" : "",
      all > inputs.layers.size()
          ? fmt::format(", of the {} replayed MoE layers; all layers: of the model's {}",
                        inputs.layers.size(), all)
          : "");
}

/// The files of transports where some policy has one that is not ideal, and that of the software.
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
  if (scenario.synth) json["synth"] = Json::parse(synth_text(drawn_for(scenario, inputs.model)));
  return json;
}

Json result_document(const Scenario& scenario, const Inputs& inputs,
                     const std::vector<CaseResult>& cases, const std::string& version) {
  Json clusters = Json::array();
  for (const ClusterInput& cluster : inputs.clusters) {
    clusters.push_back(cluster_json(cluster));
    add_own_degrees(clusters.back(), inputs, clusters.size() - 1);
  }
  Json layers = Json::array();
  for (int l : inputs.layers) {
    layers.push_back(inputs.trace.info().layers[static_cast<std::size_t>(l)]);
  }
  Json results = Json::array();
  for (const CaseResult& c : cases) results.push_back(case_json(c));
  add_compared(results, cases);
  Json document = {
      {"format", "moesim-result"},
      {"format_version", 1},
      {"moesim", version},
      {"trace", trace_json(scenario, inputs)},
      {"model", file_json(inputs.model_file)},
      {"policies", files_json(inputs.system_files)},
      {"set", changes_json(scenario)},
      {"repeat", scenario.repeat},
      {"accumulate", scenario.accumulate == 0 ? Json("never") : Json(scenario.accumulate)},
      {"pass", scenario.backward ? "forward+backward" : "forward"},
      {"layers", layers},
      {"seeds", {{"trace", seed_in(Json::parse(inputs.trace.info().provenance, nullptr, false))}}},
      {"clusters", clusters},
      {"warnings", warnings_json(inputs.warnings)},
      {"cases", results}};
  add_transports(document, inputs);
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

std::string result_header(const Scenario& scenario, const Inputs& inputs,
                          const std::string& version) {
  const TraceInfo& info = inputs.trace.info();
  std::string text = fmt::format(
      "# moesim {}\n# trace {} ({} tokens in {} recorded steps, {} of the model's {} MoE layers "
      "replayed), model {}: hidden {}, {} experts, top-{}\n",
      version, info.name, inputs.trace.total_tokens(), inputs.trace.step_count(),
      inputs.layers.size(), inputs.model.moe_layers.size(), inputs.model.name, inputs.model.hidden,
      inputs.model.experts, inputs.model.top_k);
  for (const ClusterInput& c : inputs.clusters) {
    if (!c.unsuitable.empty()) continue;
    text += fmt::format(
        "# {}: {} on {}, ep {}{}, {} of {} per rank{}{}\n", c.topology.name(),
        count(c.topology.gpu_count(), "GPU"), count(c.topology.host_count(), "host"), c.ep,
        gradients_text(scenario, c), count(std::ssize(c.batches.batches), "step"),
        count(c.batches.tokens_per_rank, "token"),
        scenario.repeat > 1 ? fmt::format(", repeated {}x", scenario.repeat) : "",
        c.warmup.empty()
            ? ""
            : fmt::format(", {} left out", count(std::ssize(c.warmup), "warm-up step")));
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

}  // namespace moesim
