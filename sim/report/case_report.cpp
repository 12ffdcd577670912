// SPDX-License-Identifier: Apache-2.0
#include "sim/report/case_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/report/notes.h"
#include "sim/report/path_report.h"
#include "sim/report/time_bounds_table.h"
#include "sim/report/token_costs.h"
#include "sim/report/token_rates.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

Json traffic_json(const Traffic& traffic, const Topology& topology) {
  Json classes = Json::object();
  for (std::size_t c = 0; c < traffic.link_class.size(); ++c) {
    classes[topology.classes()[c].name] = traffic.link_class[c];
  }
  return {{"same_gpu_bytes", traffic.same_gpu.value},
          {"same_host_bytes", traffic.same_host.value},
          {"other_host_bytes", traffic.other_host.value},
          {"link_class_bytes", classes}};
}

Json peak_json(const std::vector<std::int64_t>& link_bytes, Seconds time,
               const Topology& topology) {
  const auto peak = peak_link(link_bytes, time, topology);
  if (!peak) return nullptr;
  return {{"from", topology.vertices()[peak->link.from.index()].name},
          {"to", topology.vertices()[peak->link.to.index()].name},
          {"class", topology.classes()[static_cast<std::size_t>(peak->link.link_class)].name},
          {"bytes", peak->bytes.value},
          {"utilization", peak->utilization}};
}

/// `time`: of the layer, or of everything, over all steps. Times are divided by the steps, bytes
/// stay exact sums.
Json layer_json(const LayerMetrics& layer, double steps, Seconds time, const Topology& topology) {
  return {{"forward_s", layer.forward.value / steps},
          {"backward_s", layer.backward.value / steps},
          {"compute_s", layer.compute.value / steps},
          {"communication_s", layer.communication.value / steps},
          {"parameter_communication_s", layer.parameters.value / steps},
          {"gradient_communication_s", layer.gradients.value / steps},
          {"exposed_communication_s", layer.exposed.value / steps},
          {"load_max_over_mean", layer.load_max_over_mean.value()},
          {"traffic", traffic_json(layer.traffic, topology)},
          {"parameter_traffic", traffic_json(layer.parameter_traffic, topology)},
          {"migrated_bytes", layer.migrated.value},
          {"peak_link", peak_json(layer.link_bytes, time, topology)}};
}

Json breakdown_json(const Breakdown& b, double steps) {
  return {{"compute_s", b.compute.value / steps}, {"tokens_s", b.tokens.value / steps},
          {"weights_s", b.weights.value / steps}, {"gradients_s", b.gradients.value / steps},
          {"waiting_s", b.waiting.value / steps}, {"idle_s", b.idle.value / steps}};
}

Json dedup_json(const DedupBound& dedup) {
  return {{"bound_s", dedup.bound.value},
          {"step_s", dedup.step.value},
          {"least_other_host_bytes", dedup.least.value},
          {"other_host_bytes", dedup.moved.value}};
}

Json names_json(const CaseName& name) {
  Json names = {{"topology", name.topology}, {"policy", name.policy}, {"fidelity", name.fidelity}};
  if (!name.routing.empty()) names["routing"] = name.routing;
  return names;
}

Json fullest_json(const FullestGpu& gpu) {
  Json parts;
  for (const NamedBytes& part : gpu.parts) parts[part.name] = part.bytes.value;
  Json json = {{"bytes", gpu.peak.value},
               {"mean_bytes", gpu.mean.value},
               {"gpu_memory_bytes", gpu.memory.value},
               {"gpu", gpu.gpu.value},
               {"when", gpu.when},
               {"parts_bytes", parts}};
  if (gpu.on_host > Bytes(0)) json["on_host_bytes"] = gpu.on_host.value;
  return json;
}

Json intervals_json(const CaseIntervals& intervals) {
  const auto ends = [](const CaseIntervals::Ends& of) { return Json{of.low, of.high}; };
  Json json = {{"step_s", ends(intervals.seconds)}, {"speedup", ends(intervals.speedup)}};
  if (!intervals.unmeasured.empty()) json["unmeasured"] = intervals.unmeasured;
  if (!intervals.told_apart.empty()) json["told_apart"] = intervals.told_apart;
  return json;
}

/// What MoE layers by themselves have.
void add_layers(Json& json, const RunMetrics& run, const Topology& topology) {
  const auto steps = static_cast<double>(run.steps.size());
  json.update({{"total", layer_json(run.total, steps, run.time_of_steps(), topology)},
               {"breakdown", breakdown_json(run.breakdown, steps)},
               {"bound_by", binding_part(run.breakdown).what},
               {"slowest_compute_s", run.breakdown.slowest_compute.value / steps},
               {"overlapped_communication_s", run.breakdown.overlapped.value / steps},
               {"planning_s", run.planning.value / steps},
               {"replans", run.replans},
               {"peak_memory_bytes", run.peak_memory.value},
               {"model_memory_bytes", run.model_memory.value},
               {"gpu_memory_bytes", run.gpu_memory.value},
               {"dropped_choices", run.loss.dropped},
               {"replaced_choices", run.loss.replaced}});
}

void add_layer_list(Json& json, const RunMetrics& run, const Topology& topology) {
  if (run.layers.empty()) return;
  const auto steps = static_cast<double>(run.steps.size());
  Json layers = Json::array();
  for (const auto& [number, layer] : run.layers) {
    Json entry = {{"layer", number}};
    entry.update(layer_json(layer, steps, layer.forward + layer.backward, topology));
    layers.push_back(std::move(entry));
  }
  json["layers"] = std::move(layers);
}

