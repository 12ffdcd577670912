// SPDX-License-Identifier: Apache-2.0
// What the routed experts of a layer compute: their kernels of LayerOps.
#include <algorithm>
#include <utility>

#include "sim/planner/layer/layer_step.h"

namespace moesim {
namespace {

/// Elements of 2 bytes per element of an expert's output.
struct BiasTraffic {
  int read = 0, written = 0;
};

/// Bytes of `cat([rows + bias * weight of its expert]).to(bf16)` and its gradients, kernel by
/// kernel with weights in fp32 (NVIDIA/Megatron-LM d98e8a64, moe/experts.py:
/// TEGroupedMLP._apply_bias). Forward: bias x weight (4 bytes written), sum (2 + 4 read, 4
/// written), join (4, 4), conversion (4, 2). Backward: conversion (2, 4), that of the rows (4, 2),
/// joined (2, 2), and for bias and weight a product each (4, 4) that is summed up (4).
constexpr BiasTraffic traffic_of_bias(bool forward) {
  return forward ? BiasTraffic{(6 + 4 + 4) / 2, (4 + 4 + 4 + 2) / 2}
                 : BiasTraffic{(2 + 4 + 2 + 2 * (4 + 4)) / 2, (4 + 2 + 2 + 2 * 4) / 2};
}

/// A kernel of its own, of whole tiles.
void fill_tiles(GroupedGemm& product, const ProductTiles& tiles) {
  std::int64_t all = 0;
  for (const std::int64_t m : product.m) all += (m + tiles.rows - 1) / tiles.rows;
  if (all == 0) return;
  const DataType weights = tiles.weights.value_or(product.type);
  product.type = tiles.multiplied.value_or(weights);
  product.wave = Wave{product.m, tiles.rows, tiles.rows, all, all, weights, true};
}

}  // namespace

void LayerOps::experts(int layer, Pass pass) {
  wait_for_gather(layer, pass);
  std::vector<OpId> copies = stash_waits(layer, pass);
  for (const OpId op : std::exchange(experts_await_, {})) copies.push_back(op);
  if (chunks_results(layer)) {
    add_experts_inner(step(layer, pass), false);
    begin_chunks(layer);
    for (const Step& s : chunk_steps(step(layer, pass))) add_experts_results(s, false);
    join_chunks();
    return end_experts(layer, pass);
  }
  for (const Step& s : chunk_steps(step(layer, pass))) {
    s.chain.require(copies);
    pass == Pass::forward ? experts_forward(s, false) : experts_backward(s);
  }
  join_chunks();
  end_experts(layer, pass);
  if (pass == Pass::forward) return;
  if (!cell_.weight_gradients_apart) computed_[static_cast<std::size_t>(layer)] = mark();
}

void LayerOps::recompute_experts(int layer) {
  if (experts_again_[static_cast<std::size_t>(layer)]) return;
  experts_again_[static_cast<std::size_t>(layer)] = true;
  wait_for_gather(layer, Pass::backward);
  experts_forward(step(layer, Pass::forward).run_again(), true);
}

/// Kernels of tiles read and write rows where they are.
bool LayerOps::arranges(const Step& s) const {
  return s.work.dispatch->shape().local_work.arrange && !s.work.wave;
}

/// `first` of the kernel, if the layer is one.
GroupedGemm LayerOps::expert_product(const Step& s, const ExpertWork& work, GpuId gpu,
                                     std::int64_t n, std::int64_t k, bool first, Role role) const {
  const DataType type = gemm_type(GemmPart::experts, s, role);
  GroupedGemm product{work.m[gpu.index()], n, k, type};
  if (s.work.tiles) fill_tiles(product, *s.work.tiles);
  if (!s.work.wave) return product;
  const LayerWave& wave = *s.work.wave;
  const Placement& placement = s.work.assignment().placement();
  const auto of_gpu = wave.kernel->slot_rows.begin() + placement.first_slot(gpu).value;
  const DataType weights = wave.kernel->weights.value_or(type);
  product.type = wave.kernel->products.value_or(weights);
  product.wave = Wave{{of_gpu, of_gpu + placement.slots_on(gpu)},
                      wave.kernel->tile,
                      wave.kernel->fill,
                      wave.tiles(gpu),
                      wave.kernel->tiles[gpu.index()],
                      weights,
                      first && wave.index == 0};
  return product;
}

/// Per row, besides the products of experts: activation, and if these have biases, as GPT-OSS's,
/// what clamps the two halves and joins them again, and the biases of the results. Those are not
/// needed again.
void LayerOps::add_activation(const Step& s, const ExpertWork& work) {
  if (s.work.wave || cell_.activation_fused) return;  // at the end of a tile
  const bool biases = model_.expert_bias;
  const bool forward = s.pass == Pass::forward;
  const int matrices = model_.expert_matrices, halves = biases ? matrices - 1 : 0;
  const BiasTraffic bias = biases && !s.again ? traffic_of_bias(forward) : BiasTraffic{};
  // Forward a half is clamped, then joined; backward a clamp reads a gradient and an input.
  const std::int64_t read = forward ? matrices - 1 + 2 * halves : matrices + 3 * halves;
  const std::int64_t written = forward ? 1 + 2 * halves : matrices - 1 + 2 * halves;
  add_memory(s, s.key(OpKind::activation, Stage::experts),
             times(work.rows, read * model_.expert_ffn + bias.read * model_.routed_width()),
             times(work.rows, written * model_.expert_ffn + bias.written * model_.routed_width()),
             1);
}

void LayerOps::experts_forward(const Step& s, bool alone) {
  add_experts_inner(s, alone);
  add_experts_results(s, alone);
}

void LayerOps::add_experts_inner(const Step& s, bool alone) {
  const std::int64_t up = std::int64_t{model_.expert_ffn} * (model_.expert_matrices - 1);
  const ExpertWork& work = s.parts.expert_work();
  const std::vector<std::int64_t>& arrived = s.parts.gathered();
  const bool transpose = !alone && s.work.dispatch->shape().local_work.transpose_arrived;
  if (!alone) add_codec(s, OpKind::decode, Stage::dispatch, arrived);
  if (transpose) add_transpose(s, Stage::dispatch, arrived);
  const bool arranged = !alone && arranges(s);
  if (arranged) add_row_kernel(s, OpKind::sort, Stage::dispatch, work.read, work.rows);
  add_compute(s, s.key(OpKind::fc1, Stage::experts), [&](GpuId gpu) {
    return expert_product(s, work, gpu, up, model_.routed_width(), true, Role::plain);
  });
  add_activation(s, work);
}

void LayerOps::add_experts_results(const Step& s, bool alone) {
  const ExpertWork& work = s.parts.expert_work();
  const std::vector<std::int64_t>& arrived = s.parts.gathered();
  const bool transpose = !alone && s.work.dispatch->shape().local_work.transpose_arrived;
  const bool arranged = !alone && arranges(s);
  add_compute(s, s.key(OpKind::fc2, Stage::experts), [&](GpuId gpu) {
    return expert_product(s, work, gpu, model_.routed_width(), model_.expert_ffn, false,
                          Role::plain);
  });
  if (arranged) add_row_kernel(s, OpKind::reduce, Stage::combine, work.rows, arrived);
  if (transpose) add_transpose(s, Stage::combine, arrived);
  if (!alone) add_codec(s, OpKind::encode, Stage::combine, arrived);
}

void LayerOps::experts_backward(const Step& s) {
  const ExpertWork& work = s.parts.expert_work();
  const std::vector<std::int64_t>& arrived = s.parts.gathered();
  const LocalWork& local = s.work.dispatch->shape().local_work;
  add_codec(s, OpKind::decode, Stage::dispatch, arrived);
  if (local.transpose_arrived) add_transpose(s, Stage::dispatch, arrived);
  if (arranges(s)) add_row_kernel(s, OpKind::reduce, Stage::dispatch, work.read, work.rows);
  const bool ran_again = experts_again_[static_cast<std::size_t>(s.layer)];
  if (runs_again(RecomputeModule::moe_act) && !ran_again) add_activation(s.run_again(), work);
  add_fc2_gradients(s, work, backward_roles());
  add_activation(s, work);
  add_fc1_gradients(s, work, backward_roles());
  if (arranges(s)) add_row_kernel(s, OpKind::sort, Stage::combine, work.rows, arrived);
  if (local.transpose_arrived) add_transpose(s, Stage::combine, arrived);
  add_codec(s, OpKind::encode, Stage::combine, arrived);
}

void LayerOps::add_fc2_gradients(const Step& s, const ExpertWork& work,
                                 std::span<const Role> roles) {
  for (const Role role : roles) {
    add_compute(s, s.key(OpKind::fc2, Stage::experts, role), [&](GpuId gpu) {
      const bool first = role == roles.front();
      return expert_product(s, work, gpu, model_.expert_ffn, model_.routed_width(), first, role);
    });
  }
}

void LayerOps::add_fc1_gradients(const Step& s, const ExpertWork& work,
                                 std::span<const Role> roles) {
  const std::int64_t up = std::int64_t{model_.expert_ffn} * (model_.expert_matrices - 1);
  for (const Role role : roles) {
    add_compute(s, s.key(OpKind::fc1, Stage::experts, role), [&](GpuId gpu) {
      return expert_product(s, work, gpu, model_.routed_width(), up, false, role);
    });
  }
}

}  // namespace moesim
