// SPDX-License-Identifier: Apache-2.0
// What moves the bytes of fidelities `flow` and `simgrid`, flow by flow.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "sim/base/types.h"

namespace moesim {

/// Flows over routes of links, at max-min fair rates.
class FlowCarrier {
 public:
  /// Bytes over a route, from `start` on.
  struct Flow {
    int route;
    Bytes bytes;  // > 0
    Seconds start;
  };
  /// The bandwidth of a link that so many flows use.
  using Yield = std::function<BytesPerSecond(int flows)>;

  virtual ~FlowCarrier() = default;
  virtual void add_link(BytesPerSecond bandwidth) = 0;  // numbered from 0
  virtual void add_link(Yield yield) = 0;
  /// Routes are numbered from 0 in the order of the calls. `path`: which equal-cost path.
  virtual void add_route(GpuId from, GpuId to, int path, std::span<const LinkId> links) = 0;

  /// Flows with ascending starts; ends may be off by up to `window`. Calls `arrived(i)` when flow i
  /// has arrived.
  virtual void send(std::vector<Flow> flows, Seconds window,
                    std::function<void(std::size_t)> arrived) = 0;
  /// What the link yields has changed.
  virtual void change(LinkId link) = 0;
};

}  // namespace moesim
