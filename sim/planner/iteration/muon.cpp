// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/muon.h"

#include <algorithm>
#include <queue>
#include <ranges>
#include <utility>

#include "sim/base/error.h"
#include "sim/planner/iteration/block_memory.h"
#include "sim/planner/layer/gradient_sum.h"

namespace moesim {

std::int64_t parameters_of(const MatrixCounts& matrices) {
  std::int64_t sum = 0;
  for (const auto& [matrix, count] : matrices) sum += matrix.parameters() * count;
  return sum;
}

std::vector<MatrixCounts> deal_out(const MatrixCounts& matrices, int replicas) {
  std::vector<std::pair<WeightMatrix, std::int64_t>> largest_first(matrices.begin(),
                                                                   matrices.end());
  std::ranges::stable_sort(largest_first, std::greater(),
                           [](const auto& each) { return each.first.parameters(); });
  using Load = std::pair<std::int64_t, int>;  // parameters, replica
  std::priority_queue<Load, std::vector<Load>, std::greater<>> least;
  for (int r = 0; r < replicas; ++r) least.emplace(0, r);
  std::vector<MatrixCounts> dealt(static_cast<std::size_t>(replicas));
  for (const auto& [matrix, count] : largest_first) {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto [load, replica] = least.top();
      least.pop();
      ++dealt[static_cast<std::size_t>(replica)][matrix];
      least.emplace(load + matrix.parameters(), replica);
    }
  }
  return dealt;
}

std::array<GroupedGemm, 3> newton_schulz(const WeightMatrix& matrix, std::int64_t count) {
  const auto [m, n] = std::minmax(matrix.rows, matrix.columns);
  const std::vector<std::int64_t> rows = {newton_schulz_steps * count * m};
  return {GroupedGemm{rows, m, n, DataType::bf16}, GroupedGemm{rows, m, m, DataType::bf16},
          GroupedGemm{rows, n, m, DataType::bf16}};
}

namespace {

MatrixCounts dense_matrices(const StageSpace& stage, const std::vector<StagePart>& parts) {
  MatrixCounts matrices;
  for (const StagePart& part : parts) {
    for (const HeldBlock& held : blocks_of(part, stage.model())) {
      if (held.block == BlockKind::head) continue;
      for (const WeightMatrix& each : weight_matrices(stage.model(), held, stage.shard())) {
        ++matrices[each];
      }
    }
  }
  return matrices;
}

MatrixCounts matrices_of_experts(const StageSpace& stage, std::int64_t experts) {
  MatrixCounts matrices;
  if (experts == 0) return matrices;
  for (const WeightMatrix& each : expert_matrices(stage.expert_model(), 1)) {
    matrices[each] += experts;
  }
  return matrices;
}

std::vector<std::size_t> places_in(const GpuGroups& groups) {
  std::size_t gpus = 0;
  for (const auto& group : groups) gpus += group.size();
  std::vector<std::size_t> places(gpus);
  for (const auto& group : groups) {
    for (std::size_t i = 0; i < group.size(); ++i) places[group[i].index()] = i;
  }
  return places;
}

}  // namespace

void HeldMatrices::add_experts(const LayerWork& work) {
  if (work.decision.gradients != GradientLayout::homes) {
    throw Error("optimizer: muon, but a policy divides the state of every expert over GPUs",
                "its updates need whole matrices: leave that policy out, or optimizer: adam");
  }
  const SlotTable homes = state_homes(work.decision);
  for (std::size_t g = 0; g < homes.size(); ++g) experts[g] += std::ssize(homes[g]);
}

std::vector<Updated> updated_by_muon(const StageSpace& stage, const HeldMatrices& held, int copy,
                                     int copies) {
  const GpuGroups dp = stage.groups(ParallelAxis::dp_cp), edp = stage.groups(ParallelAxis::edp);
  const bool deals = stage.options().spec.zero > 0;
  const auto replicas = [&](const GpuGroups& groups) {
    return deals ? static_cast<int>(groups.front().size()) * copies : 1;
  };
  const auto mine = [&](const std::vector<MatrixCounts>& dealt, std::size_t place,
                        const GpuGroups& groups) -> const MatrixCounts& {
    return dealt[(place + static_cast<std::size_t>(copy) * groups.front().size()) % dealt.size()];
  };
  const MatrixCounts dense = dense_matrices(stage, held.parts);
  const auto of_dense = deal_out(dense, replicas(dp));
  const std::int64_t others = (held.dense - parameters_of(dense) + replicas(dp) - 1) / replicas(dp);
  const auto dense_places = places_in(dp), expert_places = places_in(edp);
  std::map<std::int64_t, std::vector<MatrixCounts>> of_experts;  // by how many a GPU holds
  std::vector<Updated> updated;
  for (std::size_t g = 0; g < held.experts.size(); ++g) {
    auto [dealt, is_new] = of_experts.try_emplace(held.experts[g]);
    if (is_new) {
      dealt->second = deal_out(matrices_of_experts(stage, held.experts[g]), replicas(edp));
    }
    updated.push_back({mine(of_dense, dense_places[g], dp), others});
    for (const auto& [matrix, count] : mine(dealt->second, expert_places[g], edp)) {
      updated.back().matrices[matrix] += count;
    }
  }
  return updated;
}

}  // namespace moesim
