// SPDX-License-Identifier: Apache-2.0
#include "realhw/tcp/meet/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <thread>

#include "realhw/tcp/meet/greeting.h"
#include "sim/base/error.h"

namespace moesim {
namespace {

using namespace std::chrono_literals;

constexpr int run_failed = 1, bad_input = 2;
/// How long a process that has connected may take for its next words.
constexpr auto patience = 5s;

Clock::time_point after(std::chrono::duration<double> time) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(time);
}

/// Resolves and puts IPv4 first, on rank 0 and elsewhere alike.
std::vector<Address> addresses(const TcpPlace& place) {
  std::vector<Address> found = resolve(place.host, place.port);
  std::stable_partition(found.begin(), found.end(),
                        [](const Address& address) { return address.family() == AF_INET; });
  return found;
}

void require_secret(const TcpPlace& place, const Address& address) {
  if (!place.secret.empty() || address.loopback()) return;
  throw Error(fmt::format("rank {}: {} is no loopback address, which takes a secret", place.rank,
                          address.str()),
              "set MOESIM_SECRET or MOESIM_SECRET_FILE to the same on every rank");
}

/// Rank 0, who takes in the others.
class Host {
 public:
  explicit Host(const TcpPlace& place)
      : place_(place),
        deadline_(after(place.limit)),
        guests_(static_cast<std::size_t>(place.ranks)) {}

  std::vector<Socket> take_in() {
    const Address address = addresses(place_).front();
    require_secret(place_, address);
    const Socket listener = listen_at(address);
    try {
      for (int joined = 1; joined < place_.ranks;) {
        auto guest = accept_from(listener, deadline_);
        if (!guest) throw std::runtime_error(missing(address));
        if (admit(std::move(guest->first), guest->second)) ++joined;
      }
    } catch (const Error& e) {
      tell_all({bad_input, e.diagnostics().front().message});
      throw;
    } catch (const std::exception& e) {
      tell_all({run_failed, e.what()});
      throw;
    }
    tell_all({});
    return std::move(guests_);
  }

 private:
  /// Whether one more rank has joined. A stranger is refused and told about, and the wait goes on;
  /// a mistake of one who knows the secret throws.
  bool admit(Socket guest, const Address& from) {
    const auto deadline = std::min<Clock::time_point>(deadline_, Clock::now() + patience);
    try {
      return greet(guest, from, deadline);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& e) {
      refuse(guest, {run_failed, ""}, fmt::format("{}: {}", from.str(), e.what()));
      return false;
    }
  }

  bool greet(Socket& guest, const Address& from, Clock::time_point deadline) {
    Hello hello;
    hello.greeting = read_words<Greeting>(guest, deadline);
    if (!hello.greeting.ours()) throw std::runtime_error("it is no moesim-hw");
    Reply reply;
    const std::string nonce = fresh_nonce();
    std::copy(nonce.begin(), nonce.end(), reply.nonce);
    if (hello.greeting.version != rendezvous_version) {
      write_all(guest, bytes_of(reply), deadline);  // from which the guest sees it, too
      throw std::runtime_error(fmt::format("it speaks version {} of the rendezvous, rank 0 {}",
                                           hello.greeting.version, rendezvous_version));
    }
    const std::string rest = read_all(guest, sizeof(Hello) - sizeof(Greeting), deadline);
    std::memcpy(reinterpret_cast<char*>(&hello) + sizeof(Greeting), rest.data(), rest.size());
    write_all(guest, bytes_of(reply) + host_proof(place_.secret, hello, reply), deadline);
    const std::string proof = read_all(guest, proof_size, deadline);
    if (!same_proof(proof, guest_proof(place_.secret, hello, reply))) {
      refuse(guest,
             {bad_input, fmt::format("rank 0 at {} has another secret than this rank {}",
                                     place_.str(), hello.rank)},
             fmt::format("rank {} at {}: another secret than rank 0's", hello.rank, from.str()));
      return false;
    }
    return join(std::move(guest), hello, from);
  }

  bool join(Socket guest, const Hello& hello, const Address& from) {
    const auto rank = static_cast<std::size_t>(hello.rank);
    std::string mistake;
    if (hello.ranks != static_cast<std::uint32_t>(place_.ranks)) {
      mistake = fmt::format("rank {} at {} was started as one of {} ranks, rank 0 as one of {}",
                            rank, from.str(), hello.ranks, place_.ranks);
    } else if (rank == 0 || rank >= guests_.size()) {
      mistake = fmt::format("{} says to be rank {}", from.str(), rank);
    } else if (guests_[rank].open()) {
      mistake = fmt::format("two processes say to be rank {}, the second at {}", rank, from.str());
    }
    if (!mistake.empty()) {
      tell(guest, {bad_input, mistake});
      throw Error(mistake, "every process needs a rank of its own and the same number of ranks");
    }
    write_verdict(guest, {}, deadline_);
    guests_[rank] = std::move(guest);
    return true;
  }

