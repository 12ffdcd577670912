// SPDX-License-Identifier: Apache-2.0
// Rank 0, who takes in the others once they have proved that they belong to the job.
#pragma once

#include <list>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

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

/// Listens to all who knock at once. Strangers are refused and named, and the wait continues.
class RendezvousHost {
 public:
  /// At most so many at once that have not proved anything.
  explicit RendezvousHost(const TcpPlace& place, std::size_t most_knocks = 512)
      : place_(place),
        most_knocks_(most_knocks),
        deadline_(after(place.limit)),
        guests_(static_cast<std::size_t>(place.ranks)) {}

  /// The connections by rank, rank 0's own not open; throws as meet() does.
  std::vector<Socket> take_in();

 private:
  /// Nobody makes room before this time has passed, in which a rank proves itself; what cannot be
  /// taken in waits in the kernel.
  static constexpr std::chrono::milliseconds least_stay{100};
  static constexpr int most_named = 8;  // of those refused

  void wait(const Socket& listener) const;
  void welcome(const Socket& listener);
  std::list<Knock>::iterator who_makes_room();
  void attend();
  bool attend(Knock& knock);
  void join(Knock& knock, const Hello& hello);
  void refuse(const Knock& knock, const Refusal& refusal);
  void tell_all(const Verdict& verdict) const;
  std::string missing(const Address& address) const;

  const TcpPlace& place_;
  const std::size_t most_knocks_;
  Clock::time_point deadline_;
  std::list<Knock> knocks_;  // the longest first
  std::vector<Socket> guests_;
  int joined_ = 1;
  int refused_ = 0;
  std::string refusals_;  // the first of them
};

}  // namespace moesim
