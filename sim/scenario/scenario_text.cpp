// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/scenario_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/base/json.h"
#include "sim/base/units.h"
#include "sim/scenario/engine_run.h"
#include "sim/trace/synth/synth_reader.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

std::string steps_text(const StepRange& range) {
  if (range.last >= 0) return fmt::format("{}:{}", range.first, range.last);
  return "all";
}

Json parallel_json(const IterationSpec& spec) {
  const ParallelSizes& sizes = spec.parallel;
  Json json = {{"tp", sizes.tp}, {"cp", sizes.cp}, {"pp", sizes.pp}, {"ep", sizes.ep}};
  if (sizes.etp) json["etp"] = *sizes.etp;
  if (sizes.dp) json["dp"] = *sizes.dp;
  if (spec.dp_replicate > 1) json["dp_replicate"] = spec.dp_replicate;
  json["order"] = sizes.order;
  if (!spec.layout.empty()) {
    json["layout"] = spec.layout;
  } else {
    json["vpp"] = sizes.vpp;
  }
  if (spec.first_stage_layers) json["first_stage_layers"] = *spec.first_stage_layers;
  if (spec.last_stage_layers) json["last_stage_layers"] = *spec.last_stage_layers;
  if (spec.embedding_as_layer) json["embedding_as_layer"] = true;
  if (spec.loss_as_layer) json["loss_as_layer"] = true;
  return json;
}

template <class Value>
const std::string& word(const std::vector<std::string>& names, Value value) {
  return names[static_cast<std::size_t>(value)];
}

/// "full" has all others in it.
Json modules_of(const Recompute& recompute) {
  if (recompute.has(RecomputeModule::full)) return "full";
  return recompute.names();
}

/// A format, if it is where it usually is.
Json precision_json(const Precision& precision) {
  const Json format = word(training_precision_names, precision.format);
  if (precision == Precision{.format = precision.format}) return format;
  return {{"format", format},
          {"parts", precision.parts.names(gemm_part_names())},
          {"bf16_layers",
           {{"first", precision.first_bf16_layers}, {"last", precision.last_bf16_layers}}},
          {"bf16_weight_gradients", precision.bf16_weight_gradients}};
}

Json host_json(const HostModel& host) {
  Json json = Json::object();
  const Seconds of_call = host.per_kernel + host.per_module;
  const auto state = [&](const char* key, Seconds time, bool usual) {
    if (!host.assumed && !usual) json[key] = to_string(time);
  };
  state("per_kernel", host.per_kernel, false);
  state("per_module", host.per_module, false);
  json["graphs"] = host.graphs.names(graph_module_names());
  state("per_collective", host.per_collective, host.per_collective == of_call);
  if (host.grouped) json["grouped"] = true;
  state("per_graph", host.per_graph, host.per_graph == of_call);
  for (const OpKind kind : host.waits_for) json["waits_for"].push_back(name_of(kind));
  return json;
}

/// Counts of prefill and decode as they are in the plan: drafts are among the tokens.
Json batch_json(const ServingBatch& batch) {
  Json ranks = Json::array();
  for (const auto& list : batch.ranks) {
    Json of_rank = Json::array();
    for (const SequenceStep& each : list) {
      of_rank.push_back(
          {{"context", each.context}, {"tokens", each.tokens}, {"sequences", each.count}});
    }
    ranks.push_back(std::move(of_rank));
  }
  return ranks;
}

void add_serving(Json& json, const IterationSpec& spec) {
  const ServingSpec& serving = *spec.serving;
  Json& keys = json["serving"];
  keys["batch"] = batch_json(serving.batch);
  keys["drafts"] = serving.drafts;
  keys["accepted"] = serving.accepted;
  keys["precision"] = precision_of_type(serving.weights);
  if (serving.quantized) {
    keys["precision"] = {{"format", precision_of_type(serving.weights)},
                         {"parts", serving.quantized->names(gemm_part_names())}};
  }
  keys["kv"] = name_of(serving.kv);
  if (serving.pad.empty()) {
    keys["graphs"] = serving.graphs;
  } else {
    keys["graphs"] = serving.pad;
  }
  keys["overlap"] = word(serving_overlap_names, serving.overlap);
  if (serving.overlap_from != OverlapFrom{}) {
    keys["overlap_from"] = {{"decode", serving.overlap_from.decode},
                            {"prompts", serving.overlap_from.prompts}};
  }
  keys["memory_fraction"] = serving.kv_fraction;
  if (serving.dcp > 1) keys["dcp"] = serving.dcp;
  if (serving.attention_ranks > 0) keys["attention_ranks"] = serving.attention_ranks;
}

