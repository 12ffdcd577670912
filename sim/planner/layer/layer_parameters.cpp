// SPDX-License-Identifier: Apache-2.0
// Expert parameters and gradients on their way: the streams param and dp of LayerOps.
#include <fmt/format.h>

#include <algorithm>

#include "sim/base/ordering.h"
#include "sim/planner/layer/layer_step.h"

namespace moesim {

void LayerOps::migrate(int layer, const Mark& after) {
  const Step s = step(layer, Pass::forward);
  const OpKey key = s.key(OpKind::parameter_exchange, Stage::migrate);
  const auto last = add_param_exchanges(s, key, Stream::param, s.work.decision.migrate, after);
  const Migration migration = s.work.decision.migration;
  if (migration == Migration::asynchronous) return;
  gathered_[0][static_cast<std::size_t>(layer)] = last;
  if (migration == Migration::blocks)
    parameters_.insert(parameters_.end(), last.begin(), last.end());
}

void LayerOps::gather(int layer, Pass pass, const Mark& after) {
  const Step s = step(layer, pass);
  const LayerDecision& decision = s.work.decision;
  const bool forward = pass == Pass::forward;
  auto launched = gathers_[forward ? 0 : 1].begin() + layer;
  if (*launched) return;
  *launched = true;
  const OpKey key = s.key(OpKind::parameter_exchange, Stage::gather);
  const auto last = add_param_exchanges(s, key, Stream::param,
                                        forward ? decision.gather : decision.regather, after);
  auto& awaited = gathered_[forward ? 0 : 1][static_cast<std::size_t>(layer)];
  awaited.insert(awaited.end(), last.begin(), last.end());
}

void LayerOps::reduce(int layer, const Mark& after) {
  const Step s = step(layer, Pass::backward);
  const OpKey key = s.key(OpKind::parameter_exchange, Stage::reduce);
  const auto last = add_param_exchanges(s, key, Stream::param, s.work.decision.reduce, after);
  parameters_.insert(parameters_.end(), last.begin(), last.end());
  if (!s.work.gradient_sum) return;
  Mark whole = computed_[static_cast<std::size_t>(layer)];
  whole.add(chain_.per_gpu(last));
  const OpKey sum = s.key(OpKind::gradient_sum, Stage::reduce);
  add_param_exchanges(s, sum, Stream::dp, {*s.work.gradient_sum}, whole);
}

void LayerOps::wait_for_gather(int layer, Pass pass) {
  const auto& awaited = gathered_[pass == Pass::forward ? 0 : 1][static_cast<std::size_t>(layer)];
  chain_.require(awaited);
  for (OpChain& chunk : chunk_chains_) chunk.require(awaited);
}

void LayerOps::wait_for_parameters() {
  chain_.require(parameters_);
  parameters_.clear();
}

/// Each exchange follows the kernels that encode for it and what came before; returns what ends
/// last.
std::vector<OpId> LayerOps::add_param_exchanges(const Step& s, OpKey key, Stream stream,
                                                const std::vector<ParamExchange>& exchanges,
                                                const Mark& after) {
  std::vector<OpId> last;
  key.part = -1;
  for (const ParamExchange& move : exchanges) {
    ++key.part;
    const auto& concerned = s.parts.concerned(move.traffic);
    const Group& members = concerned.members;
    if (members.empty()) continue;
    Mark before = last.empty() ? after : chain_.per_gpu(last);
    if (before.empty()) before = Mark(static_cast<std::size_t>(chain_.gpus()));
    const auto add_kernels = [&](OpKind kind, const auto& work) {
      OpKey codec = key;
      codec.kind = kind;
      Op op{fmt::format("{}-{}", move.name, name_of(kind)), codec, Stream::copy, {}, {}, {}};
      const auto of_member = [&](GpuId gpu) {
        using Work = typename std::decay_t<decltype(work)>::value_type;
        return members.contains(gpu) ? work[gpu.index()] : Work();
      };
      if (work.empty() || !set_kernels(s, op, of_member)) return;
      const Group coding = op.group;
      op.after = waits_of(coding, before);
      const OpId id = chain_.kernel(std::move(op));
      before.change(coding, [id](OpList& waits) { waits = {id}; });
    };
    add_kernels(OpKind::encode, move.encode);
    last = {chain_.detached({move.name, key, stream, members, waits_of(members, before),
                             Exchange{concerned.traffic, {}, false}})};
    if (move.decode.empty() && move.loads.empty()) continue;
    before = chain_.per_gpu(last);
    add_kernels(OpKind::decode, move.decode);
    add_kernels(OpKind::decode, move.loads);
    last = waits_of(members, before);
    sort_once(last);
  }
  return last;
}

}  // namespace moesim
