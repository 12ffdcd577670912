// SPDX-License-Identifier: Apache-2.0
// How messages travel if each pair of ranks has a connection over links that are queues, as over
// TCP, and what their hosts do for it. Fidelity `flow` simulates it segment by segment.
#pragma once

#include <map>
#include <optional>

#include "sim/base/types.h"

namespace moesim {

/// Cores that the threads of ranks share, if these are fewer: one that starts all and moves
/// messages, and one for the kernels of each stream.
struct HostCores {
  int cores = 1;             // of each host
  bool one_machine = false;  // of all hosts together, which are one machine
  /// For how long an exchange, or a kernel, takes its rank's thread until it starts.
  Seconds exchange_start, kernel_start;
  BytesPerSecond pack;   // of rows into the messages of an exchange, by that thread
  BytesPerSecond carry;  // of messages by that thread, at either end
};

/// The messages of a connection follow each other, and every queue serves first come, first served.
struct Connections {
  /// Most bytes of a connection that are written and not acknowledged: a send ends once its last
  /// byte is among them.
  Bytes buffer;
  Bytes queued;   // a connection hands on no segment while so many wait at its first queue
  Bytes segment;  // most that it hands on at once
  /// A link that is a token bucket.
  struct Queue {
    BytesPerSecond rate;
    Bytes burst;  // what passes at once after a rest
  };
  std::map<LinkId, Queue> queues;  // other links cost only their latency
  std::optional<HostCores> host;   // none: ranks have cores of their own
};

}  // namespace moesim
