// SPDX-License-Identifier: Apache-2.0
// A connection to rank 0 until it has proved that it belongs to the job.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>

#include "realhw/tcp/meet/greeting.h"
#include "realhw/tcp/meet/place.h"
#include "realhw/tcp/socket.h"

namespace moesim {

/// Why a connection is refused, and what the other side hears of it (empty: nothing).
class Refusal : public std::runtime_error {
 public:
  explicit Refusal(const std::string& why, std::string heard = "")
      : std::runtime_error(why), heard_(std::move(heard)) {}
  const std::string& heard() const { return heard_; }

 private:
  std::string heard_;
};

/// Never waits, and holds a Hello and a proof at most: strangers delay nobody and take no memory.
class Knock {
 public:
  Knock(Socket socket, const Address& from, Clock::time_point deadline)
      : socket_(std::move(socket)), from_(from), host_(from.host()), deadline_(deadline) {}

  const Socket& socket() const { return socket_; }
  const Address& from() const { return from_; }
  /// "rank 1 at 10.0.0.1:40000" once it has said so, else only the address.
  std::string who() const;
  const std::string& host() const { return host_; }
  Clock::time_point arrived() const { return arrived_; }
  Clock::time_point deadline() const { return deadline_; }
  /// Whether it has said who it is, and owes the proof.
  bool has_said() const { return stage_ == Stage::proof; }

  /// Takes what has arrived. Who it is, once it has proved to know the secret; throws Refusal.
  std::optional<Hello> listen(const TcpPlace& place);
  /// The connection of one that has joined.
  Socket leave() { return std::move(socket_); }

 private:
  enum class Stage { greeting, hello, proof };

  std::size_t wanted() const;
  void check_greeting() const;
  void answer(const TcpPlace& place);
  void check_proof(const TcpPlace& place) const;
  void say(const std::string& bytes) const;

  Socket socket_;
  Address from_;
  std::string host_;
  Clock::time_point arrived_ = Clock::now(), deadline_;
  Stage stage_ = Stage::greeting;
  std::string bytes_;  // that have arrived
  Hello hello_;
  Reply reply_;
};

}  // namespace moesim
