// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/step_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/units.h"
#include "sim/base/unsuitable.h"

namespace moesim {
namespace {

const char* text_of(WorkKind kind) {
  switch (kind) {
    case WorkKind::forward:
      return "forward";
    case WorkKind::backward:
      return "backward";
    case WorkKind::input_gradient:
      return "input gradients";
    case WorkKind::weight_gradient:
      return "weight gradients";
  }
  return "";
}

}  // namespace

const char* name_of(MemoryPart part) {
  static constexpr std::array<const char*, memory_part_count> names = {
      "weights",     "gradients", "optimizer", "placeholders", "gathered",
      "activations", "working",   "transfers", "cache"};
  return names.at(static_cast<std::size_t>(part));
}

Bytes MemoryUse::total() const {
  Bytes sum;
  for (const Bytes part : parts) sum += part;
  return sum;
}

MemoryUse& MemoryUse::operator+=(const MemoryUse& other) {
  for (std::size_t p = 0; p < parts.size(); ++p) parts[p] += other.parts[p];
  return *this;
}

std::string MemoryPeak::when() const {
  if (update) return fmt::format("in the update of pipeline stage {}", stage);
  if (turn < 0) return "all the time";
  const std::string at =
      layer < 0 ? name_of(block) : fmt::format("{} of layer {}", name_of(block), layer);
  return fmt::format("in turn {} of pipeline stage {} ({} of microbatch {}, {})", turn, stage,
                     text_of(work.kind), work.microbatch, at);
}

GpuId fullest(const MemoryPeaks& peaks) {
  const auto most =
      std::ranges::max_element(peaks, {}, [](const MemoryPeak& peak) { return peak.use.total(); });
  return GpuId(most - peaks.begin());
}

std::string text_of_parts(const MemoryUse& use) {
  std::string text;
  for (int p = 0; p < memory_part_count; ++p) {
    const auto part = static_cast<MemoryPart>(p);
    if (use.of(part).value == 0) continue;
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : ", ", to_string(use.of(part)), name_of(part));
  }
  return text;
}

void check_memory(const MemoryPeaks& peaks, const GpuModels& gpus, const std::string& policy,
                  const std::optional<std::string>& layers, const std::string& hint) {
  std::size_t worst = peaks.size();
  Bytes excess(0);
  for (std::size_t g = 0; g < peaks.size(); ++g) {
    const Bytes over = peaks[g].use.total() + gpus[g]->memory * -1;
    if (over > excess) excess = over, worst = g;
  }
  if (worst == peaks.size()) return;
  const MemoryPeak& peak = peaks[worst];
  const std::string what = layers && !layers->empty() ? " for " + *layers : "";
  const bool serves = peak.use.of(MemoryPart::cache).value > 0;
  const std::string when = layers || serves ? "" : " " + peak.when();
  throw Unsuitable(
      fmt::format("policy '{}' needs {}{} on GPU {}{}, which has {} for tensors: {} too much ({})",
                  policy, to_string(peak.use.total()), what, worst, when,
                  to_string(gpus[worst]->memory), to_string(excess), text_of_parts(peak.use)),
      layers ? "fewer layers (--layers 0,1), slots or tokens per rank, more GPUs, other "
               "gradient_bytes or optimizer_bytes; or memory: ignore; iterations can recompute"
             : hint);
}

}  // namespace moesim
