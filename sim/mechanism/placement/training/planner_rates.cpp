// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/training/planner_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "sim/base/data_files.h"
#include "sim/base/unsuitable.h"
#include "sim/model/gpu_model.h"

namespace moesim {
namespace {

/// One unit between any two different ranks of every EP group, or of one group and different hosts.
ByteMatrix uniform_traffic(const EpGroups& groups, bool across) {
  std::vector<ByteMatrix> of_group;
  for (const RankSpace& ranks : groups.spaces()) {
    ByteMatrix& traffic = of_group.emplace_back(Bytes(1 << 20));
    const RankLevel& hosts = ranks.hosts();
    for (int from = 0; from < ranks.size(); ++from) {
      std::vector<ByteMatrix::Entry> row;
      for (int to = 0; to < ranks.size(); ++to) {
        const bool other = hosts.group_of(GpuId(to)) != hosts.group_of(GpuId(from));
        if (to != from && (other || !across)) row.push_back({GpuId(to), 1});
      }
      traffic.add_row(row);
    }
  }
  return groups.joined(of_group);
}

}  // namespace

PlannerRates read_planner_rates(const YamlMap& params) {
  PlannerRates rates;
  if (const auto value = params.find("bandwidth")) rates.bandwidth = value->bandwidth();
  if (const auto value = params.find("throughput")) rates.throughput = value->compute_rate();
  return rates;
}

BytesPerSecond bandwidth_of(const PlannerRates& given, const PlacementContext& context,
                            CountedBytes reach) {
  if (given.bandwidth) return *given.bandwidth;
  ByteMatrix traffic = uniform_traffic(context.groups, reach == CountedBytes::other_nodes);
  if (traffic.entries() == 0) traffic = uniform_traffic(context.groups, false);
  BytesPerSecond fastest;
  for (const Link& link : context.groups.network().links())
    fastest = std::max(fastest, link.bandwidth);
  if (traffic.entries() == 0) return fastest;  // groups of one GPU send nothing
  const Seconds time = context.groups.busiest_link(traffic);
  return BytesPerSecond(static_cast<double>(traffic.total().value) / traffic.ranks() / time.value);
}

FlopsPerSecond throughput_of(const PlannerRates& given, const PlacementContext& context) {
  if (given.throughput) return *given.throughput;
  FlopsPerSecond slowest(std::numeric_limits<double>::infinity());
  for (const std::string& name : context.groups.gpu_models()) {
    const GpuModel gpu = read_gpu_model(data_file("models/gpu", name));
    const auto peak = gpu.peak.find(context.model.weights);
    if (peak == gpu.peak.end()) {
      throw Unsuitable(
          fmt::format("GPU '{}' has no peak for {}", name, name_of(context.model.weights)),
          "give the placement its 'throughput'");
    }
    slowest = std::min(slowest, peak->second * gpu.gemm_efficiency);
  }
  return slowest;
}

Seconds choice_time(const MoeModel& model, FlopsPerSecond throughput) {
  return Flops(2.0 * static_cast<double>(model.expert_parameters())) / throughput;
}

Seconds dense_time(const MoeModel& model, FlopsPerSecond throughput, double tokens) {
  const double attention = model.attention ? static_cast<double>(model.attention->parameters) : 0.0;
  const double shared = 1.0 * model.shared_experts * model.shared_ffn * model.expert_matrices;
  return Flops(2 * tokens * (attention + shared * model.hidden)) / throughput;
}

double mean_tokens(const Batch& batch) {
  return static_cast<double>(batch.tokens()) / static_cast<double>(batch.ranks.size());
}

}  // namespace moesim
