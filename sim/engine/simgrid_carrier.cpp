// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/simgrid_carrier.h"

#include <utility>

namespace moesim {
namespace {

class SimgridCarrier : public FlowCarrier {
 public:
  SimgridCarrier(Simulator& simulator, int gpus) : simulator_(simulator), gpus_(gpus) {}

  void add_link(BytesPerSecond bandwidth) override { simulator_.add_link(bandwidth); }
  void add_link(Yield yield) override { simulator_.add_link(std::move(yield)); }
  void add_route(GpuId from, GpuId to, int path, std::span<const LinkId> links) override {
    for (; planes_ <= path; ++planes_) simulator_.add_plane(gpus_);
    simulator_.add_route(path, from, to, links);
    routes_.push_back({path, from, to});
  }

  void send(std::vector<Flow> flows, Seconds, std::function<void(std::size_t)> arrived) override {
    std::vector<Simulator::Flow> sent;
    for (const Flow& flow : flows) {
      const auto& [path, from, to] = routes_[static_cast<std::size_t>(flow.route)];
      sent.push_back({path, from, to, flow.bytes, flow.start});
    }
    simulator_.spawn([this, sent = std::move(sent), arrived = std::move(arrived)] {
      simulator_.send(sent, arrived);
    });
  }

  /// By an actor of its own: others may run meanwhile, who must not meet the caller half-way.
  void change(LinkId link) override {
    simulator_.spawn([this, link] { simulator_.change(link); });
  }

 private:
  struct Route {
    int path;
    GpuId from, to;
  };
  Simulator& simulator_;
  int gpus_;
  int planes_ = 0;
  std::vector<Route> routes_;
};

}  // namespace

std::unique_ptr<FlowCarrier> make_simgrid_carrier(Simulator& simulator, int gpus) {
  return std::make_unique<SimgridCarrier>(simulator, gpus);
}

}  // namespace moesim