  void refuse(const Socket& guest, const Verdict& verdict, const std::string& why) {
    fmt::print(stderr, "moesim-hw: refused {}\n", why);
    if (!verdict.reason.empty()) tell(guest, verdict);
    refused_ += fmt::format("; refused {}", why);
  }

  /// A guest that is gone is noticed later.
  static void tell(const Socket& guest, const Verdict& verdict) {
    try {
      write_verdict(guest, verdict, Clock::now() + patience);
    } catch (const std::exception&) {
    }
  }
  void tell_all(const Verdict& verdict) const {
    for (const Socket& guest : guests_) {
      if (guest.open()) tell(guest, verdict);
    }
  }

  std::string missing(const Address& address) const {
    std::string ranks;
    int count = 0;
    for (std::size_t rank = 1; rank < guests_.size(); ++rank) {
      if (guests_[rank].open()) continue;
      if (++count <= 8) ranks += fmt::format("{}{}", count == 1 ? "" : ", ", rank);
    }
    if (count > 8) ranks += fmt::format(" and {} more", count - 8);
    return fmt::format("rank{} {} did not come to rank 0 at {} within {:g} s{}",
                       count == 1 ? "" : "s", ranks, address.str(), place_.limit.count(), refused_);
  }

  const TcpPlace& place_;
  Clock::time_point deadline_;
  std::vector<Socket> guests_;
  std::string refused_;
};

/// Any other rank.
class Guest {
 public:
  explicit Guest(const TcpPlace& place) : place_(place), deadline_(after(place.limit)) {}

  Socket join() {
    while (true) {
      try {
        return try_to_join();
      } catch (const Error&) {
        throw;
      } catch (const std::exception& e) {
        if (met_) {
          throw std::runtime_error(fmt::format("rank {}, rendezvous with rank 0 at {}: {}",
                                               place_.rank, place_.str(), e.what()));
        }
        if (Clock::now() + pause > deadline_) {  // rank 0 may not have started yet
          throw std::runtime_error(
              fmt::format("rank {} did not reach rank 0 at {} within {:g} s: {}", place_.rank,
                          place_.str(), place_.limit.count(), e.what()));
        }
      }
      std::this_thread::sleep_for(pause);
    }
  }

 private:
  static constexpr auto pause = 100ms;

  Socket try_to_join() {
    std::string problem;
    for (const Address& to : addresses(place_)) {
      require_secret(place_, to);
      try {
        Socket host = connect_to(to, deadline_);
        greet(host, to);
        return host;
      } catch (const Error&) {
        throw;
      } catch (const std::exception& e) {
        if (met_) throw;
        problem = e.what();
      }
    }
    throw std::runtime_error(problem);
  }

  void greet(const Socket& host, const Address& at) {
    Hello hello;
    hello.rank = static_cast<std::uint32_t>(place_.rank);
    hello.ranks = static_cast<std::uint32_t>(place_.ranks);
    const std::string nonce = fresh_nonce();
    std::copy(nonce.begin(), nonce.end(), hello.nonce);
    write_all(host, bytes_of(hello), deadline_);
    Reply reply;
    reply.greeting = read_words<Greeting>(host, deadline_);
    met_ = true;  // what goes wrong now is not mended by waiting
    if (!reply.greeting.ours()) {
      throw std::runtime_error(fmt::format("what listens at {} is no moesim-hw", at.str()));
    }
    if (reply.greeting.version != rendezvous_version) {
      throw std::runtime_error(
          fmt::format("rank 0 speaks version {} of the rendezvous, this rank {}",
                      reply.greeting.version, rendezvous_version));
    }
    const std::string rest = read_all(host, sizeof(Reply) - sizeof(Greeting), deadline_);
    std::memcpy(reinterpret_cast<char*>(&reply) + sizeof(Greeting), rest.data(), rest.size());
    const std::string proof = read_all(host, proof_size, deadline_);
    write_all(host, guest_proof(place_.secret, hello, reply), deadline_);
    if (!same_proof(proof, host_proof(place_.secret, hello, reply))) {
      throw Error(
          fmt::format("rank 0 at {} has another secret than this rank {}", at.str(), place_.rank),
          "MOESIM_SECRET or MOESIM_SECRET_FILE must be the same on every rank");
    }
    heed(read_verdict(host, deadline_));
    // Rank 0 may have started later, and tells when it gives up.
    heed(read_verdict(host, after(place_.limit) + patience));
  }

  static void heed(const Verdict& verdict) {
    if (verdict.code == bad_input) throw Error(verdict.reason);
    if (verdict.code != 0) throw std::runtime_error(verdict.reason);
  }

  const TcpPlace& place_;
  Clock::time_point deadline_;
  bool met_ = false;
};

}  // namespace

std::string TcpPlace::str() const { return fmt::format("{}:{}", host, port); }

std::vector<Socket> meet(const TcpPlace& place) {
  if (place.ranks == 1) return std::vector<Socket>(1);
  if (place.rank == 0) return Host(place).take_in();
  std::vector<Socket> peers(static_cast<std::size_t>(place.ranks));
  peers[0] = Guest(place).join();
  return peers;
}

}  // namespace moesim
