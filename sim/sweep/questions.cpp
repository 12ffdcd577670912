// SPDX-License-Identifier: Apache-2.0
// What people ask about a cluster, as axes.
#include "sim/sweep/questions.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/scenario/dense_model.h"
#include "sim/scenario/input_cache.h"
#include "sim/scenario/inputs.h"
#include "sim/sweep/advise.h"

namespace moesim {

SweepAxis axis_of(const std::string& key, const std::vector<std::string>& values) {
  SweepAxis axis{key, false, {}};
  for (const std::string& value : values) axis.points.push_back({value, {{key, value, ""}}});
  return axis;
}

namespace {

/// Mechanisms that compute the same: none drops, replaces or compresses anything.
SweepAxis mechanisms() {
  return axis_of("policy",
                 {"alltoall", "dedup", "hiermoe-hd", "hiermoe-hd2", "deepep-normal", "tutel-2dh",
                  "hybrid-ep", "hybridep-exact", "llep", "laer", "eplb", "fastermoe"});
}

/// Powers of two that divide the GPUs, up to the number of experts; whatever degree the scenario
/// has.
SweepAxis ep_degrees(Scenario scenario) {
  scenario.ep.reset();
  InputCache cache;
  const Inputs inputs = open_shared_inputs(scenario, cache);
  std::vector<std::string> degrees;
  for (int ep = 1; ep <= inputs.model.experts; ep *= 2) {
    if (inputs.clusters[0].topology.gpu_count() % ep == 0) degrees.push_back(std::to_string(ep));
  }
  return axis_of(scenario.iteration ? "parallel.ep" : "ep", degrees);
}

/// The same GPUs in nodes of 4 to 64.
SweepAxis nvlink_domains(const Scenario& scenario) {
  InputCache cache;
  const Inputs inputs = open_shared_inputs(scenario, cache);
  const int gpus = inputs.clusters[0].topology.gpu_count();
  SweepAxis axis{"nvlink domain", false, {}};
  for (int size = 4; size <= std::min(64, gpus); size *= 2) {
    if (gpus % size != 0) continue;
    const std::string of_node = std::to_string(size);
    axis.points.push_back({of_node,
                           {{"topology.nodes", std::to_string(gpus / size), ""},
                            {"topology.node.gpus", of_node, ""},
                            {"topology.node.nics.count", of_node, ""}}});
  }
  return axis;
}

/// A size per level of an EP group that divides it: hosts and their GPUs, or only GPUs.
SweepAxis domain_sizes(const Scenario& scenario) {
  InputCache cache;
  const Inputs inputs = open_shared_inputs(scenario, cache);
  const ClusterInput& cluster = inputs.clusters[0];
  const int ep = cluster.ep;
  const int of_host = cluster.topology.gpu_count() / cluster.topology.host_count();
  std::vector<std::string> points = {"auto"};
  const auto divides = [](int size, int level) { return level % size == 0; };
  if (ep <= of_host || ep % of_host != 0) {
    for (int size = 1; size <= ep; ++size) {
      if (divides(size, ep)) points.push_back(fmt::format("[{}]", size));
    }
    return axis_of("policy.placement.domains", points);
  }
  for (int hosts = 1; hosts <= ep / of_host; ++hosts) {
    for (int gpus = 1; gpus <= of_host; ++gpus) {
      if (!divides(hosts, ep / of_host) || !divides(gpus, of_host)) continue;
      points.push_back(fmt::format("[{}, {}]", hosts, gpus));
    }
  }
  return axis_of("policy.placement.domains", points);
}

Scenario first_of(const SweepGrid& grid) { return grid.unit(0); }

std::vector<Question> all_questions() {
  std::vector<Question> all = {
      {"mechanism", [](const SweepGrid&) { return std::vector{mechanisms()}; }, true},
      {"ep-degree", [](const SweepGrid& g) { return std::vector{ep_degrees(first_of(g))}; }, true},
      {"nvlink-domain",
       [](const SweepGrid& g) { return std::vector{nvlink_domains(first_of(g))}; }},
      {"nic-bandwidth",
       [](const SweepGrid&) {
         return std::vector{axis_of("topology.node.nics.bandwidth",
                                    {"12.5 GB/s", "25 GB/s", "50 GB/s", "100 GB/s", "200 GB/s"})};
       }},
      {"hd-depth",
       [](const SweepGrid&) {
         return std::vector{
             axis_of("policy", {"alltoall", "hiermoe-hd", "hiermoe-hd2", "hiermoe-hd3"})};
       },
       true},
      {"hybridep-domain",
       [](const SweepGrid& g) {
         return std::vector{axis_of("policy", {"hybridep-exact"}), domain_sizes(first_of(g))};
       },
       true},
  };
  for (const auto& more : {placement_questions(), iteration_questions()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace

std::vector<std::string> advise_questions() {
  std::vector<std::string> names;
  for (const Question& question : all_questions()) names.emplace_back(question.name);
  return names;
}

std::vector<SweepAxis> axes_of_question(const std::string& question, const SweepGrid& grid) {
  for (const Question& known : all_questions()) {
    if (question != known.name) continue;
    const std::string model = known.of_experts ? first_of(grid).model : "";
    if (!model.empty() && names_dense_model(model)) {
      throw Error(
          fmt::format("--ask {} is about experts, and the model '{}' is dense", question, model),
          "of a dense model: --ask tp, pp, overlap, recompute, nvlink-domain or "
          "nic-bandwidth");
    }
    return known.axes(grid);
  }
  throw Error(fmt::format("--ask: '{}' is not a known question", question),
              did_you_mean(question, advise_questions()));
}

}  // namespace moesim
