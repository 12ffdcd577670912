// SPDX-License-Identifier: Apache-2.0
// All-gather of every row to every rank, local selection, reduce-scatter back: volumes do not
// depend on the routing. NVIDIA/Megatron-LM at d98e8a6,
// megatron/core/transformer/moe/token_dispatcher.py, MoEAllGatherTokenDispatcher.
#include <fmt/format.h>

#include "sim/policy/dispatch/run_hosts.h"
#include "sim/policy/evaluate.h"
#include "sim/policy/policies.h"
#include "sim/policy/unsuitable.h"

namespace moesim {
namespace {

class AllGather {
 public:
  static constexpr std::size_t max_hops = 512;

  /// `direct`: every rank to every other. Else across the nodes between equal indices and then
  /// inside each node, so that a row enters a node once, as on the rings and trees of NCCL.
  AllGather(RunHosts hosts, bool direct, DataType probabilities)
      : hosts_(std::move(hosts)),
        two_steps_(!direct && hosts_.spread() && hosts_.shared()),
        probabilities_(probabilities) {}

  int phases() const { return two_steps_ ? 2 : 1; }
  std::string phase_name(int phase) const {
    return !two_steps_ ? "allgather" : phase == 0 ? "inter" : "intra";
  }
  const Communicators& communicators(int phase) const {
    return !two_steps_ ? hosts_.runs() : phase == 0 ? hosts_.across() : hosts_.hosts();
  }
  /// The collectives read and write the tensors themselves.
  LocalWork local_work() const { return {false, false}; }

  /// Results are summed in the type of the probabilities, and so are their gradients gathered.
  Bytes row_bytes(const MoeModel& model, Stage stage, Pass pass) const {
    const bool results = (stage == Stage::combine) == (pass == Pass::forward);
    return results ? Bytes(std::int64_t{model.hidden} * size_of(probabilities_))
                   : model.row_bytes();
  }

  /// A boolean and a probability for every expert of every token; gradients of the latter return.
  std::vector<SideExchange> sides(const MoeModel& model, Stage stage, Pass pass) const {
    const SideExchange probs{"probs", Bytes(std::int64_t{model.experts} * size_of(probabilities_)),
                             Bytes(0)};
    if (stage == Stage::dispatch && pass == Pass::forward) {
      return {{"routing-map", Bytes(model.experts), Bytes(0)}, probs};
    }
    if (stage == Stage::combine && pass == Pass::backward) return {probs};
    return {};
  }

  template <class Hops>
  void next(int phase, GpuId holder, Choices choices, const GpuId* target, Hops& hops) const {
    if (two_steps_ && phase == 0) {
      const auto [first, end] = hosts_.hosts_of_run(holder);
      for (int host = first; host < end; ++host) {
        hops.add(hosts_.counterpart(holder, host),
                 those(choices, [&](int k) { return hosts_.host_of(target[k]) == host; }));
      }
      return;
    }
    for (const GpuId to : two_steps_ ? hosts_.host(hosts_.host_of(holder)) : hosts_.run(holder)) {
      hops.add(to, those(choices, [&](int k) { return target[k] == to; }));
    }
  }

 private:
  template <class Condition>
  static Choices those(Choices choices, Condition condition) {
    Choices result = 0;
    for_each_choice(choices, [&](int k) { result |= condition(k) ? Choices{1} << k : 0; });
    return result;
  }

  RunHosts hosts_;
  bool two_steps_;
  DataType probabilities_;
};

}  // namespace

// algorithm: by-node (default) or direct; probs: fp32 (default) or bf16, the router's data type.
DispatchMaker read_all_gather(const YamlMap& params) {
  const bool direct = params.choice("algorithm", {"by-node", "direct"}, 0) == 1;
  const DataType probabilities =
      params.choice("probs", {"fp32", "bf16"}, 0) == 0 ? DataType::fp32 : DataType::bf16;
  return [=](const DispatchContext& c) {
    if (static_cast<std::size_t>(c.ep) > AllGather::max_hops) {
      throw Unsuitable(fmt::format("'allgather' is made for up to {} ranks, not for {}",
                                   AllGather::max_hops, c.ep));
    }
    return std::make_unique<Evaluated<AllGather>>(
        AllGather(RunHosts(c.topology, c.ep), direct, probabilities));
  };
}

}  // namespace moesim
