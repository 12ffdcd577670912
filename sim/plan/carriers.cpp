// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <tuple>
#include <utility>

#include "sim/plan/fused_kernels.h"
#include "sim/plan/plan.h"
#include "sim/transport/transport.h"

namespace moesim {
namespace {

/// Backward the combine's gradients leave for the experts, and the dispatch's come back.
bool comes_back(const OpKey& key) {
  return key.pass == Pass::forward ? key.stage == Stage::combine : key.stage == Stage::dispatch;
}

/// What the exchanges of a fused kernel have in common.
using KernelKey = std::tuple<Role, Pass, Stage, int, int, int, int>;

KernelKey kernel_of(const OpKey& key) {
  constexpr int most_parts = 256;  // of a chunk of a layer's tokens
  return {
      key.role, key.pass, key.stage, key.layer, key.microbatch, key.chunk, key.part / most_parts};
}

}  // namespace

const Transport* transport_of(const Transports& transports, const Op& op) {
  if (copies_to_hosts(op.stream)) return nullptr;
  if (!carries_tokens(op.stream)) return transports.others.get();
  const Transport* there = transports.tokens.get();
  return there != nullptr && there->combine && comes_back(op.key) ? there->combine.get() : there;
}

std::vector<std::vector<OpId>> fused_kernels(const Plan& plan) {
  if (!plan.transports.tokens || !plan.transports.tokens->fused) return {};
  std::map<KernelKey, std::size_t> index;
  std::vector<std::vector<OpId>> kernels;
  KernelKey last;
  std::size_t of_last = 0;
  for (OpId id(0); id.index() < plan.ops.size(); ++id.value) {
    const OpKey& key = plan[id].key;
    if (plan[id].exchange() == nullptr || key.kind != OpKind::token_exchange) continue;
    // The communicators of a phase follow each other.
    if (const KernelKey own = kernel_of(key); kernels.empty() || own != last) {
      const auto [at, fresh] = index.try_emplace(last = own, kernels.size());
      if (fresh) kernels.emplace_back();
      of_last = at->second;
    }
    kernels[of_last].push_back(id);
  }
  return kernels;
}

std::vector<Carrier> carriers_of(const Plan& plan) {
  return carriers_of(plan, fused_kernels(plan));
}

std::vector<Carrier> carriers_of(const Plan& plan, const std::vector<std::vector<OpId>>& fused) {
  std::vector<Carrier> carriers(plan.ops.size());
  if (plan.transports == Transports{}) return carriers;
  for (std::size_t i = 0; i < carriers.size(); ++i) {
    const Op& op = plan.ops[i];
    if (op.exchange() != nullptr) carriers[i].transport = transport_of(plan.transports, op);
  }
  for (const std::vector<OpId>& kernel : fused) {
    const int first = plan[kernel.front()].key.part;
    for (const OpId id : kernel) carriers[id.index()].goes_on = plan[id].key.part != first;
  }
  return carriers;
}

}  // namespace moesim
