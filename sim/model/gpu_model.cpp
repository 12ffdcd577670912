// SPDX-License-Identifier: Apache-2.0
#include "sim/model/gpu_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/base/yaml.h"

namespace moesim {
namespace {

constexpr Range fraction{0.01, 1};
constexpr Range slow_down{1, 1000};

GpuModel read_gpu(YamlDocument& doc) {
  const YamlMap map = doc.root().map();
  GpuModel gpu;
  gpu.name = map.string("name");
  gpu.description = map.string("description", "");
  gpu.source = map.string("source");
  gpu.memory = map.bytes("memory");
  gpu.memory_bandwidth = map.bandwidth("memory_bandwidth");
  if (const auto peak = map.get("peak")) {
    const YamlMap rates = peak->map();
    for (DataType type : {DataType::fp8, DataType::bf16, DataType::fp16, DataType::fp32}) {
      if (const auto rate = rates.find(name_of(type))) gpu.peak[type] = rate->compute_rate();
    }
    if (rates.keys().empty())
      peak->error("'peak' names no data type", "such as {bf16: 989 TFLOP/s}");
  }
  if (const auto efficiency = map.find("efficiency")) {
    gpu.gemm_efficiency = efficiency->map().number("gemm", fraction, 1);
    gpu.memory_efficiency = efficiency->map().number("memory", fraction, 1);
  }
  gpu.launch_overhead = map.seconds("launch_overhead", Seconds(0));
  gpu.tables = read_kernel_tables(map);
  if (const auto overlap = map.find("overlap")) {
    gpu.overlap.compute = overlap->map().number("compute", slow_down, 1);
    gpu.overlap.communication = overlap->map().number("communication", slow_down, 1);
  }
  map.find("fit");  // for people
  map.find("provenance");
  doc.finish();
  return gpu;
}

}  // namespace

Flops flops_of(const Kernel& kernel) {
  const auto* gemm = std::get_if<GroupedGemm>(&kernel);
  if (gemm == nullptr) return Flops(0);
  const auto rows = std::accumulate(gemm->m.begin(), gemm->m.end(), std::int64_t{0});
  return Flops(2.0 * static_cast<double>(rows) * static_cast<double>(gemm->n) *
               static_cast<double>(gemm->k));
}

Bytes memory_traffic_of(const Kernel& kernel) {
  if (const auto* bound = std::get_if<MemoryBound>(&kernel)) return bound->read + bound->written;
  if (std::holds_alternative<HostWork>(kernel)) return Bytes(0);
  const auto& gemm = std::get<GroupedGemm>(kernel);
  std::int64_t elements = 0;
  for (std::int64_t m : gemm.m) {
    if (m > 0) elements += m * gemm.k + m * gemm.n + gemm.n * gemm.k;
  }
  return Bytes(elements * size_of(gemm.type));
}

bool is_empty(const Kernel& kernel) {
  if (const auto* host = std::get_if<HostWork>(&kernel)) return host->nanoseconds == 0;
  return memory_traffic_of(kernel).value == 0;
}

Seconds GpuModel::time(const Kernel& kernel, const OpType& op) const {
  if (const auto* host = std::get_if<HostWork>(&kernel)) {
    return Seconds(static_cast<double>(host->nanoseconds) * 1e-9);
  }
  const Bytes traffic = memory_traffic_of(kernel);
  if (traffic.value == 0) return Seconds(0);
  if (const auto* gemm = std::get_if<GroupedGemm>(&kernel)) {
    if (const GemmTable* table = tables.find(*gemm, op)) {
      const double ratio =
          static_cast<double>(gemm->n * gemm->k) / static_cast<double>(table->n * table->k);
      return table->time(gemm->m) * ratio;
    }
  } else if (const MemoryTable* table = tables.find_memory(op)) {
    return table->bytes.at(static_cast<double>(traffic.value));
  }
  Seconds work = traffic / (memory_bandwidth * memory_efficiency);
  if (const auto* gemm = std::get_if<GroupedGemm>(&kernel)) {
    const auto rate = peak.find(gemm->type);
    if (rate == peak.end()) {
      throw Error(fmt::format("GPU model '{}' has no peak for {}", name, name_of(gemm->type)),
                  fmt::format("add '{}' to its 'peak', or choose another data type in the model",
                              name_of(gemm->type)));
    }
    work = std::max(work, flops_of(kernel) / (rate->second * gemm_efficiency));
  }
  return launch_overhead + work;
}

GpuModel read_gpu_model(const std::string& path, const std::vector<Override>& overrides) {
  return read_gpu(*YamlDocument::from_file(path, overrides));
}

GpuModel parse_gpu_model(const std::string& text, const std::string& name,
                         const std::vector<Override>& overrides) {
  return read_gpu(*YamlDocument::from_text(text, name, overrides));
}

}  // namespace moesim
