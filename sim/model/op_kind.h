// SPDX-License-Identifier: Apache-2.0
// What the ops of an iteration are. Every decision about an op hangs on these; its label is only
// for people.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moesim {

enum class OpKind : std::uint8_t {
  other,  // nobody asks what it is
  // Next to the routed experts of a layer.
  attention_projections,
  attention_scores,
  gate,
  shared_fc1,
  shared_fc2,
  latent_down,  // narrows rows for routed experts in a latent ...
  latent_up,    // ... and widens the sums of their results
  planning,     // the host decides where experts go
  host_read,    // the host reads what a side exchange brought, and launches what waits for it
  // On the way of the tokens, outward in the forward pass.
  permute,         // gathers rows into a send buffer
  transpose,       // one more copy of what is sent or has arrived
  token_exchange,  // of a dispatch or a combine, by its stage
  side_exchange,   // of counts or gate weights, with the rows
  minimum_time,    // what a token exchange takes at least, however few bytes it moves
  relay,           // between two phases: copies rows to their next hops, or adds up their parts
  sort,            // arrived rows by expert
  fc1,
  activation,
  fc2,
  stash,      // what experts keep for the backward pass to pages, and back
  offload,    // what blocks keep for the backward pass to the memory of the host, and back
  reduce,     // the results of a row's experts on one GPU
  unpermute,  // spreads or adds up what came back
  // Of expert parameters and their gradients.
  parameter_exchange,  // gather, reduce or migrate, by its stage
  gradient_sum,        // of gradients between EP groups
  encode,              // compresses parameters before they travel
  decode,
  // Of whole iterations: dense blocks ...
  embedding,  // looks rows up; backward: adds gradients to them
  norm,
  attention_output,  // the projection behind the scores
  mamba_projection,  // into a Mamba mixer, and out of it
  mamba_conv,
  mamba_scan,  // states, with the output's gate
  mamba_norm,  // of the gated output
  dense_fc1,
  dense_activation,
  dense_fc2,
  mtp_projection,  // joins a hidden state with the embedding of the next token
  head,            // logits over the vocabulary
  loss,            // cross entropy
  // ... what groups exchange around them ...
  tensor_exchange,   // of activations within a tensor-parallel group
  context_exchange,  // of keys and values within a context-parallel group
  stage_transfer,    // of activations or their gradients between pipeline stages
  // ... and the end of the iteration.
  gradient_exchange,  // of dense parameters between replicas
  weight_exchange,    // of updated or sharded dense parameters
  optimizer,
  // Of calibrations.
  settle,  // brings all ranks together
  probe,   // is measured; `part` tells which
};
inline constexpr int op_kind_count = static_cast<int>(OpKind::probe) + 1;
const char* name_of(OpKind kind);

enum class Pass : std::uint8_t { forward, backward };
const char* name_of(Pass pass);

/// Whether products of this kind are only of activations: of no weights, without gradients by them.
constexpr bool multiplies_activations(OpKind kind) {
  return kind == OpKind::attention_scores || kind == OpKind::mamba_scan;
}

/// Which work of its kind a kernel of the backward pass does: the gradient by a GEMM's input
/// (dgrad), that by its weights (wgrad), or the forward's work once more (recompute).
enum class Role : std::uint8_t { plain, dgrad, wgrad, recompute };
inline constexpr int role_count = 4;

/// What an op does, wherever in the iteration. Cost tables know measured ops by it.
struct OpType {
  OpKind kind = OpKind::other;
  Role role = Role::plain;
  Pass pass = Pass::forward;
  auto operator<=>(const OpType&) const = default;
};

/// "fc1", "fc1-wgrad", "fc1-recompute"; the backward of what has no role: "sort-grad".
std::string name_of(const OpType& type);
/// The type with this name, if there is one.
std::optional<OpType> find_op_type(std::string_view name);
/// For a name that is none: the type that may have been meant, else all kinds.
std::string op_type_hint(std::string_view name);

}  // namespace moesim