Json routing_json(const IterationSpec& spec) {
  Json routing = Json::array();
  for (const RoutingSource source : spec.routing) {
    routing.push_back(word(routing_source_names, source));
  }
  return routing;
}

void add_iteration(Json& json, const IterationSpec& spec) {
  if (spec.serving) {
    json["parallel"] = parallel_json(spec);
    add_serving(json, spec);
    json["routing"] = routing_json(spec);
    if (spec.host) json["host"] = host_json(*spec.host);
    return;
  }
  json["parallel"] = parallel_json(spec);
  json["batch"] = {
      {"global", spec.global_batch}, {"micro", spec.micro_batch}, {"sequence", spec.sequence}};
  json["pipeline"] = name_of(spec.pipeline);
  json["recompute"] = modules_of(spec.recompute);
  json["zero"] = spec.zero;
  json["precision"] = precision_json(spec.precision);
  json["overlap"] = {{"gradients", spec.overlap.gradients},
                     {"parameters", spec.overlap.parameters},
                     {"all_to_all", spec.overlap.all_to_all},
                     {"delay_wgrad", spec.overlap.delay_wgrad}};
  json["routing"] = routing_json(spec);
  if (spec.distinct_microbatches > 0) {
    json["microbatches"] = {{"distinct", spec.distinct_microbatches}};
  }
  json["optimizer"] = word(optimizer_names, spec.optimizer);
  if (spec.update_bytes > 0) json["update_bytes"] = spec.update_bytes;
  if (!spec.offload.empty()) json["offload"] = spec.offload.names(offload_module_names());
  if (spec.stash) {
    json["paged_stash"] = {{"rank_capacity", spec.stash->rank_capacity},
                           {"factor", spec.stash->factor},
                           {"page", spec.stash->page}};
  }
  if (spec.fused_grouped_mlp) json["fused_grouped_mlp"] = true;
  if (spec.host) json["host"] = host_json(*spec.host);
  if (spec.collective != ReplicaCollective::ring) {
    json["collective"] = word(replica_collective_names, spec.collective);
  }
}

Json to_json(const Scenario& s) {
  Json fidelities = Json::array(), set = Json::array();
  for (const Fidelity f : s.fidelities) {
    fidelities.push_back(fidelity_names[static_cast<std::size_t>(f)]);
  }
  for (const Override& o : s.set) set.push_back(o.path + "=" + o.value);
  Json json = {{"topology", s.topologies},    {"model", s.model},       {"trace", s.trace},
               {"policy", s.policies},        {"fidelity", fidelities}, {"repeat", s.repeat},
               {"steps", steps_text(s.steps)}};
  if (s.trace.empty()) json.erase("trace");
  if (s.synth) json["synth"] = own_json(synth_text(*s.synth));
  json["transport"] = s.transport;
  if (s.warmup > 0) json["warmup"] = s.warmup;
  if (s.p2p_order == P2pOrder::nccl) json["p2p_order"] = "nccl";
  if (s.ep && !s.iteration) json["ep"] = *s.ep;
  if (s.tokens_per_rank) json["tokens_per_rank"] = *s.tokens_per_rank;
  if (s.recorded_layers) json["layers"] = "recorded";
  if (!s.layers.empty()) json["layers"] = s.layers;
  if (!s.iteration) {
    json["pass"] = s.backward ? "forward+backward" : "forward";
    json["attention"] = s.attention;
  }
  json["memory"] = memory_checks[static_cast<std::size_t>(s.memory)];
  if (s.accumulate == 0) json["accumulate"] = "never";
  if (s.accumulate > 1) json["accumulate"] = s.accumulate;
  if (!s.serves()) {
    json["gradient_bytes"] = s.gradient_bytes;
    json["optimizer_bytes"] = s.optimizer_bytes;
  }
  if (s.iteration) json["software"] = s.software;
  if (s.iteration) add_iteration(json, *s.iteration);
  if (s.engine_run) {
    json["serving"].erase("batch");
    if (!s.engine_run->states_memory) json["serving"].erase("memory_fraction");
    for (const auto& [key, text] : s.engine_run->text) json["serving"][key] = own_json(text);
  }
  if (!s.set.empty()) json["set"] = set;
  return json;
}

}  // namespace

std::string to_text(const Scenario& scenario) { return to_json(scenario).dump(1) + "\n"; }

std::string scenario_line(const Scenario& scenario) { return to_json(scenario).dump(); }

}  // namespace moesim
