// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "sim/base/units.h"
#include "sim/base/yaml.h"
#include "sim/model/gpu_model.h"

namespace moesim {
namespace {

constexpr Range fraction{0.01, 1};
constexpr Range slow_down{1, 1000};
constexpr Range correction{0.01, 2};
constexpr Range sm_counts{1, 100000};

Bytes read_memory(const YamlMap& map) {
  const Bytes memory = map.bytes("memory");
  const auto reserved = map.find("reserved_memory");
  if (!reserved) return memory;
  const Bytes free = memory + reserved->bytes() * -1;
  if (free <= Bytes(0)) {
    reserved->error("reserved_memory leaves nothing for tensors",
                    "it is a part of memory, " + to_string(memory));
  }
  return free;
}

/// The part of the peak that products reach by themselves, at most.
double best_efficiency(const GpuModel& gpu, DataType type) {
  const auto fitted = gpu.fitted.gemm.find(type);
  return fitted != gpu.fitted.gemm.end() ? fitted->second.efficiency : gpu.gemm_efficiency;
}

/// What a training run keeps of kernels' own rates may be more than these, but not than the peak.
void check_kept(const YamlMap& map, const GpuModel& gpu) {
  for (const auto& [type, kept] : gpu.training) {
    const double efficiency = best_efficiency(gpu, type);
    if (!gpu.peak.contains(type) || kept <= 1 || kept * efficiency <= 1) continue;
    map.find("efficiency")
        ->map()
        .find("training")
        ->error(
            fmt::format("'efficiency.training.{}' is {:g}: products would run at {:.3g} times "
                        "the peak",
                        name_of(type), kept, kept * efficiency),
            fmt::format("at most {:.2f}, or 'kept' of the software: kernels by themselves reach "
                        "{:g} of the peak",
                        1 / efficiency, efficiency));
    return;  // types that are not stated keep the same
  }
}

GpuModel read_gpu(YamlDocument& doc) {
  const YamlMap map = doc.root().map();
  GpuModel gpu;
  gpu.name = map.string("name");
  gpu.description = map.string("description", "");
  gpu.source = map.string("source");
  gpu.serves_as = map.string("serves_as", "");
  gpu.die = map.string("die", "");
  gpu.memory = read_memory(map);
  gpu.memory_bandwidth = map.bandwidth("memory_bandwidth");
  if (const auto peak = map.get("peak")) {
    const YamlMap rates = peak->map();
    for (const DataType type : product_types) {
      if (const auto rate = rates.find(name_of(type))) gpu.peak[type] = rate->compute_rate();
    }
    for (const DataType type : stored_types) {
      const auto of_rows = gpu.peak.find(type_of_rows(type));
      if (of_rows != gpu.peak.end()) gpu.peak[type] = of_rows->second;
    }
    if (rates.keys().empty())
      peak->error("'peak' names no data type", "such as {bf16: 989 TFLOP/s}");
  }
  if (const auto efficiency = map.find("efficiency")) {
    gpu.gemm_efficiency = efficiency->map().number("gemm", fraction, 1);
    gpu.memory_efficiency = efficiency->map().number("memory", fraction, 1);
    if (efficiency->map().find("rows"))
      gpu.rows_efficiency = efficiency->map().number("rows", fraction);
    if (efficiency->map().find("loss"))
      gpu.loss_efficiency = efficiency->map().number("loss", fraction);
    if (const auto training = efficiency->map().find("training")) {
      for (const DataType type : product_types) {
        gpu.training[type] = training->map().number(name_of(type), correction, 1);
      }
    }
  }
  gpu.launch_overhead = map.seconds("launch_overhead", Seconds(0));
  if (map.find("sms")) gpu.sms = static_cast<int>(map.integer("sms", sm_counts));
  gpu.tables = read_kernel_tables(map);
  gpu.fitted = read_fitted_kernels(map);
  if (const auto other = map.find("kernels_of")) {
    gpu.measured_gpu = other->string();
    if (gpu.grounds() == "data sheet") {
      other->error("'kernels_of' has no effect: no kernel is measured", "state 'kernels'");
    }
  }
  if (const auto overlap = map.find("overlap")) {
    gpu.overlap.compute = overlap->map().number("compute", slow_down, 1);
    gpu.overlap.communication = overlap->map().number("communication", slow_down, 1);
  }
  if (const auto of_host = map.find("host")) gpu.host = read_host_model(*of_host);
  gpu.host_slowdown = map.number("host_slowdown", slow_down, 1);
  check_kept(map, gpu);
  map.find("fit");  // for people
  map.find("provenance");
  doc.finish();
  return gpu;
}

}  // namespace

GpuModel read_gpu_model(const std::string& path, const std::vector<Override>& overrides) {
  return read_gpu(*YamlDocument::from_file(path, overrides));
}

GpuModel parse_gpu_model(const std::string& text, const std::string& name,
                         const std::vector<Override>& overrides) {
  return read_gpu(*YamlDocument::from_text(text, name, overrides));
}

}  // namespace moesim
