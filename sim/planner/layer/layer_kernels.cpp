// SPDX-License-Identifier: Apache-2.0
// What the GPUs compute for a layer: the kernels of LayerOps.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "sim/planner/layer/bias_traffic.h"
#include "sim/planner/layer/layer_step.h"

namespace moesim {
namespace {

constexpr std::array<Role, 2> both_gradients = {Role::dgrad, Role::wgrad};
constexpr std::array<Role, 1> weight_gradients = {Role::wgrad};

}  // namespace

std::span<const Role> LayerOps::backward_roles() const {
  return {both_gradients.data(), cell_.weight_gradients_apart ? 1U : 2U};
}

void LayerOps::expert_weight_gradients(int layer) {
  const Step s = step(layer, Pass::backward);
  const ExpertWork work = expert_work(s);
  add_fc2_gradients(s, work, weight_gradients);
  add_fc1_gradients(s, work, weight_gradients);
  computed_[static_cast<std::size_t>(layer)] = mark();
}

void LayerOps::other_weight_gradients(int layer) {
  const Step s = step(layer, Pass::backward);
  add_shared_experts(s, weight_gradients);
  add_gate(s, weight_gradients);
}

void LayerOps::attention_weight_gradients(int layer) {
  add_attention(step(layer, Pass::backward), weight_gradients);
}

bool LayerOps::runs_again(RecomputeModule module) const {
  return cell_.recompute.has(module) && !cell_.recompute.has(RecomputeModule::moe);
}

void LayerOps::recompute_attention(int layer) {
  add_attention(step(layer, Pass::forward).run_again(), {});
}

void LayerOps::attention(int layer, Pass pass) {
  add_attention(step(layer, pass), backward_roles());
}

void LayerOps::add_attention(const Step& s, std::span<const Role> roles) {
  if (!model_.attention || s.work.attended == 0) return;
  const std::int64_t hidden = model_.hidden;
  const std::int64_t width = model_.attention->parameters / hidden;
  const auto projections = [&](GpuId gpu) {
    return GroupedGemm{{s.tokens(gpu)}, width, hidden, gemm_type()};
  };
  const auto scores = [&](GpuId gpu) {
    return GroupedGemm{
        {s.tokens(gpu)}, s.work.attended, model_.attention->score_width, model_.activations};
  };
  if (s.pass == Pass::forward) {
    add_compute(s, s.key(OpKind::attention_projections, Stage::other), projections);
    add_compute(s, s.key(OpKind::attention_scores, Stage::other), scores);
    return;
  }
  for (const Role role : roles) {
    // Both inputs of the scores are activations: neither gradient can wait.
    if (!cell_.weight_gradients_apart) {
      add_compute(s, s.key(OpKind::attention_scores, Stage::other, role), scores);
    } else if (role == Role::dgrad) {
      for (const Role both : both_gradients) {
        add_compute(s, s.key(OpKind::attention_scores, Stage::other, both), scores);
      }
    }
    add_compute(s, s.key(OpKind::attention_projections, Stage::other, role), projections);
  }
}

void LayerOps::add_planning(const Step& s) {
  const LayerDecision& decision = s.work.decision;
  if (s.pass == Pass::backward || s.again || !decision.planning_blocks) return;
  const HostWork work{static_cast<std::int64_t>(std::llround(decision.planning.value * 1e9))};
  add_compute(s, s.key(OpKind::planning, Stage::other), [&](GpuId) { return work; });
}

void LayerOps::before_dispatch(int layer, Pass pass) { add_before_dispatch(step(layer, pass)); }

void LayerOps::add_before_dispatch(const Step& s) {
  const bool forward = s.pass == Pass::forward;
  if (!s.work.decision.after_gate) add_planning(s);
  if (forward) {
    add_compute(s, s.key(OpKind::gate, Stage::other), [&](GpuId gpu) {
      return GroupedGemm{{s.tokens(gpu)}, s.scores(model_), model_.hidden, model_.activations};
    });
    add_shared_experts(s, {});
  }
  const LocalWork& local = s.work.dispatch->shape().local_work;
  if (local.pack) {
    const OpKind kind = forward ? OpKind::permute : OpKind::unpermute;
    add_row_kernel(s, kind, Stage::dispatch, s.parts.packed(), s.parts.packed());
    if (local.transpose_sent) add_transpose(s, Stage::dispatch, s.parts.packed());
  }
  if (s.work.decision.after_gate) add_planning(s);
}

LayerOps::ExpertWork LayerOps::expert_work(const Step& s) const {
  const Placement& placement = s.work.assignment().placement();
  ExpertWork work;
  for (GpuId gpu(0); gpu.value < placement.gpus(); ++gpu.value) {
    const auto& m = work.m.emplace_back(s.parts.computed(gpu));
    work.rows.push_back(std::accumulate(m.begin(), m.end(), std::int64_t{0}));
    work.read.push_back(std::min(s.parts.gathered()[gpu.index()], work.rows.back()));
  }
  return work;
}

void LayerOps::experts(int layer, Pass pass) {
  wait_for_gather(layer, pass);
  for (const Step& s : chunk_steps(step(layer, pass))) {
    pass == Pass::forward ? experts_forward(s, false) : experts_backward(s);
  }
  join_chunks();
  if (pass == Pass::forward) return;
  if (!cell_.weight_gradients_apart) computed_[static_cast<std::size_t>(layer)] = mark();
}

void LayerOps::recompute_experts(int layer) {
  if (experts_again_[static_cast<std::size_t>(layer)]) return;
  experts_again_[static_cast<std::size_t>(layer)] = true;
  wait_for_gather(layer, Pass::backward);
  experts_forward(step(layer, Pass::forward).run_again(), true);
}

/// Per row, besides the products of experts: activation, and if these have biases, as GPT-OSS's,
/// what clamps the two halves and joins them again, and the biases of the results. Those are not
/// needed again.
void LayerOps::add_activation(const Step& s, const ExpertWork& work) {
  const bool biases = model_.expert_bias;
  const bool forward = s.pass == Pass::forward;
  const int matrices = model_.expert_matrices, halves = biases ? matrices - 1 : 0;
  const BiasTraffic bias = biases && !s.again ? traffic_of_bias(forward) : BiasTraffic{};
  // Forward a half is clamped, then joined; backward a clamp reads a gradient and an input.
  const std::int64_t read = forward ? matrices - 1 + 2 * halves : matrices + 3 * halves;
  const std::int64_t written = forward ? 1 + 2 * halves : matrices - 1 + 2 * halves;
  add_memory(s, s.key(OpKind::activation, Stage::experts),
             times(work.rows, read * model_.expert_ffn + bias.read * model_.hidden),
             times(work.rows, written * model_.expert_ffn + bias.written * model_.hidden), 1);
}

void LayerOps::experts_forward(const Step& s, bool alone) {
  const std::int64_t ffn = model_.expert_ffn;
  const std::int64_t up = ffn * (model_.expert_matrices - 1);
  const ExpertWork work = expert_work(s);
  const std::vector<std::int64_t>& arrived = s.parts.gathered();
  const bool transpose = !alone && s.work.dispatch->shape().local_work.transpose_arrived;
  if (!alone) add_codec(s, OpKind::decode, Stage::dispatch, arrived);
  if (transpose) add_transpose(s, Stage::dispatch, arrived);
  const bool arranged = !alone && s.work.dispatch->shape().local_work.arrange;
  if (arranged) add_row_kernel(s, OpKind::sort, Stage::dispatch, work.read, work.rows);
  add_compute(s, s.key(OpKind::fc1, Stage::experts), [&](GpuId gpu) {
    return GroupedGemm{work.m[gpu.index()], up, model_.hidden, gemm_type()};
  });
  add_activation(s, work);
  add_compute(s, s.key(OpKind::fc2, Stage::experts), [&](GpuId gpu) {
    return GroupedGemm{work.m[gpu.index()], model_.hidden, ffn, gemm_type()};
  });
  if (arranged) add_row_kernel(s, OpKind::reduce, Stage::combine, work.rows, arrived);
  if (transpose) add_transpose(s, Stage::combine, arrived);
  if (!alone) add_codec(s, OpKind::encode, Stage::combine, arrived);
}

void LayerOps::experts_backward(const Step& s) {
  const ExpertWork work = expert_work(s);
  const std::vector<std::int64_t>& arrived = s.parts.gathered();
  const LocalWork& local = s.work.dispatch->shape().local_work;
  add_codec(s, OpKind::decode, Stage::dispatch, arrived);
  if (local.transpose_arrived) add_transpose(s, Stage::dispatch, arrived);
  if (local.arrange) add_row_kernel(s, OpKind::reduce, Stage::dispatch, work.read, work.rows);
  const bool ran_again = experts_again_[static_cast<std::size_t>(s.layer)];
  if (runs_again(RecomputeModule::moe_act) && !ran_again) add_activation(s.run_again(), work);
  add_fc2_gradients(s, work, backward_roles());
  add_activation(s, work);
  add_fc1_gradients(s, work, backward_roles());
  if (local.arrange) add_row_kernel(s, OpKind::sort, Stage::combine, work.rows, arrived);
  if (local.transpose_arrived) add_transpose(s, Stage::combine, arrived);
  add_codec(s, OpKind::encode, Stage::combine, arrived);
}

void LayerOps::add_fc2_gradients(const Step& s, const ExpertWork& work,
                                 std::span<const Role> roles) {
  for (const Role role : roles) {
    add_compute(s, s.key(OpKind::fc2, Stage::experts, role), [&](GpuId gpu) {
      return GroupedGemm{work.m[gpu.index()], model_.expert_ffn, model_.hidden, gemm_type()};
    });
  }
}

void LayerOps::add_fc1_gradients(const Step& s, const ExpertWork& work,
                                 std::span<const Role> roles) {
  const std::int64_t up = std::int64_t{model_.expert_ffn} * (model_.expert_matrices - 1);
  for (const Role role : roles) {
    add_compute(s, s.key(OpKind::fc1, Stage::experts, role), [&](GpuId gpu) {
      return GroupedGemm{work.m[gpu.index()], model_.hidden, up, gemm_type()};
    });
  }
}

void LayerOps::after_combine(int layer, Pass pass) { add_after_combine(step(layer, pass)); }

void LayerOps::add_after_combine(const Step& s) {
  const bool forward = s.pass == Pass::forward;
  const LocalWork& local = s.work.dispatch->shape().local_work;
  if (local.pack) {
    if (local.transpose_sent) add_transpose(s, Stage::combine, s.parts.packed());
    const OpKind kind = forward ? OpKind::unpermute : OpKind::permute;
    add_row_kernel(s, kind, Stage::combine, s.parts.packed(), s.work.tokens_per_rank);
  }
  if (forward) {
    s.chain.require(shared_apart_);
    shared_apart_.clear();
    return;
  }
  if (runs_again(RecomputeModule::shared_experts)) add_shared_experts(s.run_again(), {});
  add_shared_experts(s, backward_roles());
  add_gate(s, backward_roles());
}

void LayerOps::add_gate(const Step& s, std::span<const Role> roles) {
  for (const Role role : roles) {
    add_compute(s, s.key(OpKind::gate, Stage::other, role), [&](GpuId gpu) {
      return GroupedGemm{{s.tokens(gpu)}, model_.hidden, s.scores(model_), model_.activations};
    });
  }
}

LayerOps::Rows LayerOps::times(const Rows& rows, std::int64_t factor) {
  Rows result = rows;
  for (std::int64_t& of_gpu : result) of_gpu *= factor;
  return result;
}

void LayerOps::add_memory(const Step& s, const OpKey& key, const Rows& read, const Rows& written,
                          std::int64_t row_elements) {
  const std::int64_t row = row_elements * size_of(model_.activations);
  add_compute(s, key, [&](GpuId gpu) {
    return MemoryBound{Bytes(read[gpu.index()] * row), Bytes(written[gpu.index()] * row)};
  });
}

void LayerOps::add_row_kernel(const Step& s, OpKind kind, Stage stage, const Rows& read,
                              const Rows& written) {
  add_memory(s, s.key(kind, stage), read, written, model_.hidden);
}

void LayerOps::add_codec(const Step& s, OpKind kind, Stage stage, const Rows& rows) {
  const DispatchShape& shape = s.work.dispatch->shape();
  if (!shape.local_work.coded) return;
  const std::int64_t plain = std::int64_t{model_.hidden} * size_of(model_.activations);
  const std::int64_t coded = shape.wire(stage, s.pass).row.value;
  add_compute(s, s.key(kind, stage), [&](GpuId gpu) {
    const Bytes rows_plain(rows[gpu.index()] * plain), rows_coded(rows[gpu.index()] * coded);
    return kind == OpKind::encode ? MemoryBound{rows_plain, rows_coded}
                                  : MemoryBound{rows_coded, rows_plain};
  });
}

void LayerOps::add_compute(const Step& s, const OpKey& key, const KernelOf& kernel_of,
                           std::string label) {
  if (label.empty()) label = name_of(key.type());
  Op op{std::move(label), key, Stream::compute, {}, {}, {}};
  if (set_kernels(s, op, kernel_of)) s.chain.compute(std::move(op));
}

bool LayerOps::set_kernels(const Step& s, Op& op, const KernelOf& kernel_of) const {
  const auto* made = s.parts.kernels(op.key, everybody_, kernel_of);
  if (made == nullptr) return false;
  op.group = made->group;
  op.work = made->kernels;
  return true;
}

}  // namespace moesim
