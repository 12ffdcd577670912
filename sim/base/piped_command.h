// SPDX-License-Identifier: Apache-2.0
// A program of the user's that is asked and answers, a line each, over pipes.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>

#include "sim/base/types.h"

namespace moesim {

/// Lets policies of this process and its children run commands: only a person who is at the command
/// line may say so, never a file.
void allow_commands();
bool commands_allowed();

/// Runs a command of the shell. It ends with this object, at the latest with the process that made
/// it.
class PipedCommand {
 public:
  /// Throws Error unless commands are allowed. `limit`: for each answer.
  PipedCommand(std::string command, std::chrono::milliseconds limit);
  ~PipedCommand();
  PipedCommand(const PipedCommand&) = delete;
  PipedCommand& operator=(const PipedCommand&) = delete;

  /// Writes a line, then `bytes` as they are, and returns the line that answers, both lines without
  /// their ends. Throws Error, with the end of what the command said on standard error, if it ends,
  /// does not answer in time, or answers more than most_answer bytes; it is not asked again then.
  std::string ask(const std::string& line, std::string_view bytes = {});
  /// How long the last answer took.
  Seconds took() const { return took_; }

  static constexpr std::size_t most_answer = 1 << 26;

 private:
  using Clock = std::chrono::steady_clock;

  void start();
  /// Ends it, by force if it does not by itself; its status.
  int stop();
  [[noreturn]] void fail(const std::string& what, bool by_force = true);
  /// Sends what it can, reads what is there, until one of both; false once standard output ended.
  bool exchange(std::string_view& rest, Clock::time_point deadline);
  void read_complaints();

  std::string command_;
  std::chrono::milliseconds limit_;
  pid_t child_ = -1;
  int in_ = -1, out_ = -1, complaints_ = -1;  // of the command
  std::string answer_, said_;                 // said: the end of its standard error
  Seconds took_;
};

}  // namespace moesim
