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

}  // namespace

int terminal_width(std::FILE* stream) {
  if (is_set("COLUMNS")) {
    const int asked = std::atoi(std::getenv("COLUMNS"));
    if (asked > 0) return std::max(narrowest, asked);
  }
  const int file = ::fileno(stream);
  if (::isatty(file) == 0) return 0;
  winsize size{};
  // Without a size nobody sits there: launchers such as mpirun give their ranks such terminals.
  if (::ioctl(file, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 0;
  return std::max<int>(narrowest, size.ws_col);
}

bool takes_color(std::FILE* stream) {
  const char* term = std::getenv("TERM");
  const bool dumb = term != nullptr && std::string_view(term) == "dumb";
  const bool terminal = ::isatty(::fileno(stream)) != 0 && terminal_width(stream) > 0;
  return terminal && !is_set("NO_COLOR") && !dumb;
}

bool is_quiet() { return quiet_process; }

void be_quiet() { quiet_process = true; }

}  // namespace moesim
