// SPDX-License-Identifier: Apache-2.0
// The figures of `moesim explain` for programs.
#include <nlohmann/json.hpp>

#include "sim/report/explain_text.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

Json reach_json(const ReachTotals& reach) {
  const char* names[] = {"same_gpu", "same_host", "other_host"};
  Json rows, bytes;
  for (std::size_t i = 0; i < 3; ++i) {
    rows[names[i]] = reach.rows[i];
    bytes[names[i]] = reach.bytes[i].value;
  }
  return {{"rows", rows}, {"bytes", bytes}};
}

std::string vertex_name(const Topology& topology, VertexId id) {
  return topology.vertices()[id.index()].name;
}

Json class_json(const ClassLoad& load, const Topology& topology) {
  const Link& link = topology.links()[load.busiest.index()];
  return {{"class", topology.classes()[static_cast<std::size_t>(load.link_class)].name},
          {"links", load.links},
          {"links_used", load.used},
          {"bytes", load.bytes},
          {"busiest_link",
           {{"from", vertex_name(topology, link.from)},
            {"to", vertex_name(topology, link.to)},
            {"bytes", load.busiest_bytes.value},
            {"seconds", load.busiest_time.value},
            {"over_mean", load.over_mean}}}};
}

Json phase_json(const PhaseReport& phase, const Topology& topology) {
  Json classes = Json::array(), times = Json::array();
  for (const ClassLoad& load : phase.classes) classes.push_back(class_json(load, topology));
  for (const PhaseTime& time : phase.times) {
    times.push_back({{"fidelity", time.fidelity},
                     {"alone_s", time.alone.value},
                     {"in_layer_s", time.in_layer.value},
                     {"mean_wait_s", time.wait.value}});
  }
  Json result = {{"kind", "exchange"},
                 {"name", phase.name},
                 {"pass", name_of(phase.pass)},
                 {"communicators", phase.communicators},
                 {"gpus_each", {phase.least_gpus, phase.most_gpus}},
                 {"rounds", phase.rounds}};
  result.update(reach_json(phase.reach));
  result["link_classes"] = classes;
  result["busiest_class"] = phase.busiest_class < 0
                                ? Json()
                                : classes[static_cast<std::size_t>(phase.busiest_class)]["class"];
  result["closed_form"] = {{"overhead_s", phase.closed_form.overhead.value},
                           {"latency_s", phase.closed_form.latency.value},
                           {"transfer_s", phase.closed_form.transfer.value},
                           {"minimum_s", phase.minimum.value},
                           {"total_s", phase.closed_form_total().value}};
  result["bound_by"] = bound_by(phase, topology);
  result["simulated"] = times;
  return result;
}

Json kernel_json(const KernelReport& kernel, const Topology& topology) {
  return {{"kind", "compute"},
          {"name", kernel.name},
          {"pass", name_of(kernel.pass)},
          {"gpus", kernel.gpus},
          {"mean_s", kernel.mean.value},
          {"max_s", kernel.max.value},
          {"slowest_gpu", vertex_name(topology, topology.vertex_of(kernel.slowest))},
          {"flops", kernel.flops.value},
          {"bytes", kernel.bytes.value},
          {"bound_by", name_of(kernel.bound)}};
}

Json bound_json(const BoundReport& report) {
  Json achieved = Json::array();
  for (const auto& [fidelity, time] : report.achieved) {
    const double bound = report.bound().value;
    achieved.push_back({{"fidelity", fidelity},
                        {"alone_s", time.value},
                        {"over_bound", bound > 0 ? Json(time.value / bound) : Json()}});
  }
  return {{"pass", name_of(report.pass)},
          {"stage", name_of(report.stage)},
          {"row_bytes", report.row.value},
          {"least_other_host_bytes", report.least.between_hosts.value},
          {"other_host_bytes", report.between_hosts.value},
          {"port", report.least.port.empty() ? Json() : Json(report.least.port)},
          {"port_bytes", report.least.bytes.value},
          {"port_bytes_per_second", report.least.bandwidth.value},
          {"overhead_s", report.overhead.value},
          {"port_latency_s", report.least.latency.value},
          {"port_transfer_s", report.least.transfer.value},
          {"farthest_latency_s", report.least.farthest.value},
          {"bound_s", report.bound().value},
          {"achieved", achieved}};
}

Json fused_json(const FusedMemory& memory) {
  const auto bytes = [](const FusedBytes& held) {
    return Json{{"received_bytes", held.received.value},
                {"inner_bytes", held.inner.value},
                {"results_bytes", held.results.value}};
  };
  Json waves = Json::array(), moments = Json::array();
  for (const FusedWave& wave : memory.waves) {
    waves.push_back({{"rows", wave.rows},
                     {"sent_s", wave.sent.value},
                     {"begins_s", wave.begins.value},
                     {"ends_s", wave.ends.value},
                     {"left_s", wave.left.value},
                     {"most", bytes(wave.most)}});
  }
  for (const auto& [from, held] : memory.moments) {
    moments.push_back({{"from_s", from.value}, {"held", bytes(held)}});
  }
  return {{"pass", name_of(memory.pass)},
          {"gpu", memory.gpu.value},
          {"waves", waves},
          {"moments", moments},
          {"peak", bytes(memory.peak)}};
}

}  // namespace

Json explain_json(const Explanation& explanation, const Topology& topology) {
  Json steps = Json::array(), bounds = Json::array(), layer = Json::object();
  for (const StepOfLayer& step : explanation.order) {
    steps.push_back(step.phase ? phase_json(explanation.phases[step.index], topology)
                               : kernel_json(explanation.kernels[step.index], topology));
  }
  for (const BoundReport& report : explanation.bounds) bounds.push_back(bound_json(report));
  for (const auto& [fidelity, time] : explanation.layer) layer[fidelity] = time.value;
  Json explained = {{"steps", steps}, {"lower_bounds", bounds}, {"layer_s", layer}};
  for (const FusedMemory& memory : explanation.fused) {
    explained["fused"].push_back(fused_json(memory));
  }
  return explained;
}

}  // namespace moesim
