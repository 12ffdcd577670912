// SPDX-License-Identifier: Apache-2.0
#include "realhw/tcp/socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <utility>

#include "sim/base/error.h"

namespace moesim {
namespace {

[[noreturn]] void fail(const std::string& what, int error) {
  throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(error)));
}

/// Whether the socket became ready before the deadline.
bool wait_for(const Socket& socket, short events, Clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd polled{socket.fd(), events, 0};
    const int ready = poll(&polled, 1, static_cast<int>(std::clamp<long>(left, 0, 1000000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) fail("poll", errno);
    if (ready == 0 && left <= 0) return false;
  }
}

Socket open_socket(const Address& address) {
  Socket socket(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.open()) fail("socket", errno);
  return socket;
}

void set_option(const Socket& socket, int level, int option) {
  const int on = 1;
  if (setsockopt(socket.fd(), level, option, &on, sizeof on) != 0) fail("setsockopt", errno);
}

const sockaddr* generic(const Address& address) {
  return reinterpret_cast<const sockaddr*>(&address.bytes);
}

void set_port(Address& address, int port) {
  const auto number = htons(static_cast<std::uint16_t>(port));
  if (address.family() == AF_INET) {
    reinterpret_cast<sockaddr_in*>(&address.bytes)->sin_port = number;
  } else {
    reinterpret_cast<sockaddr_in6*>(&address.bytes)->sin6_port = number;
  }
}

}  // namespace

Socket::Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

std::string Address::host() const {
  char text[NI_MAXHOST] = "?";
  getnameinfo(generic(*this), size, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

std::string Address::str() const {
  char port[NI_MAXSERV] = "?";
  getnameinfo(generic(*this), size, nullptr, 0, port, sizeof port, NI_NUMERICSERV);
  return family() == AF_INET6 ? fmt::format("[{}]:{}", host(), port)
                              : fmt::format("{}:{}", host(), port);
}

bool Address::loopback() const {
  if (family() == AF_INET) {
    const auto& v4 = *reinterpret_cast<const sockaddr_in*>(&bytes);
    return ntohl(v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&bytes)->sin6_addr);
}

std::vector<Address> resolve(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    throw std::runtime_error(fmt::format("cannot resolve '{}': {}", host, gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  std::vector<Address> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
    Address& address = addresses.emplace_back();
    std::memcpy(&address.bytes, one->ai_addr, one->ai_addrlen);
    address.size = one->ai_addrlen;
    set_port(address, port);
  }
  return addresses;
}

Socket listen_at(const Address& address) {
  Socket socket = open_socket(address);
  set_option(socket, SOL_SOCKET, SO_REUSEADDR);  // a port that an earlier run has just left
  const bool listens =
      bind(socket.fd(), generic(address), address.size) == 0 && listen(socket.fd(), SOMAXCONN) == 0;
  if (listens) return socket;
  if (errno == EADDRINUSE) {
    throw Error(fmt::format("rank 0 cannot listen at {}: the port is in use", address.str()),
                "choose another MASTER_PORT");
  }
  if (errno == EADDRNOTAVAIL) {
    throw Error(
        fmt::format("rank 0 cannot listen at {}: no address of this host", address.str()),
        "MASTER_ADDR must be the host of rank 0, by a name or number that is the same everywhere");
  }
  throw Error(fmt::format("rank 0 cannot listen at {}: {}", address.str(), std::strerror(errno)));
}

std::optional<std::pair<Socket, Address>> accept_now(const Socket& listener) {
  while (true) {
    Address from;
    from.size = sizeof from.bytes;
    Socket socket(accept4(listener.fd(), reinterpret_cast<sockaddr*>(&from.bytes), &from.size,
                          SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.open()) {
      set_option(socket, IPPROTO_TCP, TCP_NODELAY);
      return std::pair(std::move(socket), from);
    }
    if (errno == EAGAIN) return std::nullopt;
    if (errno == EMFILE || errno == ENFILE) fail("accept", errno);
    // Else it was gone again before it was accepted.
  }
}

Socket connect_to(const Address& to, Clock::time_point deadline) {
  Socket socket = open_socket(to);
  set_option(socket, IPPROTO_TCP, TCP_NODELAY);
  if (connect(socket.fd(), generic(to), to.size) == 0) return socket;
  if (errno != EINPROGRESS) fail(fmt::format("cannot connect to {}", to.str()), errno);
  if (!wait_for(socket, POLLOUT, deadline)) {
    throw std::runtime_error(fmt::format("{} does not answer", to.str()));
  }
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) fail(fmt::format("cannot connect to {}", to.str()), error);
  return socket;
}

void write_all(const Socket& socket, std::string_view bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    const auto sent = ::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) fail("the connection broke", errno);
    if (!wait_for(socket, POLLOUT, deadline)) throw std::runtime_error("the peer takes no bytes");
  }
}

void read_some(const Socket& socket, std::size_t most, std::string& bytes) {
  const std::size_t before = bytes.size();
  bytes.resize(before + most);
  ssize_t got = 0;
  do {
    got = recv(socket.fd(), bytes.data() + before, most, 0);
  } while (got < 0 && errno == EINTR);
  bytes.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (got == 0 && most > 0) throw std::runtime_error("the connection was closed");
  if (got < 0 && errno != EAGAIN) fail("the connection broke", errno);
}

std::string read_all(const Socket& socket, std::size_t size, Clock::time_point deadline) {
  std::string bytes(size, '\0');
  for (std::size_t at = 0; at < size;) {
    const auto got = recv(socket.fd(), bytes.data() + at, size - at, 0);
    if (got == 0) throw std::runtime_error("the connection was closed");
    if (got > 0) {
      at += static_cast<std::size_t>(got);
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) fail("the connection broke", errno);
    if (!wait_for(socket, POLLIN, deadline)) throw std::runtime_error("the peer says nothing");
  }
  return bytes;
}

}  // namespace moesim
