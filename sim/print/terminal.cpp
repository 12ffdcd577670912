// SPDX-License-Identifier: Apache-2.0
#include "sim/print/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace moesim {
namespace {

constexpr int narrowest = 40;
bool quiet_process = false;

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != 0;
}

/// Characters of a line, 0 if there is no terminal or it has no size.
int columns_of(std::FILE* stream) {
  winsize size{};
  const int file = ::fileno(stream);
  return ::isatty(file) != 0 && ::ioctl(file, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

bool is_terminal(std::FILE* stream) { return columns_of(stream) > 0; }

int terminal_width(std::FILE* stream) {
  if (is_set("COLUMNS")) {
    const int asked = std::atoi(std::getenv("COLUMNS"));
    if (asked > 0) return std::max(narrowest, asked);
  }
  const int columns = columns_of(stream);
  return columns == 0 ? 0 : std::max(narrowest, columns);
}

bool takes_color(std::FILE* stream) {
  const char* term = std::getenv("TERM");
  const bool dumb = term != nullptr && std::string_view(term) == "dumb";
  return is_terminal(stream) && !is_set("NO_COLOR") && !dumb;
}

bool is_quiet() { return quiet_process; }

void be_quiet() { quiet_process = true; }

}  // namespace moesim
