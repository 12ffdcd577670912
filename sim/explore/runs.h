// SPDX-License-Identifier: Apache-2.0
// Runs of the page: one simulates, the newest of a client ends its older ones.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "sim/explore/simulating.h"

namespace moesim {

/// How far a run is; texts are JSON if not said otherwise.
struct RunState {
  enum class Stage { waiting, running, done, failed, cancelled } stage = Stage::waiting;
  std::string client;       // a name
  std::int64_t asked = -1;  // which request of the client's
  std::string opened;
  double progress = 0;
  std::string note;  // a sentence
  std::string document, error;
  std::uint64_t change = 0;  // grows with every change

  bool ended() const { return stage >= Stage::done; }
};

/// Started runs, for threads that ask, and the loop that has them simulated. One process simulates
/// one run after the other; if it dies the run fails and another takes its place.
class Runs {
 public:
  explicit Runs(SimulatingOptions options);  // starts the process
  ~Runs();
  Runs(const Runs&) = delete;
  Runs& operator=(const Runs&) = delete;

  /// Cancels what the client (empty: nobody's) asked for before. Requests may overtake each other
  /// on their way: one that is not the client's newest by `asked` (-1: unknown, so the newest) is
  /// cancelled at once. Returns the run's number.
  std::int64_t start(const std::string& client, std::int64_t asked, const std::string& request);
  void cancel(std::int64_t run);
  /// The state after a change since `seen`, at the end, or after `longest`; nothing of an unknown
  /// run, or one that ended long ago.
  std::optional<RunState> wait(std::int64_t run, std::uint64_t seen,
                               std::chrono::milliseconds longest);

  /// In the thread that made it: until SIGINT or SIGTERM, which it returns, or until the parent of
  /// this process has ended (0).
  int work();

 private:
  struct Process {
    pid_t id = -1;
    int in = -1, out = -1;
    std::string bytes = {};
  };
  struct Waiting {
    std::int64_t run;
    std::string request;
  };

  void start_process();
  void end_process();
  void take_frames();
  void hear(const std::string& frame);
  void hand_out();
  bool is_overtaken(const std::string& client, std::int64_t asked) const;
  void withdraw(std::int64_t run);  // one that waits
  void wake_up() const;             // the loop
  void cancel_asked();
  void process_died();
  void end(RunState::Stage stage);
  RunState* current();
  void forget_old();

  const pid_t parent_ = ::getppid();  // before an address is printed: whoever reads it may end
  SimulatingOptions options_;
  Process process_;
  std::array<int, 2> wake_ = {-1, -1};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t last_ = 0;
  std::map<std::int64_t, RunState> states_;
  std::deque<Waiting> queue_;
  std::optional<std::int64_t> running_;
  bool cancelling_ = false;  // the run was told to end
  std::chrono::steady_clock::time_point told_ = {};
  bool cancel_wanted_ = false;
  bool closed_ = false;  // nobody waits any more
};

}  // namespace moesim
