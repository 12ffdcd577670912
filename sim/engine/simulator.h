// SPDX-License-Identifier: Apache-2.0
// The few SimGrid calls that the backend needs, behind an interface: SimGrid is in a library of its
// own, which is loaded only if something simulates with it. It takes longer to load than a small
// comparison takes.
#pragma once

#include <functional>
#include <memory>
#include <span>

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

  // The platform, before run().
  virtual void add_link(BytesPerSecond bandwidth) = 0;  // numbered from 0
  /// A link whose bandwidth depends on how many flows use it at the time.
  virtual void add_link(std::function<BytesPerSecond(int flows)> bandwidth) = 0;
  virtual void add_plane(int gpus) = 0;  // a set of routes between GPUs, numbered from 0
  virtual void add_route(int plane, GpuId from, GpuId to, std::span<const LinkId> links) = 0;

  /// Runs a function as an actor of its own, before or during run(), once the one that asks for it
  /// has ended or waits. run() simulates until nothing is left to do and rethrows what an actor
  /// threw first.
  virtual void spawn(std::function<void()> function) = 0;

  /// Asks what a link of changing bandwidth yields: SimGrid does so only if flows come or go.
  virtual void change(LinkId link) = 0;

  // Inside an actor; they return when the simulated work is done.
  virtual void sleep_until(Seconds time) = 0;
  /// Flows with ascending starts; tells of each, by its place, when it has arrived.
  virtual void send(std::span<const Flow> flows,
                    const std::function<void(std::size_t)>& arrived) = 0;
};

/// Loads SimGrid into the process, once. Throws std::runtime_error with what the loader says if the
/// library is not where moesim was built or installed.
void load_simgrid();

/// Loads SimGrid if need be. Events closer to each other than `precision` happen at once.
std::unique_ptr<Simulator> make_simulator(Seconds precision);

}  // namespace moesim
