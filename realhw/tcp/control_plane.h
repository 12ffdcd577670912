// SPDX-License-Identifier: Apache-2.0
// The connections of a process to its peers: a thread carries messages and notices who is gone.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "realhw/tcp/socket.h"

namespace moesim {

/// When a peer counts as gone, and when its loss ends this process.
struct Liveness {
  Clock::duration beat = std::chrono::seconds(1);      // something is sent at least that often
  Clock::duration silence = std::chrono::seconds(15);  // a peer from which nothing came for so long
  Clock::duration grace = std::chrono::seconds(10);    // for the main thread to end by itself
  Clock::duration farewell = std::chrono::seconds(2);  // for the others to hear that this one ends
};

/// Rank 0 has a connection to every other rank, they to rank 0, which passes on who failed.
class ControlPlane {
 public:
  /// Peers by rank, open if there is a connection.
  ControlPlane(int rank, std::vector<Socket> peers, const Liveness& liveness);
  /// Says goodbye; what was sent arrives before.
  ~ControlPlane();
  ControlPlane(const ControlPlane&) = delete;

  /// Does not wait for the peer. Both throw std::runtime_error naming this rank, the call that it
  /// is `for_` and the rank that is gone.
  void send(int peer, std::string_view message, std::string_view for_);
  std::string receive(int peer, std::string_view for_);
  /// Throws std::runtime_error when a rank is gone or has ended the run.
  void check();
  /// Tells the others and ends the process; with the code of the first failure, if there was one.
  [[noreturn]] void abort(int code);

 private:
  struct Failure {
    std::string reason;
    int code = 1;
    Clock::time_point noticed = Clock::now();
  };
  enum class Kind : std::uint32_t { message, beat, failure, goodbye };
  static constexpr std::uint64_t longest_message = std::uint64_t{1} << 32, longest_reason = 1 << 16;
  struct Head {
    Kind kind = Kind::message;
    std::int32_t code = 0;  // of a failure
    std::uint64_t size = 0;
  };
  struct Peer {
    Socket socket;
    std::deque<std::string> outgoing;  // frames
    std::size_t sent = 0;              // of the first of them
    std::string incoming;              // the start of a frame
    std::deque<std::string> inbox;     // messages
    Clock::time_point heard = Clock::now(), spoken = Clock::now();
    bool left = false;  // said goodbye
  };

  // All with the mutex held.
  static std::string frame(Kind kind, std::string_view text, int code = 0);
  void watch(std::unique_lock<std::mutex>& lock);
  void keep_time();
  void flush(int rank);
  void read(int rank);
  static std::string misfit(const Head& head);
  void take(int rank, const Head& head, std::string text);
  void close(int rank, const std::string& why);
  void fail(Failure failure);
  bool all_sent() const;
  bool all_closed() const;
  [[noreturn]] void complain(std::string_view for_, const std::string& why) const;

  void wake();
  void work();

  const int rank_;
  const Liveness liveness_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Peer> peers_;
  std::optional<Failure> failure_;  // the first
  bool leaving_ = false, stop_ = false;
  Socket wake_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace moesim
