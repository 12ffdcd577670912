// SPDX-License-Identifier: Apache-2.0
#include "sim/base/stop_signals.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "sim/base/platform.h"

namespace moesim {
namespace {

constexpr std::array<int, 2> stopping = {SIGINT, SIGTERM};

volatile sig_atomic_t noted_signal = 0;
pid_t noting = 0;  // the process: its children inherit the pipe
int watchers = 0;
std::array<int, 2> signal_pipe = {-1, -1};  // made once
std::array<struct sigaction, stopping.size()> actions_before = {};

void note_signal(int signal) {
  if (::getpid() != noting) return;
  const int failure = errno;
  noted_signal = signal;
  const char byte = 0;
  // Where the pipe is full it is readable already.
  [[maybe_unused]] const ssize_t written = ::write(signal_pipe[1], &byte, 1);
  errno = failure;
}

void forget_signals() {
  noted_signal = 0;
  char bytes[64];
  while (::read(signal_pipe[0], bytes, sizeof bytes) > 0) continue;
}

/// What a parent process watched for is not a child's: it would share the pipe.
void leave_parent() {
  if (noting == 0 || noting == ::getpid()) return;
  watchers = 0;
  for (int& end : signal_pipe) {
    ::close(end);
    end = -1;
  }
}

}  // namespace

StopSignals::StopSignals() {
  leave_parent();
  if (watchers++ > 0) return;
  if (signal_pipe[0] < 0) signal_pipe = make_pipe(false);
  noting = ::getpid();
  forget_signals();
  struct sigaction note = {};
  note.sa_handler = note_signal;
  for (std::size_t i = 0; i < stopping.size(); ++i) {
    ::sigaction(stopping[i], nullptr, &actions_before[i]);
    if (actions_before[i].sa_handler != SIG_IGN) ::sigaction(stopping[i], &note, nullptr);
  }
}

StopSignals::~StopSignals() {
  if (--watchers > 0) return;
  for (std::size_t i = 0; i < stopping.size(); ++i) {
    ::sigaction(stopping[i], &actions_before[i], nullptr);
  }
}

int StopSignals::caught() const { return noted_signal; }
int StopSignals::file() const { return signal_pipe[0]; }

void hold_back_stop_signals() {
  sigset_t held;
  ::sigemptyset(&held);
  for (const int signal : stopping) ::sigaddset(&held, signal);
  ::sigprocmask(SIG_BLOCK, &held, nullptr);
}

int end_by(int signal) {
  std::fflush(nullptr);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
  return 128 + signal;
}

}  // namespace moesim
