// SPDX-License-Identifier: Apache-2.0
// Kernels and modules of each op in eager execution: the table of docs/host.md.
#include <algorithm>
#include <array>

#include "sim/model/host_model.h"

namespace moesim {
namespace {

/// Launches of an op, and the modules that it belongs to.
struct EagerCalls {
  int forward = 1, backward = 1;  // kernels; of weight gradients there is one
  int modules = 0;                // forward, and once in the backward pass
};

EagerCalls eager_calls(OpKind kind, bool product) {
  switch (kind) {
    case OpKind::attention_projections:
      return product ? EagerCalls{1, 1, 1} : EagerCalls{2, 3, 0};  // queries and keys by themselves
    case OpKind::attention_scores:
      return {1, 3, 1};  // backward: sums of output x gradient, the products, queries' type
    case OpKind::gate:
      return {8, 8, 1};
    case OpKind::norm:
      return {1, 2, 0};  // backward: by rows, then the weight's over all rows
    case OpKind::attention_output:
    case OpKind::shared_fc1:
    case OpKind::shared_fc2:
    case OpKind::latent_down:
    case OpKind::latent_up:
    case OpKind::fc1:
    case OpKind::fc2:
    case OpKind::dense_fc1:
    case OpKind::dense_fc2:
    case OpKind::mtp_projection:
    case OpKind::head:
    case OpKind::mamba_projection:
      return {1, 1, 1};
    case OpKind::mamba_conv:
      return {1, 2, 0};  // backward: once more, then its gradients
    case OpKind::mamba_scan:
      return product ? EagerCalls{1, 1, 0} : EagerCalls{5, 22, 1};
    case OpKind::mamba_norm:
      return {1, 2, 1};
    case OpKind::permute:
      return {14, 1, 1};  // with counts and splits of the exchange
    case OpKind::sort:
    case OpKind::reduce:
      return {2, 1, 1};
    case OpKind::unpermute:
      return {1, 1, 1};
    case OpKind::stash:
      return {12, 6, 0};  // three tensors: two of zeros, the copy, a head; the copy, a tail
    case OpKind::embedding:
      return {3, 3, 1};
    case OpKind::loss:
      return {12, 4, 1};
    case OpKind::optimizer:
      return {8, 8, 0};
    default:
      return {};
  }
}

bool in_moe_layer(OpKind kind) {
  static constexpr std::array kinds = {
      OpKind::gate,      OpKind::shared_fc1, OpKind::shared_fc2,     OpKind::permute,
      OpKind::transpose, OpKind::sort,       OpKind::token_exchange, OpKind::side_exchange,
      OpKind::relay,     OpKind::fc1,        OpKind::activation,     OpKind::fc2,
      OpKind::reduce,    OpKind::unpermute,  OpKind::latent_down,    OpKind::latent_up,
      OpKind::host_read, OpKind::stash};
  return std::ranges::find(kinds, kind) != kinds.end();
}

bool in_router(OpKind kind) {
  return kind == OpKind::gate || kind == OpKind::shared_fc1 || kind == OpKind::shared_fc2;
}

/// By its kind only, if that is in one block.
std::optional<BlockKind> block_of(OpKind kind) {
  switch (kind) {
    case OpKind::attention_projections:
    case OpKind::attention_scores:
    case OpKind::attention_output:
    case OpKind::context_exchange:
      return BlockKind::attention;
    case OpKind::mamba_projection:
    case OpKind::mamba_conv:
    case OpKind::mamba_scan:
    case OpKind::mamba_norm:
      return BlockKind::mamba;
    case OpKind::dense_fc1:
    case OpKind::dense_activation:
    case OpKind::dense_fc2:
      return BlockKind::dense_ffn;
    default:
      return in_moe_layer(kind) ? std::optional(BlockKind::moe) : std::nullopt;
  }
}

}  // namespace

int kernels_of(const OpType& op, const Kernel& kernel) {
  if (std::holds_alternative<HostWork>(kernel)) return 0;
  if (op.role == Role::wgrad) return 1;
  const EagerCalls calls = eager_calls(op.kind, std::holds_alternative<GroupedGemm>(kernel));
  const bool runs_forward = op.pass == Pass::forward || op.role == Role::recompute;
  return runs_forward ? calls.forward : calls.backward;
}

HostCalls host_calls(const OpType& op, const Kernel* kernel, bool grouped) {
  if (op.kind == OpKind::offload) return {.kernels = 1};  // a copy
  if (kernel == nullptr) return {.collectives = 1};
  if (std::holds_alternative<HostWork>(*kernel)) return {};  // has a time of its own
  const auto* gemm = std::get_if<GroupedGemm>(kernel);
  if (gemm != nullptr && gemm->wave) {  // its kernel is launched once
    return {.kernels = gemm->wave->starts ? 1 : 0, .modules = gemm->wave->starts ? 1 : 0};
  }
  const auto* memory = std::get_if<MemoryBound>(kernel);
  if (memory != nullptr && memory->goes_on) return {};
  // Products of experts are launched one by one, and so is the cast of what comes in, whose own
  // kernels one call launches.
  const int groups = gemm != nullptr && !grouped ? static_cast<int>(gemm->m.size()) : 1;
  if (op.role == Role::wgrad) return {.kernels = groups};
  const int casts = gemm != nullptr && is_quantized(gemm->type) ? groups : 0;
  return {.kernels = kernels_of(op, *kernel) + groups - 1 + casts,
          .modules = eager_calls(op.kind, gemm != nullptr).modules};
}

bool captured(const GraphModules& graphs, const OpType& op, std::optional<BlockKind> block) {
  if (graphs.empty()) return false;
  if (graphs.has(GraphModule::full_iteration)) return true;
  if (!block) block = block_of(op.kind);
  if (!block) return false;
  switch (*block) {
    case BlockKind::attention:
      return graphs.has(GraphModule::attn);
    case BlockKind::mamba:
      return graphs.has(GraphModule::mamba);
    case BlockKind::dense_ffn:
      return graphs.has(GraphModule::mlp);
    case BlockKind::moe:
      if (graphs.has(GraphModule::moe)) return true;
      if (op.kind == OpKind::permute) return graphs.has(GraphModule::moe_preprocess);
      return (in_router(op.kind) || op.kind == OpKind::norm) && graphs.has(GraphModule::moe_router);
    default:
      return false;
  }
}

}  // namespace moesim
