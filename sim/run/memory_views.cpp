// SPDX-License-Identifier: Apache-2.0
#include "sim/run/memory_views.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace moesim {
namespace {

std::string name_of_turn(const Turn& turn) {
  static constexpr std::array<const char*, 4> kinds = {"forward", "backward", "input gradient",
                                                       "weight gradient"};
  const auto text = [](const StageWork& work) {
    return fmt::format("{} of microbatch {}", kinds.at(static_cast<std::size_t>(work.kind)),
                       work.microbatch);
  };
  return text(turn.work) + (turn.beside ? " with " + text(*turn.beside) : "");
}

}  // namespace

std::vector<std::string> memory_part_names() {
  std::vector<std::string> names;
  for (int p = 0; p < memory_part_count; ++p)
    names.emplace_back(name_of(static_cast<MemoryPart>(p)));
  return names;
}

FullestGpu peak_of(const StepMemory& memory, GpuId gpu, const GpuModels& gpus) {
  const MemoryPeak& peak = memory.peaks[gpu.index()];
  FullestGpu told{peak.use.total(), Bytes(0), gpus[gpu.index()]->memory, gpu, peak.when()};
  for (int p = 0; p < memory_part_count; ++p) {
    const auto part = static_cast<MemoryPart>(p);
    // Only passes of serving have a cache.
    if (part == MemoryPart::cache && peak.use.of(part).value == 0) continue;
    told.parts.push_back({name_of(part), peak.use.of(part)});
  }
  told.on_host = peak.on_host;
  return told;
}

std::vector<int> stages_of(const StepMemory& memory) {
  std::vector<int> stages;
  for (const MemoryPeak& peak : memory.peaks) stages.push_back(peak.stage);
  return stages;
}

FullestGpu fullest_of(const StepMemory& memory, const GpuModels& gpus) {
  FullestGpu told = peak_of(memory, fullest(memory.peaks), gpus);
  double sum = 0;
  for (const MemoryPeak& each : memory.peaks) sum += static_cast<double>(each.use.total().value);
  told.mean = Bytes(std::llround(sum / static_cast<double>(memory.peaks.size())));
  return told;
}

MemoryCurve memory_curve(const StepMemory& memory, const Pipeline& pipeline,
                         const GpuModels& gpus) {
  const GpuId gpu = fullest(memory.peaks);
  MemoryCurve curve{gpu, memory.peaks[gpu.index()].stage, gpus[gpu.index()]->memory, {}, {}, {}};
  const bool caches = memory.peaks[gpu.index()].use.of(MemoryPart::cache).value > 0;
  const int parts = caches ? memory_part_count : memory_part_count - 1;
  for (int p = 0; p < parts; ++p) {
    curve.parts.emplace_back(name_of(static_cast<MemoryPart>(p)));
  }
  for (const Turn& turn : pipeline.of(curve.stage)) curve.turns.push_back(name_of_turn(turn));
  if (memory.curve.size() > curve.turns.size()) curve.turns.emplace_back("update");
  for (const MemoryUse& use : memory.curve) {
    auto& bytes = curve.bytes.emplace_back();
    for (int p = 0; p < parts; ++p) bytes.push_back(use.of(static_cast<MemoryPart>(p)).value);
  }
  return curve;
}

}  // namespace moesim
