// SPDX-License-Identifier: Apache-2.0
#include "realhw/tcp/meet/rendezvous.h"

#include <fmt/format.h>

#include <stdexcept>
#include <thread>

#include "realhw/tcp/meet/greeting.h"
#include "realhw/tcp/meet/host.h"
#include "realhw/tcp/meet/place.h"
#include "sim/base/error.h"

namespace moesim {
namespace {

using namespace std::chrono_literals;

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
        if (certain_) {
          throw std::runtime_error(fmt::format("rank {}, rendezvous with rank 0 at {}: {}",
                                               place_.rank, place_.str(), e.what()));
        }
        // Rank 0 may not have started yet, or made room for others.
        if (Clock::now() + pause > deadline_) {
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
        if (certain_) throw;
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
    if (!reply.greeting.ours()) {
      certain_ = true;
      throw std::runtime_error(fmt::format("what listens at {} is not moesim-hw", at.str()));
    }
    if (reply.greeting.version != rendezvous_version) {
      certain_ = true;
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
    const Verdict joined = read_verdict(host, deadline_);
    certain_ = true;
    heed(joined);
    // Rank 0 may have started later, and tells when it gives up.
    heed(read_verdict(host, after(place_.limit) + rendezvous_patience));
  }

  static void heed(const Verdict& verdict) {
    if (verdict.code == Verdict::bad_input) throw Error(verdict.reason);
    if (verdict.code != 0) throw std::runtime_error(verdict.reason);
  }

  const TcpPlace& place_;
  Clock::time_point deadline_;
  bool certain_ = false;  // what goes wrong now is not mended by another try
};

}  // namespace

std::vector<Socket> meet(const TcpPlace& place) {
  if (place.ranks == 1) return std::vector<Socket>(1);
  if (place.rank == 0) return RendezvousHost(place).take_in();
  std::vector<Socket> peers(static_cast<std::size_t>(place.ranks));
  peers[0] = Guest(place).join();
  return peers;
}

}  // namespace moesim
