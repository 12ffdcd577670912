// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/layer/chunk_count.h"

#include <algorithm>
#include <map>
#include <utility>

#include "sim/base/data_files.h"

namespace moesim {
namespace {

constexpr double least_gain = 0.01;  // of a layer: less is not worth the search

/// Rows of each slot of the GPU that computes most.
std::vector<std::int64_t> most_rows(const LayerWork& work) {
  const Placement& placement = work.assignment().placement();
  const std::vector<std::int64_t>& computed = work.counts.computed();
  std::vector<std::int64_t> most;
  std::int64_t most_sum = -1;
  for (GpuId gpu(0); gpu.value < placement.gpus(); ++gpu.value) {
    const auto first = computed.begin() + placement.first_slot(gpu).value;
    const std::vector<std::int64_t> rows(first, first + placement.slots_on(gpu));
    std::int64_t sum = 0;
    for (const std::int64_t of_slot : rows) sum += of_slot;
    if (sum > most_sum) most = rows, most_sum = sum;
  }
  return most;
}

}  // namespace

Seconds time_in_chunks(int r, Seconds before, Seconds experts, Seconds after) {
  return std::max({r * (before + after), before + r * experts + after, r * before + experts + after,
                   before + experts + r * after});
}

ChunkCount::ChunkCount(const EpGroups& groups, const MoeModel& model, DataType gemm_type,
                       bool backward)
    : groups_(groups), model_(model), gemm_type_(gemm_type), backward_(backward) {
  for (const std::string& name : groups.gpu_models()) {
    gpus_.push_back(read_gpu_model(data_file("models/gpu", name)));
  }
}

int ChunkCount::best(const LayerWork& work) const {
  if (work.assignment().split()) return 1;
  const Seconds whole = time(work, 1);
  const Seconds experts = expert_time(work, 1, true) + expert_time(work, 1, false);
  // Chunks hide experts or exchanges behind each other: no more than the experts take.
  if (experts.value < least_gain * whole.value) return 1;
  int best = 1;
  Seconds least = whole;
  for (const int chunks : degrees) {
    const Seconds predicted = chunks == 1 ? whole : time(work, chunks);
    if (predicted < least) best = chunks, least = predicted;
  }
  return best;
}

Seconds ChunkCount::time(const LayerWork& work, int chunks) const {
  const DispatchShape& shape = work.dispatch->shape();
  std::map<std::pair<bool, std::int64_t>, Seconds> known;  // passes mostly have the same rows
  const auto exchange = [&](Stage stage, Pass pass) {
    const bool back = stage == Stage::combine;
    const Bytes row(std::max<std::int64_t>(shape.wire(stage, pass).row.value / chunks, 1));
    const auto [at, fresh] = known.try_emplace({back, row.value});
    if (fresh) at->second = exchange_time(work.counts, shape, groups_, row, back);
    return at->second;
  };
  const auto of_pass = [&](Pass pass) {
    return time_in_chunks(chunks, exchange(Stage::dispatch, pass),
                          expert_time(work, chunks, pass == Pass::forward),
                          exchange(Stage::combine, pass));
  };
  return of_pass(Pass::forward) + (backward_ ? of_pass(Pass::backward) : Seconds(0));
}

Seconds ChunkCount::expert_time(const LayerWork& work, int chunks, bool forward) const {
  std::vector<std::int64_t> m = most_rows(work);
  std::int64_t rows = 0;
  for (std::int64_t& of_slot : m) {
    of_slot = (of_slot + chunks - 1) / chunks;
    rows += of_slot;
  }
  const std::int64_t ffn = model_.expert_ffn, up = ffn * (model_.expert_matrices - 1);
  const std::int64_t element = size_of(model_.activations);
  const Bytes row(rows * model_.routed_width() * element);
  const Bytes joined(rows * ffn * element), halves(rows * up * element);
  Seconds slowest;
  for (const GpuModel& gpu : gpus_) {
    const Seconds products = gpu.time(GroupedGemm{m, up, model_.routed_width(), gemm_type_}) +
                             gpu.time(GroupedGemm{m, model_.routed_width(), ffn, gemm_type_});
    const Seconds others = 2 * gpu.time(MemoryBound{row, row}) +  // sort and reduce
                           gpu.time(MemoryBound{halves, joined});
    slowest = std::max(slowest, (forward ? 1 : 2) * products + others);
  }
  return slowest;
}

}  // namespace moesim
