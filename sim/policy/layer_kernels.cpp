// SPDX-License-Identifier: Apache-2.0
// What the GPUs compute for a layer: the kernels of LayerOps.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/policy/layer_step.h"

namespace moesim {

void LayerOps::attention(int layer, Pass pass) {
  const Step s = step(layer, pass);
  if (!model_.attention || s.work.attended == 0) return;
  const std::int64_t hidden = model_.hidden;
  const std::int64_t width = model_.attention->parameters / hidden;
  for (int g = 0; g < chain_.gpus(); ++g) {
    const GpuId gpu(g);
    const std::int64_t tokens = s.work.tokens_per_rank[gpu.index()];
    const GroupedGemm projections{{tokens}, width, hidden, model_.weights};
    const GroupedGemm scores{
        {tokens}, s.work.attended, model_.attention->score_width, model_.activations};
    if (pass == Pass::forward) {
      add_compute(gpu, s.key(OpKind::attention_projections, Stage::other), projections);
      add_compute(gpu, s.key(OpKind::attention_scores, Stage::other), scores);
      continue;
    }
    for (const Role role : {Role::dgrad, Role::wgrad}) {
      add_compute(gpu, s.key(OpKind::attention_scores, Stage::other, role), scores);
      add_compute(gpu, s.key(OpKind::attention_projections, Stage::other, role), projections);
    }
  }
}

void LayerOps::add_planning(const Step& s) {
  const LayerDecision& decision = s.work.decision;
  if (s.pass == Pass::backward || !decision.planning_blocks) return;
  const HostWork work{static_cast<std::int64_t>(std::llround(decision.planning.value * 1e9))};
  for (int g = 0; g < chain_.gpus(); ++g) {
    add_compute(GpuId(g), s.key(OpKind::planning, Stage::other), work);
  }
}

void LayerOps::add_shared_experts(const Step& s, GpuId gpu) {
  const std::int64_t shared = std::int64_t{1} * model_.shared_experts * model_.shared_ffn;
  if (shared == 0) return;
  const std::int64_t tokens = s.work.tokens_per_rank[gpu.index()];
  const std::int64_t up = shared * (model_.expert_matrices - 1);
  if (s.pass == Pass::forward) {
    add_compute(gpu, s.key(OpKind::shared_fc1, Stage::other),
                GroupedGemm{{tokens}, up, model_.hidden, model_.weights});
    add_compute(gpu, s.key(OpKind::shared_fc2, Stage::other),
                GroupedGemm{{tokens}, model_.hidden, shared, model_.weights});
    return;
  }
  for (const Role role : {Role::dgrad, Role::wgrad}) {
    add_compute(gpu, s.key(OpKind::shared_fc2, Stage::other, role),
                GroupedGemm{{tokens}, shared, model_.hidden, model_.weights});
    add_compute(gpu, s.key(OpKind::shared_fc1, Stage::other, role),
                GroupedGemm{{tokens}, model_.hidden, up, model_.weights});
  }
}

void LayerOps::before_dispatch(int layer, Pass pass) {
  const Step s = step(layer, pass);
  const bool forward = pass == Pass::forward;
  if (!s.work.decision.after_gate) add_planning(s);
  for (int g = 0; g < chain_.gpus(); ++g) {
    const GpuId gpu(g);
    if (forward) {
      add_compute(gpu, s.key(OpKind::gate, Stage::other),
                  GroupedGemm{{s.work.tokens_per_rank[gpu.index()]},
                              model_.experts,
                              model_.hidden,
                              model_.activations});
      add_shared_experts(s, gpu);
    }
    if (!s.work.dispatch->shape().local_work.pack) continue;
    const std::int64_t copies = s.sums.packed[gpu.index()];
    const OpKind kind = forward ? OpKind::permute : OpKind::unpermute;
    add_memory(gpu, s.key(kind, Stage::dispatch), copies, copies, model_.hidden);
    add_transpose(s, gpu, Stage::dispatch, s.work.dispatch->shape().local_work.transpose_sent,
                  copies);
  }
  if (s.work.decision.after_gate) add_planning(s);
}

LayerOps::ExpertWork LayerOps::expert_work(const Step& s, GpuId gpu) const {
  const Placement& placement = s.work.assignment().placement();
  const auto first = s.work.counts.computed().begin() + placement.first_slot(gpu).value;
  ExpertWork work;
  work.m.assign(first, first + placement.slots_on(gpu));
  work.rows = std::accumulate(work.m.begin(), work.m.end(), std::int64_t{0});
  work.arrived = s.sums.delivered[gpu.index()];
  work.read = std::min(work.arrived, work.rows);
  return work;
}

void LayerOps::experts(int layer, Pass pass) {
  const Step s = step(layer, pass);
  wait_for_gather(layer, pass);
  if (pass == Pass::forward) return experts_forward(s, Role::plain);
  experts_backward(s);
  computed_[static_cast<std::size_t>(layer)] = mark();
}

void LayerOps::recompute_experts(int layer) {
  const Step s = step(layer, Pass::backward);
  wait_for_gather(layer, Pass::backward);
  experts_forward(s, Role::recompute);
}

void LayerOps::experts_forward(const Step& s, Role role) {
  const std::int64_t ffn = model_.expert_ffn;
  const std::int64_t up = ffn * (model_.expert_matrices - 1);
  const bool again = role == Role::recompute;
  for (int g = 0; g < chain_.gpus(); ++g) {
    const GpuId gpu(g);
    const auto [m, rows, arrived, read] = expert_work(s, gpu);
    const bool transpose = !again && s.work.dispatch->shape().local_work.transpose_arrived;
    add_transpose(s, gpu, Stage::dispatch, transpose, arrived);
    if (!again) {
      add_memory(gpu, s.key(OpKind::sort, Stage::dispatch), read, rows, model_.hidden);
    }
    add_compute(gpu, s.key(OpKind::fc1, Stage::experts, role),
                GroupedGemm{m, up, model_.hidden, model_.weights});
    add_memory(gpu, s.key(OpKind::activation, Stage::experts, role),
               rows * (model_.expert_matrices - 1), rows, ffn);
    add_compute(gpu, s.key(OpKind::fc2, Stage::experts, role),
                GroupedGemm{m, model_.hidden, ffn, model_.weights});
    if (!again) {
      add_memory(gpu, s.key(OpKind::reduce, Stage::combine), rows, arrived, model_.hidden);
    }
    add_transpose(s, gpu, Stage::combine, transpose, arrived);
  }
}

void LayerOps::experts_backward(const Step& s) {
  const std::int64_t ffn = model_.expert_ffn;
  const std::int64_t up = ffn * (model_.expert_matrices - 1);
  for (int g = 0; g < chain_.gpus(); ++g) {
    const GpuId gpu(g);
    const auto [m, rows, arrived, read] = expert_work(s, gpu);
    const GroupedGemm fc2{m, ffn, model_.hidden, model_.weights};
    const GroupedGemm fc1{m, model_.hidden, up, model_.weights};
    const bool transpose = s.work.dispatch->shape().local_work.transpose_arrived;
    add_transpose(s, gpu, Stage::dispatch, transpose, arrived);
    add_memory(gpu, s.key(OpKind::reduce, Stage::dispatch), read, rows, model_.hidden);
    add_compute(gpu, s.key(OpKind::fc2, Stage::experts, Role::dgrad), fc2);
    add_compute(gpu, s.key(OpKind::fc2, Stage::experts, Role::wgrad), fc2);
    add_memory(gpu, s.key(OpKind::activation, Stage::experts), rows * model_.expert_matrices,
               rows * (model_.expert_matrices - 1), ffn);
    add_compute(gpu, s.key(OpKind::fc1, Stage::experts, Role::dgrad), fc1);
    add_compute(gpu, s.key(OpKind::fc1, Stage::experts, Role::wgrad), fc1);
    add_memory(gpu, s.key(OpKind::sort, Stage::combine), rows, arrived, model_.hidden);
    add_transpose(s, gpu, Stage::combine, transpose, arrived);
  }
}

void LayerOps::after_combine(int layer, Pass pass) {
  const Step s = step(layer, pass);
  const bool forward = pass == Pass::forward;
  for (int g = 0; g < chain_.gpus(); ++g) {
    const GpuId gpu(g);
    const std::int64_t tokens = s.work.tokens_per_rank[gpu.index()];
    if (s.work.dispatch->shape().local_work.pack) {
      add_transpose(s, gpu, Stage::combine, s.work.dispatch->shape().local_work.transpose_sent,
                    s.sums.packed[gpu.index()]);
      const OpKind kind = forward ? OpKind::unpermute : OpKind::permute;
      add_memory(gpu, s.key(kind, Stage::combine), s.sums.packed[gpu.index()], tokens,
                 model_.hidden);
    }
    if (forward) continue;
    add_shared_experts(s, gpu);
    for (const Role role : {Role::dgrad, Role::wgrad}) {
      add_compute(gpu, s.key(OpKind::gate, Stage::other, role),
                  GroupedGemm{{tokens}, model_.hidden, model_.experts, model_.activations});
    }
  }
}

void LayerOps::add_memory(GpuId gpu, const OpKey& key, std::int64_t read_rows,
                          std::int64_t written_rows, std::int64_t row_elements) {
  const std::int64_t row = row_elements * size_of(model_.activations);
  add_compute(gpu, key, MemoryBound{Bytes(read_rows * row), Bytes(written_rows * row)});
}

void LayerOps::add_transpose(const Step& s, GpuId gpu, Stage stage, bool present,
                             std::int64_t rows) {
  if (present) add_memory(gpu, s.key(OpKind::transpose, stage), rows, rows, model_.hidden);
}

void LayerOps::add_compute(GpuId gpu, const OpKey& key, Kernel kernel, std::string label) {
  if (is_empty(kernel)) return;
  if (label.empty()) label = name_of(key.type());
  chain_.compute({std::move(label), key, Lane::compute, {}, Compute{gpu, std::move(kernel)}});
}

}  // namespace moesim
