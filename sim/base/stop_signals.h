// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and SIGTERM as a wish that work keeps what is done and ends.
#pragma once

#include <stdexcept>
#include <string>

namespace moesim {

/// Work that a signal ended early; the message says what is left of it.
class Interrupted : public std::runtime_error {
 public:
  Interrupted(int signal, const std::string& message)
      : std::runtime_error(message), signal_(signal) {}
  int signal() const { return signal_; }

 private:
  int signal_;
};

/// While one lives, SIGINT and SIGTERM are only noted; if the process ignored one, it stays
/// ignored. They may nest: the outermost forgets what was noted before it, and restores what was.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that was noted last, 0: none.
  int caught() const;
  /// The end of a pipe that has bytes once a signal was noted: for poll().
  int file() const;
};

/// In a child process, for good: Ctrl-C reaches all processes of a terminal, but the parent decides
/// what ends. Blocked rather than ignored, as libraries set handlers of their own.
void hold_back_stop_signals();

/// Ends the process as the signal would have, so that shells stop their loops; they see 128 +
/// `signal`. Returns that number if the signal is blocked or ignored.
int end_by(int signal);

}  // namespace moesim
