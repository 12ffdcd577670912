// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/grounds.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "sim/transport/coverage.h"

namespace moesim {
namespace {

/// The same call takes so many times as long on the slowest host that somebody published as on the
/// one that iterations assume: torch.nn.Linear, 37.08 and 13.48 us (NVIDIA/TransformerEngine issue
/// 2053; docs/host.md). It makes iterations longer, never shorter.
constexpr double slowest_host = 37.08 / 13.48;

double joined(std::initializer_list<double> factors) {
  double squares = 0;
  for (const double f : factors) squares += std::log(f) * std::log(f);
  return std::exp(std::sqrt(squares));
}

/// Both ends, of sources that are independent.
ModelError joined(const ModelError& a, const ModelError& b) {
  return {1 / joined({std::min(1.0, a.low), std::min(1.0, b.low)}),
          joined({std::max(1.0, a.high), std::max(1.0, b.high)})};
}

ModelError wider(const ModelError& a, const ModelError& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

ModelError of_fabric(const ModelError& exchanges) {
  return joined(exchanges, {1 / slowest_host, 1});
}

std::string kernels_lacking(const ClusterInput& cluster) {
  std::set<std::string> names;
  for (const auto& gpu : cluster.gpus) {
    if (!gpu->has_measured_kernels()) names.insert(gpu->name);
  }
  return names.empty() ? "" : fmt::format("kernels of {}", fmt::join(names, ", "));
}

std::string fabric_lacking(const Topology& topology, const std::set<std::string>& networks) {
  const bool measured = !topology.measured_with().empty();  // its links, by NCCL
  if (topology.host_count() == 1 || measured || networks.contains(topology.network())) return "";
  return topology.network().empty() ? "its fabric"
                                    : fmt::format("{} and its hosts", topology.network());
}

std::string transport_lacking(const Transport* transport, const Topology& topology) {
  const auto links = unmeasured_links(transport, topology);
  if (links.empty()) return "";
  return fmt::format("{} on {}", transport == nullptr ? "ideal" : transport->name,
                     fmt::join(links, ", "));
}

}  // namespace

std::vector<std::string> Unmeasured::words() const {
  std::vector<std::string> list;
  for (const std::string* one : {&kernels, &fabric, &transport}) {
    if (!one->empty()) list.push_back(*one);
  }
  return list;
}

Unmeasured unmeasured_of(const ClusterInput& cluster, const SystemSpec& system,
                         const std::set<std::string>& networks) {
  return {kernels_lacking(cluster), fabric_lacking(cluster.topology, networks),
          transport_lacking(system.transports.tokens.get(), cluster.topology)};
}

std::vector<Unmeasured> unmeasured_of(const Scenario& scenario, const Inputs& inputs,
                                      const std::vector<CaseResult>& cases,
                                      const std::set<std::string>& networks) {
  std::vector<Unmeasured> result;
  for (const CaseResult& c : cases) {
    const auto cluster = std::ranges::find_if(
        inputs.clusters, [&](const ClusterInput& one) { return one.file.name == c.name.topology; });
    const auto system = std::ranges::find(inputs.systems, c.name.policy, &SystemSpec::name);
    if (cluster == inputs.clusters.end() || system == inputs.systems.end()) {
      result.emplace_back();
      continue;
    }
    const auto policy = static_cast<std::size_t>(system - inputs.systems.begin());
    const PolicyView view = view_of(scenario, inputs, policy);
    const auto at = static_cast<std::size_t>(cluster - inputs.clusters.begin());
    result.push_back(unmeasured_of(view.inputs.clusters[at], view.system, networks));
  }
  return result;
}

ModelError error_of_time(const ShippedModelErrors& errors, const Unmeasured& lacks) {
  ModelError of = errors.times;
  if (!lacks.kernels.empty()) of = wider(of, errors.unmeasured.data_sheets);
  if (!lacks.fabric.empty()) of = joined(of, of_fabric(errors.unmeasured.exchanges));
  if (!lacks.transport.empty()) of = joined(of, errors.unmeasured.exchanges);
  return of;
}

ModelError error_of_speedup(const ShippedModelErrors& errors, const Unmeasured& base,
                            const Unmeasured& of) {
  if (base.kernels == of.kernels && base.fabric == of.fabric) {
    ModelError both = errors.speedups;
    if (!of.kernels.empty()) both = wider(both, errors.unmeasured.data_sheet_pairs);
    const bool transports = !base.transport.empty() || !of.transport.empty();
    return transports ? joined(both, errors.unmeasured.exchange_pairs) : both;
  }
  // A speedup is too high if the base's time is, or the other's too low.
  const ModelError slow = error_of_time(errors, base), fast = error_of_time(errors, of);
  return joined({slow.low, slow.high}, {1 / fast.high, 1 / fast.low});
}

}  // namespace moesim
