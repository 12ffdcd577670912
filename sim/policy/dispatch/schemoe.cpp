// SPDX-License-Identifier: Apache-2.0
// ScheMoE's Pipe-A2A: pairs inside a node and pairs across nodes exchange on two streams at once.
// Shi et al., EuroSys 2024; Fragile-azalea/ScheMoE at 402975e, schemoe/custom/comm/pipe.cpp. With
// exact row counts instead of capacity padding.
#include "sim/policy/dispatch/run_hosts.h"
#include "sim/policy/evaluate.h"
#include "sim/policy/policies.h"

namespace moesim {
namespace {

class PipeA2A {
 public:
  explicit PipeA2A(RunHosts hosts) : hosts_(std::move(hosts)) {}

  int phases() const { return hosts_.spread() ? 2 : 1; }
  std::string phase_name(int phase) const { return phase == 0 ? "intra" : "inter"; }
  const Communicators& communicators(int phase) const {
    return phase == 0 ? hosts_.hosts() : hosts_.runs();
  }
  int previous(int) const { return -1; }
  Lane lane(int phase) const { return phase == 0 ? Lane::token : Lane::token_2; }

  bool merges() const { return false; }
  template <class Hops>
  void next(int phase, GpuId holder, Choices choices, const GpuId* target, Hops& hops) const {
    for_each_choice(choices, [&](int k) {
      const bool inside = hosts_.host_of(holder) == hosts_.host_of(target[k]);
      if (inside == (phase == 0)) hops.add(target[k], Choices{1} << k);
    });
  }

 private:
  RunHosts hosts_;
};

}  // namespace

DispatchMaker read_schemoe_pipe(const YamlMap&) {
  return [](const DispatchContext& c) {
    return std::make_unique<Evaluated<PipeA2A>>(PipeA2A(RunHosts(c.topology, c.ep)));
  };
}

}  // namespace moesim