/// A decode has a time per output token and a rate for each user.
Json serving_json(const CaseResult& c) {
  const ServingFigures& m = *c.metrics.iteration->serving;
  Json json = {{"phase", m.decodes ? "decode" : "prefill or mixed"},
               {"sequences", m.sequences},
               {"tokens_per_s", c.tokens_per_second() * c.gpus()},
               {"kv_bytes_per_token", m.cache_per_token.value},
               {"free_kv_tokens", m.free_cache_tokens},
               {"activated_experts", {{"mean", m.activated.mean}, {"max", m.activated.most}}}};
  const Seconds each = m.time_per_output_token(c.metrics.mean_step());
  if (each.value > 0) {
    json["tpot_s"] = each.value;
    json["tokens_per_s_per_user"] = 1 / each.value;
  }
  return json;
}

void add_iteration(Json& json, const CaseResult& c) {
  const IterationFigures& m = *c.metrics.iteration;
  Json parts;
  for (int p = 0; p < iteration_part_count; ++p) {
    const auto part = static_cast<IterationPart>(p);
    parts[name_of(part)] = m.times.of(part).value;
  }
  json.update({{"tokens_per_s_per_gpu", c.tokens_per_second()},
               {"parts_s", parts},
               {"slowest_compute_s", m.times.slowest_compute.value},
               {"overlapped_s", m.times.overlapped.value},
               {"load_max_over_mean", m.load_max_over_mean},
               {"ops", m.ops},
               {"peak_memory", fullest_json(m.fullest)}});
  if (c.tflops() > 0) {  // else unknown, as of passes of serving
    json["flop_per_token"] = m.flop_per_token;
    json["tflops_per_gpu"] = c.tflops();
    json["mfu"] = c.mfu();
  }
  if (m.simulated_gpus > 0) json["simulated_gpus"] = m.simulated_gpus;
  if (m.simulated_microbatches > 0) {
    json["simulated_microbatches"] = m.simulated_microbatches;
    json["continued_error_s"] = m.continued_error.value;
    json["continued_drift_s"] = m.continued_drift.value;
  }
  if (m.serving) json["serving"] = serving_json(c);
  if (m.stage_turns.empty()) return;
  json["turns_s"] = turns_json(mean_of(m.stage_turns));
  for (const TurnTimes& of : m.stage_turns) json["stage_turns_s"].push_back(turns_json(of));
}

}  // namespace

Json turns_json(const TurnTimes& turns) {
  Json json;
  for (std::size_t p = 0; p < turns.parts.size(); ++p) {
    json[turn_part_names[p]] = turns.parts[p].value;
  }
  return json;
}

Json case_json(const CaseResult& c) {
  Json result = names_json(c.name);
  if (!c.ran()) {
    result["unsuitable"] = c.unsuitable;
    if (c.interrupted) result["interrupted"] = true;
    return result;
  }
  const RunMetrics& run = c.metrics;
  const auto steps = static_cast<double>(run.steps.size());
  Json step_times = Json::array();
  for (Seconds t : run.steps) step_times.push_back(t.value);
  result.update({{"gpus", c.gpus()},
                 {"steps", run.steps.size()},
                 {"tokens", run.tokens},
                 {"step_s", run.mean_step().value},
                 {"step_s_each", step_times}});
  run.iteration ? add_iteration(result, c) : add_layers(result, run, *c.topology);
  result.update({{"migration_share", run.path.share(PathKind::migration)},
                 {"critical_path", path_json(run.path, steps)},
                 {"notes", notes_of(c)}});
  if (!c.cannot_run.empty()) result["cannot_run"] = c.cannot_run;
  add_token_rates(result, c);
  add_layer_list(result, run, *c.topology);
  add_costs(result, TokenCosts::of(c.costs, c.gpus(), run.mean_step().value,
                                   static_cast<double>(run.tokens)));
  if (c.intervals) result["intervals"] = intervals_json(*c.intervals);
  add_loss(result, run.loss);
  if (!run.elasticities.empty()) result["elasticities"] = elasticities_json(run.elasticities);
  if (run.dedup) result["perfect_dedup"] = dedup_json(*run.dedup);
  if (run.least) result["least_s"] = run.least->value / steps;
  if (run.bounds) result["time_bounds"] = time_bounds_json(*run.bounds * (1 / steps));
  return result;
}

std::string CaseName::policy_text() const {
  return routing.empty() ? policy : fmt::format("{} ({})", policy, routing);
}

std::string reason_not_run(const CaseResult& c) {
  return fmt::format("{} on {} was not run: {}", c.name.policy_text(), c.name.topology,
                     c.unsuitable);
}

bool are_iterations(const std::vector<CaseResult>& cases) {
  return std::ranges::any_of(cases, [](const CaseResult& c) { return !c.name.routing.empty(); });
}

const char* noun_of(const std::vector<CaseResult>& cases) {
  const bool serves = std::ranges::any_of(cases, [](const CaseResult& c) {
    return c.metrics.iteration && c.metrics.iteration->serving;
  });
  return are_iterations(cases) && !serves ? "iteration" : "step";
}

double CaseResult::tokens_per_second() const {
  return static_cast<double>(metrics.tokens) / metrics.mean_step().value / gpus();
}
double CaseResult::tflops() const {
  if (!metrics.iteration) return 0;
  const double dropped = metrics.iteration->routed_flop * metrics.loss.dropped_part();
  return tokens_per_second() * (metrics.iteration->flop_per_token - dropped) * 1e-12;
}
double CaseResult::mfu() const {
  if (!metrics.iteration || metrics.iteration->peak_flops <= 0) return 0;
  return tflops() * 1e12 / metrics.iteration->peak_flops;
}

}  // namespace moesim
