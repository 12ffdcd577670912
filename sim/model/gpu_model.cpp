// SPDX-License-Identifier: Apache-2.0
#include "sim/model/gpu_model.h"

#include <fmt/format.h>

#include "sim/base/error.h"

namespace moesim {

Seconds GpuModel::time(const Kernel& kernel, const OpType& op) const {
  if (const auto* work = std::get_if<HostWork>(&kernel)) {
    const double factor = op.kind == OpKind::minimum_time ? 1 : host_time;  // that is the network's
    return Seconds(static_cast<double>(work->nanoseconds) * 1e-9) * factor;
  }
  const Bytes traffic = memory_traffic_of(kernel);
  if (traffic.value == 0) return Seconds(0);
  if (const auto* gemm = std::get_if<GroupedGemm>(&kernel)) {
    if (const GemmTable* table = gemm->wave ? nullptr : tables.find(*gemm, op)) {
      const double ratio =
          static_cast<double>(gemm->n * gemm->k) / static_cast<double>(table->n * table->k);
      return table->time(gemm->m) * ratio;
    }
  } else if (const MemoryTable* table = tables.find_memory(op);
             table != nullptr && std::holds_alternative<MemoryBound>(kernel)) {
    return table->bytes.at(static_cast<double>(traffic.value));
  }
  return roofline_time(kernel, op).total;
}

double GpuModel::kept_in_training(DataType type) const {
  const auto kept = find_type(training, type);
  return kept == training.end() ? 1 : kept->second;
}

FlopsPerSecond GpuModel::rate(DataType type) const {
  const auto found = peak.find(type);
  if (found == peak.end()) {
    throw Error(fmt::format("GPU model '{}' has no peak for {}", name, name_of(type)),
                fmt::format("add '{}' to its 'peak', or choose another data type: in the model, or "
                            "by 'precision' or "
                            "'serving.precision'",
                            name_of(type)));
  }
  return found->second * kept_in_training(type);
}

BytesPerSecond GpuModel::memory_rate(OpKind kind) const {
  const bool of_rows = kind == OpKind::permute || kind == OpKind::unpermute ||
                       kind == OpKind::sort || kind == OpKind::reduce;
  if (of_rows) return memory_bandwidth * rows_efficiency.value_or(memory_efficiency);
  if (kind == OpKind::loss) return memory_bandwidth * loss_efficiency.value_or(memory_efficiency);
  return memory_bandwidth * memory_efficiency;
}

KernelTime GpuModel::roofline_time(const Kernel& kernel, const OpType& op) const {
  const Roofline any{launch_overhead, gemm_efficiency, memory_efficiency};
  const auto type = type_of(kernel);
  const int more = training_traffic.of_software ? kernels_of(op, kernel) - 1 : 0;
  if (!type) {
    const auto* rows = std::get_if<MemoryBound>(&kernel);
    const bool launched = rows == nullptr || !rows->goes_on;
    KernelTime time{launched ? launch_overhead * (1 + more) : Seconds(0), {}, {}, {}};
    time.memory =
        memory_traffic_of(kernel) / (memory_rate(op.kind) * kept_in_training(DataType::bf16));
    time.total = time.launch + time.memory;
    return time;
  }
  const Roofline* of_kind = fitted.find(kernel);
  if (of_kind == nullptr && training_traffic.of_software && !fitted.attention.empty() &&
      std::holds_alternative<FusedAttention>(kernel)) {
    throw Error(
        fmt::format("GPU model '{}' has no kernels of attention in {}", name, name_of(*type)),
        "precision.parts without scores, or a GPU with kernels.attention." +
            std::string(name_of(*type)));
  }
  const Roofline& roofline = of_kind != nullptr ? *of_kind : any;
  const BytesPerSecond bandwidth = memory_bandwidth * kept_in_training(*type);
  if (const auto* gemm = std::get_if<GroupedGemm>(&kernel); gemm != nullptr && gemm->wave) {
    return roofline.time_of_wave(*gemm, op, rate(*type), bandwidth);
  }
  KernelTime time =
      roofline.time(kernel, op, rate(*type), bandwidth, training_traffic.of_gradient(kernel, op));
  const TrainingTraffic::Cast cast = training_traffic.of_cast(kernel, op);
  const Seconds launches = launch_overhead * (cast.kernels + more);
  const Seconds casts = cast.bytes / (bandwidth * memory_efficiency);
  time.launch += launches;
  time.memory += casts;
  time.total += launches + casts;
  return time;
}

KernelBound GpuModel::bound(const Kernel& kernel, const OpType& op) const {
  const KernelTime by_itself = roofline_time(kernel, op);
  if (by_itself.launch >= time(kernel, op) - by_itself.launch) return KernelBound::launch;
  return by_itself.compute > by_itself.memory ? KernelBound::compute : KernelBound::memory;
}

const char* name_of(KernelBound bound) {
  switch (bound) {
    case KernelBound::launch:
      return "launch";
    case KernelBound::compute:
      return "compute";
    case KernelBound::memory:
      return "memory";
  }
  return "";
}

bool GpuModel::has_measured_kernels() const {
  const bool has_gemm = fitted.gemm.contains(DataType::bf16);
  return !tables.gemm.empty() || (has_gemm && !fitted.attention.empty());
}

std::string GpuModel::grounds() const {
  if (!tables.gemm.empty()) return "tables";
  if (fitted.gemm.empty()) return "data sheet";
  if (!has_measured_kernels()) return "partly fitted";
  return measured_gpu.empty() ? "fitted" : "fitted, those of " + measured_gpu;
}

}  // namespace moesim
