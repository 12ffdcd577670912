// SPDX-License-Identifier: Apache-2.0
// TCP sockets that close themselves, their addresses, and calls that end at a deadline.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moesim {

using Clock = std::chrono::steady_clock;

class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  int fd() const { return fd_; }
  bool open() const { return fd_ >= 0; }

 private:
  int fd_;
};

/// An IPv4 or IPv6 address and port.
struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;

  std::string host() const;  // "10.0.0.1"
  std::string str() const;   // "10.0.0.1:29500"
  bool loopback() const;
  int family() const { return bytes.ss_family; }
};

/// The addresses of a host name or number. Throws std::runtime_error when it cannot be resolved.
std::vector<Address> resolve(const std::string& host, int port);
/// Throws Error when the port is in use or the address is not of this host.
Socket listen_at(const Address& address);
/// The next connection and where it comes from; nothing if nobody waits.
std::optional<std::pair<Socket, Address>> accept_now(const Socket& listener);
/// Throws std::runtime_error saying why it failed.
Socket connect_to(const Address& to, Clock::time_point deadline);

/// Appends what has arrived, `most` bytes at most, without waiting. Throws std::runtime_error when
/// the connection was closed.
void read_some(const Socket& socket, std::size_t most, std::string& bytes);
/// All bytes, or std::runtime_error: the connection was closed, or the deadline came.
void write_all(const Socket& socket, std::string_view bytes, Clock::time_point deadline);
std::string read_all(const Socket& socket, std::size_t size, Clock::time_point deadline);

}  // namespace moesim
