// SPDX-License-Identifier: Apache-2.0
// The few SimGrid calls that the backend needs: the names that drift between versions live behind
// it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/base/types.h"
#include "sim/plan/simulate/events.h"

namespace moesim {

/// SimGrid's engine. It keeps its state in globals, so a process can hold only one, ever.
class Simulator : public Events {
 public:
  /// Data from one GPU to another over the route of one plane, sent at `start`.
  struct Flow {
    int plane;
    GpuId from, to;
    Bytes bytes;  // > 0
    Seconds start;
  };

  /// Events closer to each other than `precision` happen at once.
  explicit Simulator(Seconds precision);
  ~Simulator() override;

  // The platform, before run().
  void add_link(BytesPerSecond bandwidth);  // numbered from 0
  /// A link whose bandwidth depends on how many flows use it at the time.
  void add_link(std::function<BytesPerSecond(int flows)> bandwidth);
  void add_plane(int gpus);  // a set of routes between GPUs, numbered from 0
  void add_route(int plane, GpuId from, GpuId to, std::span<const LinkId> links);

  /// Runs a function as an actor of its own, before or during run().
  void spawn(std::function<void()> function);
  void call(Seconds time, std::function<void()> function) override;
  /// Simulates until nothing is left to do. Rethrows what an actor threw first.
  void run() override;
  Seconds now() const override;

  // Inside an actor; they return when the simulated work is done.
  static void sleep_until(Seconds time);
  /// Flows with ascending starts; tells of each, by its place, when it has arrived.
  void send(std::span<const Flow> flows, const std::function<void(std::size_t)>& arrived);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace moesim
