// SPDX-License-Identifier: Apache-2.0
#include "sim/base/data_files.h"
#include "sim/model/gpu_model.h"
#include "sim/policy/placement/hybrid/hybridep.h"

namespace moesim {
namespace {

constexpr Bytes probe{1 << 20};  // from every worker to every other

/// All workers of a level exchange evenly: ranks whose places differ there alone.
ByteMatrix even_exchange(int ranks, int workers, int stride) {
  ByteMatrix traffic(probe);
  for (int from = 0; from < ranks; ++from) {
    const int first = from - from / stride % workers * stride;
    std::vector<ByteMatrix::Entry> row;
    for (int w = 0; w < workers; ++w) {
      const int to = first + w * stride;
      if (to != from) row.push_back({GpuId(to), 1});
    }
    traffic.add_row(row);
  }
  return traffic;
}

}  // namespace

std::vector<StreamLevel> stream_levels(const EpGroups& groups, const std::vector<int>& workers) {
  std::vector<StreamLevel> levels;
  int stride = 1;
  for (const int count : workers) stride *= count;
  for (const int count : workers) {
    stride /= count;
    const Seconds time =
        groups.busiest_link(groups.in_every_group(even_exchange(groups.size(), count, stride)));
    const double sent = static_cast<double>(probe.value) * (count - 1);
    levels.push_back({count, BytesPerSecond(count > 1 ? sent / time.value : 1)});
  }
  return levels;
}

Seconds pre_expert_estimate(const MoeModel& model, const Topology& topology, std::int64_t tokens) {
  const std::int64_t weights =
      (model.attention ? model.attention->parameters : 0) +
      std::int64_t{model.shared_experts} * model.expert_matrices * model.hidden * model.shared_ffn;
  if (weights == 0 || tokens == 0) return Seconds(0);
  const GpuModel gpu = read_gpu_model(data_file("models/gpu", topology.gpu_model(GpuId(0))));
  return gpu.time(GroupedGemm{{tokens}, weights / model.hidden, model.hidden, model.activations}) +
         gpu.launch_overhead * -1;
}

ExpertCodec expert_codec(const MoeModel& model, double compression) {
  return {.ratio = compression,
          .value_bytes = size_of(model.weights),
          .parameters = model.expert_parameters()};
}

}  // namespace moesim
