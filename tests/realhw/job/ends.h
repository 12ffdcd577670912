// SPDX-License-Identifier: Apache-2.0
// Two ends of a connection within one process.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <stdexcept>
#include <string>
#include <utility>

#include "realhw/tcp/socket.h"

namespace moesim {

inline std::pair<Socket, Socket> joined() {
  std::array<int, 2> ends{};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
  return {Socket(ends[0]), Socket(ends[1])};
}

/// What the action throws, or "none".
template <class Action>
std::string failure(Action action) {
  try {
    action();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "none";
}

/// Of this end.
inline Address own_address(const Socket& socket) {
  Address own;
  own.size = sizeof own.bytes;
  EXPECT_EQ(getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&own.bytes), &own.size), 0);
  return own;
}

}  // namespace moesim
