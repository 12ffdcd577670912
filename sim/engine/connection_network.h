// SPDX-License-Identifier: Apache-2.0
// Fidelity `flow` on a cluster that states how its connections carry messages: pairs of GPUs over
// links that are queues, segment by segment (TCP without loss).
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "sim/engine/cores.h"
#include "sim/plan/priced.h"
#include "sim/plan/simulate/events.h"
#include "sim/plan/simulate/network.h"
#include "sim/topology/connections.h"
#include "sim/topology/topology.h"

namespace moesim {

/// A queue that serves first come, first served at its rate, but for a burst after a rest.
class TokenBucket {
 public:
  explicit TokenBucket(const Connections::Queue& queue)
      : rate_(queue.rate), burst_(queue.burst / queue.rate), due_(-burst_.value) {}

  /// When bytes that come now have left.
  Seconds serve(Seconds now, Bytes bytes) {
    due_ = std::max(due_, now - burst_) + bytes / rate_;
    return std::max(now, due_);
  }

 private:
  BytesPerSecond rate_;
  Seconds burst_, due_;
};

/// - Messages of one connection follow each other.
/// - A message is written to the connection's buffer, as far as that has room: what is written
///   leaves the buffer when it is acknowledged.
/// - A connection hands segments to its first queue while less than `queued` waits there.
/// - Acknowledgements pass the queues of the way back.
/// - Where hosts share cores, a rank's thread writes what has room and reads what has come: that
///   is acknowledged before.
class ConnectionCarrier {
 public:
  /// All but the events outlive it. `threads`: that move a GPU's messages; null: at once.
  using ThreadOf = std::function<SharedThread*(GpuId)>;
  ConnectionCarrier(Events& events, const Topology& topology, const Connections& connections,
                    ThreadOf threads);

  /// `written`: the buffer has all of it. `arrived`: the other end has, and the latencies of the
  /// links have passed. Both are called later, not from here.
  void send(GpuId from, GpuId to, Bytes bytes, std::function<void()> written,
            std::function<void()> arrived);

 private:
  struct Message {
    std::int64_t left;
    std::function<void()> done;
  };
  struct Connection {
    std::vector<std::size_t> forth, back;  // queues of either way
    Seconds latency;
    SharedThread *sender = nullptr, *receiver = nullptr;
    bool busy = false;  // the sender writes
    std::deque<Message> writing = {}, arriving = {};
    std::int64_t buffered = 0, unsent = 0, queued = 0;
  };

  Connection& connection(GpuId from, GpuId to);
  std::vector<std::size_t> queues_of(const std::vector<LinkId>& links) const;
  void write(Connection& c);
  void wrote(Connection& c, std::int64_t bytes);
  void hand_on(Connection& c);
  void forward(Connection& c, std::int64_t bytes, std::size_t hop);
  void arrive(Connection& c, std::int64_t bytes);
  void acknowledge(Connection& c, std::int64_t bytes, std::size_t hop);
  void work(SharedThread* thread, std::int64_t bytes, std::function<void()> done);

  Events& events_;
  const Topology& topology_;
  const Connections& options_;
  ThreadOf threads_;
  std::map<LinkId, std::size_t> queue_of_;
  std::vector<TokenBucket> queues_;
  std::map<std::pair<GpuId, GpuId>, Connection> connections_;
};

/// A GPU sends when it joins, whoever else has: messages wait at the other end. An exchange ends
/// for a GPU that has joined when its sends are written and all that it receives has arrived. Where
/// hosts share cores, a rank's thread starts exchanges and kernels (HostCores::exchange_start,
/// kernel_start), packs rows and moves messages, and kernels have threads of their own, which take
/// turns on these cores. Events, plan and connections outlive it.
std::unique_ptr<Network> make_connection_network(Events& events, const PricedPlan& plan,
                                                 const Connections& connections,
                                                 Network::Ended ended);

}  // namespace moesim
