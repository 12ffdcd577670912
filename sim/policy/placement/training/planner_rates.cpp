// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/placement/training/planner_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "sim/base/data_files.h"
#include "sim/model/gpu_model.h"
#include "sim/plan/exchange_time.h"
#include "sim/policy/unsuitable.h"

namespace moesim {
namespace {

/// One unit between any two different GPUs of a run, or of a run and different hosts.
ByteMatrix uniform_traffic(const PlacementContext& context, bool across) {
  ByteMatrix traffic{Bytes(1 << 20)};
  for (int g = 0; g < context.gpus; ++g) {
    const int first = g / context.ep * context.ep;
    std::vector<ByteMatrix::Entry> row;
    for (int to = first; to < first + context.ep; ++to) {
      const bool other = context.topology.host_of(GpuId(to)) != context.topology.host_of(GpuId(g));
      if (to != g && (other || !across)) row.push_back({GpuId(to), 1});
    }
    traffic.add_row(row);
  }
  return traffic;
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
  ByteMatrix traffic = uniform_traffic(context, reach == CountedBytes::other_nodes);
  if (traffic.entries() == 0) traffic = uniform_traffic(context, false);
  BytesPerSecond fastest;
  for (const Link& link : context.topology.links()) fastest = std::max(fastest, link.bandwidth);
  if (traffic.entries() == 0) return fastest;  // runs of one GPU send nothing
  const Seconds time = price(context.topology, traffic)->alone.transfer;
  return BytesPerSecond(static_cast<double>(traffic.total().value) / context.gpus / time.value);
}

FlopsPerSecond throughput_of(const PlannerRates& given, const PlacementContext& context) {
  if (given.throughput) return *given.throughput;
  FlopsPerSecond slowest(std::numeric_limits<double>::infinity());
  std::map<std::string, FlopsPerSecond> known;
  for (int g = 0; g < context.gpus; ++g) {
    const std::string& name = context.topology.gpu_model(GpuId(g));
    const auto [entry, added] = known.try_emplace(name);
    if (added) {
      const GpuModel gpu = read_gpu_model(data_file("models/gpu", name));
      const auto peak = gpu.peak.find(context.model.weights);
      if (peak == gpu.peak.end()) {
        throw Unsuitable(
            fmt::format("GPU '{}' has no peak for {}", name, name_of(context.model.weights)),
            "give the placement its 'throughput'");
      }
      entry->second = peak->second * gpu.gemm_efficiency;
    }
    slowest = std::min(slowest, entry->second);
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

int node_size(const PlacementContext& context, const std::string& who) {
  const Topology& topology = context.topology;
  const int hosts = topology.host_count();
  const int size = context.gpus / hosts;
  bool regular = context.gpus % hosts == 0;
  for (int g = 0; regular && g < context.gpus; ++g) {
    regular = topology.host_of(GpuId(g)) == g / size;
  }
  if (regular && context.ep % size == 0) return size;
  if (regular && size % context.ep == 0) return context.ep;
  throw Unsuitable(
      fmt::format("'{}' needs hosts of equally many consecutive GPUs, and runs of {} "
                  "ranks that are whole hosts or parts of one; '{}' has not",
                  who, context.ep, topology.name()));
}

}  // namespace moesim
