// SPDX-License-Identifier: Apache-2.0
// Standard error as a terminal.
#pragma once

#include <pty.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>

#include "sim/base/processes.h"

namespace moesim {

/// What `action` writes to standard error while that is a terminal so wide.
inline std::string on_a_terminal(const std::function<void()>& action, unsigned short columns = 80) {
  int terminal = -1, writer = -1;
  const winsize size{.ws_row = 50, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  if (::openpty(&terminal, &writer, nullptr, nullptr, &size) != 0) return "no terminal";
  const int before = ::dup(STDERR_FILENO);
  ::dup2(writer, STDERR_FILENO);
  action();
  std::fflush(stderr);
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  ::close(writer);
  std::string text;
  while (read_more(terminal, text)) continue;
  ::close(terminal);
  return text;
}

}  // namespace moesim
