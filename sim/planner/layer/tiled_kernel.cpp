// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/layer/tiled_kernel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "sim/base/data_files.h"
#include "sim/base/unsuitable.h"
#include "sim/model/gpu_model.h"

namespace moesim {
namespace {

bool takes(const TiledKernel& kernel, DataType weights) {
  return kernel.types.empty() || std::ranges::find(kernel.types, weights) != kernel.types.end();
}

bool runs_on(const TiledKernel& kernel, const GpuModel& gpu) {
  return kernel.dies.empty() || std::ranges::find(kernel.dies, gpu.die) != kernel.dies.end();
}

}  // namespace

bool fill_tiles(const Chunking& chunking, DataType of_model, const EpGroups& groups,
                bool backward) {
  const TiledKernel& kernel = chunking.kernel;
  if (chunking.by == ChunkBy::tiles || !chunking.fills_tiles) return false;
  if (kernel.is_for_all()) return true;
  return !backward && takes(kernel, kernel.weights.value_or(of_model)) &&
         std::ranges::all_of(groups.gpu_models(), [&](const std::string& name) {
           return runs_on(kernel, read_gpu_model(data_file("models/gpu", name)));
         });
}

int sms_for(const TiledKernel& kernel, DataType of_model, const EpGroups& groups) {
  const DataType type = kernel.weights.value_or(of_model);
  const auto names = [](const std::vector<DataType>& types) {
    std::vector<std::string> all;
    for (const DataType t : types) all.emplace_back(name_of(t));
    return fmt::format("{}", fmt::join(all, " or "));
  };
  if (!takes(kernel, type)) {
    throw Unsuitable(fmt::format("its fused kernel takes no weights of {}", name_of(type)),
                     fmt::format("weights of {}, or schedule.types", names(kernel.types)));
  }
  int least = 0;
  for (const std::string& name : groups.gpu_models()) {
    const GpuModel gpu = read_gpu_model(data_file("models/gpu", name));
    if (!runs_on(kernel, gpu)) {
      throw Unsuitable(fmt::format("its fused kernel does not run on {} (die {})", name,
                                   gpu.die.empty() ? "unstated" : gpu.die),
                       fmt::format("GPUs of {}, or schedule.dies", fmt::join(kernel.dies, " or ")));
    }
    if (gpu.sms == 0) {
      throw Unsuitable(fmt::format("chunks of tiles need the multiprocessors of {}", name),
                       "say 'sms' in its file");
    }
    least = least == 0 ? gpu.sms : std::min(least, gpu.sms);
  }
  return least;
}

int tile_rows(const TiledKernel& kernel, const std::vector<std::int64_t>& slot_rows) {
  const std::int64_t rows = std::accumulate(slot_rows.begin(), slot_rows.end(), std::int64_t{0});
  const double mean = static_cast<double>(rows) / static_cast<double>(slot_rows.size());
  const double covered = mean + std::sqrt(mean);
  const double tiles = std::max(1.0, std::ceil(covered / kernel.rows.back()));
  return *std::ranges::find_if(kernel.rows, [&](int height) { return height * tiles >= covered; });
}

}  // namespace moesim
