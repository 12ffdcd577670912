// SPDX-License-Identifier: Apache-2.0
#include "sim/model/weight_matrices.h"

#include "sim/model/block_steps.h"

namespace moesim {
namespace {

void add_ffn(std::vector<WeightMatrix>& matrices, const MoeModel& model, std::int64_t width,
             std::int64_t ffn) {
  matrices.push_back({ffn * (model.expert_matrices - 1), width});
  matrices.push_back({width, ffn});
}

}  // namespace

std::vector<WeightMatrix> weight_matrices(const MoeModel& model, const HeldBlock& held,
                                          const BlockShard& shard) {
  std::vector<WeightMatrix> matrices;
  for (const BlockKernel& kernel : forward_kernels(model, held.layer, held.block, shard)) {
    const auto* gemm = std::get_if<GroupedGemm>(&kernel.kernel);
    if (gemm && !multiplies_activations(kernel.kind)) matrices.push_back({gemm->n, gemm->k});
  }
  if (held.block != BlockKind::moe) return matrices;
  if (model.shared_experts > 0) {
    const std::int64_t ffn = std::int64_t{1} * model.shared_experts * model.shared_ffn;
    add_ffn(matrices, model, model.hidden,
            StepList(model, shard, held.layer, held.block).split(ffn));
  }
  if (model.latent > 0) {
    matrices.push_back({model.latent, model.hidden});
    matrices.push_back({model.hidden, model.latent});
  }
  return matrices;
}

std::vector<WeightMatrix> expert_matrices(const MoeModel& model, int etp) {
  std::vector<WeightMatrix> matrices;
  add_ffn(matrices, model, model.routed_width(), (model.expert_ffn + etp - 1) / etp);
  return matrices;
}

}  // namespace moesim
