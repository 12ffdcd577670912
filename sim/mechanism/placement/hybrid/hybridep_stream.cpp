// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "sim/base/data_files.h"
#include "sim/mechanism/placement/hybrid/hybridep.h"
#include "sim/model/gpu_model.h"
#include "sim/plan/exchange_time.h"

namespace moesim {
namespace {

constexpr Bytes probe{1 << 20};  // from every worker to every other

/// All workers of a level exchange evenly: ranks whose places differ only there.
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

/// The products of a GPU's experts, forward, if rows are even.
Seconds expert_time(const MoeModel& model, const GpuModel& gpu, std::int64_t rows,
                    std::int64_t experts) {
  const std::vector<std::int64_t> m(static_cast<std::size_t>(experts), rows / experts);
  const std::int64_t ffn = model.expert_ffn, width = model.routed_width();
  return gpu.time(GroupedGemm{m, ffn * (model.expert_matrices - 1), width, model.weights}) +
         gpu.time(GroupedGemm{m, width, ffn, model.weights});
}

}  // namespace

std::vector<StreamLevel> stream_levels(const EpGroups& groups, const std::vector<int>& workers) {
  std::vector<StreamLevel> levels;
  int stride = 1;
  for (const int count : workers) stride *= count;
  for (const int count : workers) {
    stride /= count;
    const ByteMatrix traffic = groups.in_every_group(even_exchange(groups.size(), count, stride));
    const ExchangeTime time = groups.alone(traffic);
    const double sent = static_cast<double>(probe.value) * (count - 1);
    levels.push_back({count, BytesPerSecond(count > 1 ? sent / time.transfer.value : 1),
                      time.overhead + time.latency});
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

ExpertCodec expert_codec(const MoeModel& model, const HybridEpOptions& options) {
  return {.ratio = options.compression,
          .values = model.weights,
          .parameters = model.expert_parameters(),
          .fused = options.fused};
}

Bytes gradient_message(const ExpertCodec& codec, const TrainingState& state,
                       const HybridEpOptions& options) {
  const bool compressed = codec.compresses() && !options.whole_gradients;
  return compressed ? codec.message() : Bytes(codec.parameters * state.gradient);
}

ByteMatrix shared_expert_ring(const ExpertCodec& codec, int ranks) {
  std::vector<std::uint32_t> row(static_cast<std::size_t>(ranks));
  ByteMatrix ring(Bytes((shared_expert_payload(codec).value + ranks - 1) / ranks));
  for (int g = 0; g < ranks; ++g) {
    const auto next = static_cast<std::size_t>((g + 1) % ranks);
    row[next] = 2 * static_cast<std::uint32_t>(ranks - 1);
    ring.add_dense_row(row);
    row[next] = 0;
  }
  return ring;
}

std::vector<int> automatic_domains(const PlacementContext& context, const HybridEpOptions& options,
                                   const std::vector<int>& workers, std::int64_t tokens,
                                   int top_k) {
  const EpGroups& groups = context.groups;
  const ExpertCodec codec = expert_codec(context.model, options);
  const std::int64_t experts = (context.experts + groups.size() - 1) / groups.size();  // of a GPU
  std::vector<StreamLevel> levels = stream_levels(groups, workers);
  StreamLayer layer;
  layer.tokens = context.model.row_bytes() * (tokens * top_k);
  layer.experts = codec.expert() * experts;
  layer.compression = options.compression;
  layer.pre_expert =
      options.pre_expert.value_or(pre_expert_estimate(context.model, groups.network(), tokens));
  if (options.objective == DomainObjective::published) {
    for (StreamLevel& level : levels) level.latency = Seconds(0);
    return best_domains(layer, levels).domains;
  }
  const GpuModel gpu =
      read_gpu_model(data_file("models/gpu", groups.network().gpu_model(GpuId(0))));
  layer.layers = std::max(context.layers, 1);
  layer.compute = expert_time(context.model, gpu, tokens * top_k, experts);
  if (codec.compresses()) {
    const auto time = [&](const KernelTraffic& of_expert) {
      return gpu.time(MemoryBound{of_expert.read * experts, of_expert.written * experts});
    };
    layer.encode = time(encode_traffic(codec));
    layer.decode = time(decode_traffic(codec));
  }
  if (context.backward) {
    layer.backward = {.gradients = gradient_message(codec, context.state, options) * experts,
                      .regathers = options.regather};
    if (codec.compresses()) {
      const ByteMatrix ring = shared_expert_ring(codec, groups.size());
      layer.backward->shared = groups.alone(groups.in_every_group(ring)).total();
    }
  }
  return best_domains(layer, levels).domains;
}

}  // namespace moesim
