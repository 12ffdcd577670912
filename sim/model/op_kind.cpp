// SPDX-License-Identifier: Apache-2.0
#include "sim/model/op_kind.h"

#include <array>
#include <vector>

#include "sim/base/error.h"

namespace moesim {
namespace {

constexpr std::array<const char*, op_kind_count> kind_names = {"other",
                                                               "attention-projections",
                                                               "attention-scores",
                                                               "gate",
                                                               "shared-fc1",
                                                               "shared-fc2",
                                                               "latent-down",
                                                               "latent-up",
                                                               "planning",
                                                               "host-read",
                                                               "permute",
                                                               "transpose",
                                                               "token-exchange",
                                                               "side-exchange",
                                                               "minimum-time",
                                                               "relay",
                                                               "sort",
                                                               "fc1",
                                                               "activation",
                                                               "fc2",
                                                               "stash",
                                                               "offload",
                                                               "reduce",
                                                               "unpermute",
                                                               "parameter-exchange",
                                                               "gradient-sum",
                                                               "encode",
                                                               "decode",
                                                               "embedding",
                                                               "norm",
                                                               "attention-output",
                                                               "mamba-projection",
                                                               "mamba-conv",
                                                               "mamba-scan",
                                                               "mamba-norm",
                                                               "dense-fc1",
                                                               "dense-activation",
                                                               "dense-fc2",
                                                               "mtp-projection",
                                                               "head",
                                                               "loss",
                                                               "tensor-exchange",
                                                               "context-exchange",
                                                               "stage-transfer",
                                                               "gradient-exchange",
                                                               "weight-exchange",
                                                               "optimizer",
                                                               "settle",
                                                               "probe"};

constexpr std::array<const char*, role_count> role_suffixes = {"", "-dgrad", "-wgrad",
                                                               "-recompute"};
constexpr const char* backward_suffix = "-grad";

}  // namespace

const char* name_of(OpKind kind) { return kind_names.at(static_cast<std::size_t>(kind)); }

const char* name_of(Pass pass) { return pass == Pass::forward ? "forward" : "backward"; }

std::string name_of(const OpType& type) {
  std::string name = name_of(type.kind);
  if (type.role != Role::plain) return name + role_suffixes.at(static_cast<std::size_t>(type.role));
  return type.pass == Pass::backward ? name + backward_suffix : name;
}

std::string op_type_hint(std::string_view name) {
  std::vector<std::string> kinds, types;
  for (const char* kind : kind_names) {
    kinds.emplace_back(kind);
    for (const char* suffix : role_suffixes) types.push_back(kinds.back() + suffix);
    types.push_back(kinds.back() + backward_suffix);
  }
  const bool near = !nearest(name, types).empty();
  return did_you_mean(name, near ? types : kinds);
}

std::optional<OpType> find_op_type(std::string_view name) {
  OpType type;
  const auto take = [&](std::string_view suffix) {
    if (!name.ends_with(suffix)) return false;
    name.remove_suffix(suffix.size());
    type.pass = Pass::backward;
    return true;
  };
  for (const Role role : {Role::dgrad, Role::wgrad, Role::recompute}) {
    if (take(role_suffixes.at(static_cast<std::size_t>(role)))) type.role = role;
  }
  if (type.role == Role::plain) take(backward_suffix);
  for (int kind = 0; kind < op_kind_count; ++kind) {
    type.kind = static_cast<OpKind>(kind);
    if (name == name_of(type.kind)) return type;
  }
  return std::nullopt;
}

}  // namespace moesim
