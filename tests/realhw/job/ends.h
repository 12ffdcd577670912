// SPDX-License-Identifier: Apache-2.0
// Both ends of connections within one process, and ranks that greet rank 0.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "realhw/tcp/meet/greeting.h"
#include "realhw/tcp/meet/place.h"
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

/// Rank 0 of a job without secret, at a port that is free.
inline TcpPlace place_of_host(int ranks, std::chrono::duration<double> limit) {
  const Socket free = listen_at(resolve("127.0.0.1", 0).at(0));
  const std::string address = own_address(free).str();
  return {0, ranks, "127.0.0.1", std::stoi(address.substr(address.find(':') + 1)), "", limit};
}

/// From that address of this host, once rank 0 listens.
inline Socket connect_from(const char* address, const TcpPlace& place) {
  const Address from = resolve(address, 0).at(0), to = addresses(place).at(0);
  while (true) {
    Socket guest(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(bind(guest.fd(), reinterpret_cast<const sockaddr*>(&from.bytes), from.size), 0);
    if (connect(guest.fd(), reinterpret_cast<const sockaddr*>(&to.bytes), to.size) == 0) {
      EXPECT_EQ(fcntl(guest.fd(), F_SETFL, O_NONBLOCK), 0);
      return guest;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// Has said to be that rank, and owes the proof.
inline Socket hello_as(const TcpPlace& place, std::uint32_t rank, std::uint32_t ranks) {
  const auto deadline = Clock::now() + std::chrono::seconds(60);
  Socket guest = connect_from("127.0.0.1", place);
  Hello hello;
  hello.rank = rank;
  hello.ranks = ranks;
  write_all(guest, bytes_of(hello), deadline);
  read_all(guest, sizeof(Reply) + proof_size, deadline);
  return guest;
}

/// Has given the proof, too.
inline Socket greet_as(const TcpPlace& place, std::uint32_t rank, std::uint32_t ranks) {
  Socket guest = hello_as(place, rank, ranks);
  write_all(guest, std::string(proof_size, '\0'), Clock::now() + std::chrono::seconds(60));
  return guest;
}

}  // namespace moesim
