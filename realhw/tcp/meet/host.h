// SPDX-License-Identifier: Apache-2.0
// Rank 0, who takes in the others.
#pragma once

#include <list>
#include <string>
#include <vector>

#include "realhw/tcp/meet/knock.h"

namespace moesim {

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
