// SPDX-License-Identifier: Apache-2.0
#include "sim/report/case_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/report/lossy.h"
#include "sim/report/path_report.h"
#include "sim/report/time_bounds_table.h"
#include "sim/report/token_costs.h"

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
  return {{"topology", name.topology}, {"policy", name.policy}, {"fidelity", name.fidelity}};
}

}  // namespace

Json case_json(const CaseResult& c) {
  Json result = names_json(c.name);
  if (!c.ran()) {
    result["unsuitable"] = c.unsuitable;
    if (c.interrupted) result["interrupted"] = true;
    return result;
  }
  const RunMetrics& run = c.metrics;
  const auto steps = static_cast<double>(run.steps.size());
  Json layers = Json::array();
  for (const auto& [number, layer] : run.layers) {
    Json entry = {{"layer", number}};
    entry.update(layer_json(layer, steps, layer.forward + layer.backward, *c.topology));
    layers.push_back(std::move(entry));
  }
  Json step_times = Json::array();
  for (Seconds t : run.steps) step_times.push_back(t.value);
  result.update({{"gpus", c.topology->gpu_count()},
                 {"steps", run.steps.size()},
                 {"tokens", c.tokens},
                 {"step_s", run.mean_step().value},
                 {"step_s_each", step_times},
                 {"total", layer_json(run.total, steps, run.time_of_steps(), *c.topology)},
                 {"breakdown", breakdown_json(run.breakdown, steps)},
                 {"bound_by", binding_part(run.breakdown).what},
                 {"migration_share", run.path.share(PathKind::migration)},
                 {"critical_path", path_json(run.path, steps)},
                 {"slowest_compute_s", run.breakdown.slowest_compute.value / steps},
                 {"overlapped_communication_s", run.breakdown.overlapped.value / steps},
                 {"planning_s", run.planning.value / steps},
                 {"replans", run.replans},
                 {"peak_memory_bytes", run.peak_memory.value},
                 {"model_memory_bytes", run.model_memory.value},
                 {"gpu_memory_bytes", run.gpu_memory.value},
                 {"dropped_choices", run.loss.dropped},
                 {"replaced_choices", run.loss.replaced},
                 {"notes", run.notes},
                 {"layers", layers}});
  add_costs(result, TokenCosts::of(c.costs, c.topology->gpu_count(), run.mean_step().value,
                                   static_cast<double>(c.tokens)));
  if (c.intervals) add_intervals(result, "step_s", *c.intervals);
  add_loss(result, run.loss);
  if (!run.elasticities.empty()) result["elasticities"] = elasticities_json(run.elasticities);
  if (run.dedup) result["perfect_dedup"] = dedup_json(*run.dedup);
  if (run.least) result["least_s"] = run.least->value / steps;
  if (run.bounds) result["time_bounds"] = time_bounds_json(*run.bounds * (1 / steps));
  return result;
}

void add_intervals(Json& object, const char* time, const CaseIntervals& intervals) {
  const auto ends = [](const CaseIntervals::Ends& of) { return Json{of.low, of.high}; };
  object["intervals"] = {{time, ends(intervals.seconds)}, {"speedup", ends(intervals.speedup)}};
  if (!intervals.told_apart.empty()) object["intervals"]["told_apart"] = intervals.told_apart;
}

std::string reason_not_run(const CaseResult& c) {
  return fmt::format("{} on {} was not run: {}", c.name.policy, c.name.topology, c.unsuitable);
}

}  // namespace moesim
