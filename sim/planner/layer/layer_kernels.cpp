// SPDX-License-Identifier: Apache-2.0
// What the GPUs compute for a layer: the kernels of LayerOps.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "sim/plan/label.h"
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
  const ExpertWork& work = s.parts.expert_work();
  add_fc2_gradients(s, work, weight_gradients);
  add_fc1_gradients(s, work, weight_gradients);
  computed_[static_cast<std::size_t>(layer)] = mark();
}

void LayerOps::other_weight_gradients(int layer) {
  const Step s = step(layer, Pass::backward);
  add_latent_gradients(s, OpKind::latent_up, weight_gradients);
  add_latent_gradients(s, OpKind::latent_down, weight_gradients);
  add_shared_experts(s, weight_gradients);
  add_gate(s, weight_gradients);
}

void LayerOps::attention_weight_gradients(int layer) {
  add_attention(step(layer, Pass::backward), weight_gradients);
}

DataType LayerOps::gemm_type(GemmPart part, const Step& s, Role role) const {
  if (cell_.gemm_types) return cell_.gemm_types->of(part, s.work.number, role);
  return part == GemmPart::experts ? model_.weights : model_.other_weights();
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
  const auto projections = [&](Role role) {
    const DataType type = gemm_type(GemmPart::attention, s, role);
    return [&s, width, hidden, type](GpuId gpu) {
      return GroupedGemm{{s.tokens(gpu)}, width, hidden, type};
    };
  };
  const auto scores = [&](GpuId gpu) {
    return GroupedGemm{
        {s.tokens(gpu)}, s.work.attended, model_.attention->score_width, model_.activations};
  };
  if (s.pass == Pass::forward) {
    add_compute(s, s.key(OpKind::attention_projections, Stage::other), projections(Role::plain));
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
    add_compute(s, s.key(OpKind::attention_projections, Stage::other, role), projections(role));
  }
}

void LayerOps::add_planning(const Step& s) {
  const LayerDecision& decision = s.work.decision;
  if (s.pass == Pass::backward || s.again || !decision.planning_blocks) return;
  const HostWork work{static_cast<std::int64_t>(std::llround(decision.planning.value * 1e9))};
  add_compute(s, s.key(OpKind::planning, Stage::other), [&](GpuId) { return work; });
}

void LayerOps::before_dispatch(int layer, Pass pass) {
  if (pass == Pass::backward) load_stashed(layer);
  add_before_dispatch(step(layer, pass));
}

void LayerOps::add_before_dispatch(const Step& s) {
  const bool forward = s.pass == Pass::forward;
  if (!s.work.decision.after_gate) add_planning(s);
  if (forward) {
    add_compute(s, s.key(OpKind::gate, Stage::other), [&](GpuId gpu) {
      return GroupedGemm{{s.tokens(gpu)}, s.scores(model_), model_.hidden, model_.activations};
    });
    add_shared_experts(s, {});
    add_latent(s, OpKind::latent_down);
  } else {
    add_latent_gradients(s, OpKind::latent_up, backward_roles());
  }
  const LocalWork& local = s.work.dispatch->shape().local_work;
  if (local.pack) {
    const OpKind kind = forward ? OpKind::permute : OpKind::unpermute;
    add_row_kernel(s, kind, Stage::dispatch, s.parts.packed(), s.parts.packed());
    if (local.transpose_sent) add_transpose(s, Stage::dispatch, s.parts.packed());
  }
  if (s.work.decision.after_gate) add_planning(s);
}

void LayerOps::after_combine(int layer, Pass pass) { add_after_combine(step(layer, pass)); }

void LayerOps::add_after_combine(const Step& s) {
  const bool forward = s.pass == Pass::forward;
  const LocalWork& local = s.work.dispatch->shape().local_work;
  if (local.sums) {
    const std::int64_t row = model_.row_bytes().value;
    const OpKind kind = forward ? OpKind::unpermute : OpKind::permute;
    add_compute(s, s.key(kind, Stage::combine), [&](GpuId gpu) {
      const std::int64_t back = s.parts.packed()[gpu.index()];
      return MemoryBound{Bytes(back * row), Bytes(s.work.tokens_per_rank[gpu.index()] * row), true};
    });
  }
  if (local.pack) {
    if (local.transpose_sent) add_transpose(s, Stage::combine, s.parts.packed());
    const OpKind kind = forward ? OpKind::unpermute : OpKind::permute;
    add_row_kernel(s, kind, Stage::combine, s.parts.packed(), s.work.tokens_per_rank);
  }
  if (forward) {
    add_latent(s, OpKind::latent_up);
    return;
  }
  add_latent_gradients(s, OpKind::latent_down, backward_roles());
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

void LayerOps::add_latent(const Step& s, OpKind kind) {
  if (model_.latent == 0) return;
  const bool down = kind == OpKind::latent_down;
  const std::int64_t n = down ? model_.latent : model_.hidden,
                     k = down ? model_.hidden : model_.latent;
  add_compute(s, s.key(kind, Stage::other), [&](GpuId gpu) {
    return GroupedGemm{{s.tokens(gpu)}, n, k, gemm_type(GemmPart::latent, s, Role::plain)};
  });
}

void LayerOps::add_latent_gradients(const Step& s, OpKind kind, std::span<const Role> roles) {
  if (model_.latent == 0) return;
  const bool down = kind == OpKind::latent_down;
  const std::int64_t n = down ? model_.hidden : model_.latent,
                     k = down ? model_.latent : model_.hidden;
  for (const Role role : roles) {
    add_compute(s, s.key(kind, Stage::other, role), [&](GpuId gpu) {
      return GroupedGemm{{s.tokens(gpu)}, n, k, gemm_type(GemmPart::latent, s, role)};
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
  add_memory(s, s.key(kind, stage), read, written, model_.routed_width());
}

void LayerOps::add_codec(const Step& s, OpKind kind, Stage stage, const Rows& rows) {
  const DispatchShape& shape = s.work.dispatch->shape();
  if (!shape.local_work.coded) return;
  const std::int64_t plain = model_.row_bytes().value;
  const std::int64_t coded = shape.wire(stage, s.pass).row.value;
  add_compute(s, s.key(kind, stage), [&](GpuId gpu) {
    const Bytes rows_plain(rows[gpu.index()] * plain), rows_coded(rows[gpu.index()] * coded);
    return kind == OpKind::encode ? MemoryBound{rows_plain, rows_coded}
                                  : MemoryBound{rows_coded, rows_plain};
  });
}

void LayerOps::add_compute(const Step& s, const OpKey& key, const KernelOf& kernel_of,
                           std::string label) {
  if (label.empty() && s.work.wave) label = name_of(key.type()) + s.wave_suffix();
  Op op{label.empty() ? type_label(key.type()) : Label(std::move(label)),
        key,
        Stream::compute,
        {},
        {},
        {}};
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
