// SPDX-License-Identifier: Apache-2.0
// What /proc tells of processes, for tests that signal them.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "sim/base/error.h"
#include "sim/base/files.h"

namespace moesim {

/// Tries until it is so, for ten seconds.
inline bool comes_true(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// A field of /proc/<process>/status; empty without one.
inline std::string status_field(const std::string& process, const std::string& name) {
  std::string text;
  try {
    text = "\n" + read_file("/proc/" + process + "/status");
  } catch (const Error&) {
    return "";  // it has ended
  }
  const auto at = text.find("\n" + name + ":\t");
  if (at == std::string::npos) return "";
  const auto from = at + name.size() + 3;
  return text.substr(from, text.find('\n', from) - from);
}

/// Whether SIGTERM waits for a process.
inline bool waits_for_sigterm(pid_t process) {
  const std::string signals = status_field(std::to_string(process), "ShdPnd");
  return !signals.empty() && (std::stoull(signals, nullptr, 16) >> (SIGTERM - 1) & 1U) != 0;
}

/// The only child of this process; -1 without one.
inline pid_t only_child() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (status_field(name, "PPid") == std::to_string(::getpid())) return std::stoi(name);
  }
  return -1;
}

/// Stops a process; false if that does not come to pass.
inline bool stop_process(pid_t process) {
  ::kill(process, SIGSTOP);
  return comes_true(
      [&] { return status_field(std::to_string(process), "State").starts_with("T"); });
}

}  // namespace moesim
