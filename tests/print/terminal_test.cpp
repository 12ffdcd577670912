// SPDX-License-Identifier: Apache-2.0
// What is known of a terminal, by pseudo-terminals of some widths.
#include "sim/print/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

namespace moesim {
namespace {

/// A terminal of so many columns; null if the system has none to lend.
class LentTerminal {
 public:
  explicit LentTerminal(unsigned short columns) : master_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    if (master_ < 0 || ::grantpt(master_) != 0 || ::unlockpt(master_) != 0) return;
    const int file = ::open(::ptsname(master_), O_RDWR | O_NOCTTY);
    if (file < 0) return;
    const winsize size{24, columns, 0, 0};
    ::ioctl(file, TIOCSWINSZ, &size);
    stream_ = ::fdopen(file, "r+");
  }
  LentTerminal(const LentTerminal&) = delete;
  LentTerminal& operator=(const LentTerminal&) = delete;
  ~LentTerminal() {
    if (stream_ != nullptr) std::fclose(stream_);
    if (master_ >= 0) ::close(master_);
  }
  std::FILE* stream() const { return stream_; }

 private:
  int master_;
  std::FILE* stream_ = nullptr;
};

class Terminal : public testing::Test {
 protected:
  Terminal() {
    ::unsetenv("COLUMNS");
    ::unsetenv("NO_COLOR");
    ::setenv("TERM", "xterm", 1);
  }
  ~Terminal() override { ::unsetenv("COLUMNS"), ::unsetenv("NO_COLOR"); }
};

TEST_F(Terminal, HasItsWidthAndColors) {
  const LentTerminal wide(120), narrow(1), unknown(0);
  if (wide.stream() == nullptr) GTEST_SKIP() << "there are no terminals";
  EXPECT_TRUE(is_terminal(wide.stream()));
  EXPECT_EQ(terminal_width(wide.stream()), 120);
  EXPECT_TRUE(is_terminal(narrow.stream()));
  EXPECT_EQ(terminal_width(narrow.stream()), 40);  // the narrowest
  EXPECT_EQ(terminal_width(unknown.stream()), 0);
  EXPECT_FALSE(is_terminal(unknown.stream()));
  EXPECT_TRUE(takes_color(wide.stream()));
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(takes_color(wide.stream()));
  ::unsetenv("NO_COLOR");
  ::setenv("TERM", "dumb", 1);
  EXPECT_FALSE(takes_color(wide.stream()));
}

TEST_F(Terminal, IsAsWideAsTheEnvironmentSays) {
  const LentTerminal wide(120);
  if (wide.stream() == nullptr) GTEST_SKIP() << "there are no terminals";
  for (const auto& [columns, width] :
       {std::pair("60", 60), {"1", 40}, {"0", 120}, {"", 120}, {"many", 120}}) {
    ::setenv("COLUMNS", columns, 1);
    EXPECT_EQ(terminal_width(wide.stream()), width) << columns;
  }
}

TEST_F(Terminal, AFileIsNone) {
  std::FILE* const file = std::fopen("/dev/null", "w");
  ASSERT_NE(file, nullptr);
  EXPECT_FALSE(is_terminal(file));
  EXPECT_FALSE(takes_color(file));
  EXPECT_EQ(terminal_width(file), 0);
  ::setenv("COLUMNS", "1", 1);
  EXPECT_EQ(terminal_width(file), 40);
  std::fclose(file);
}

}  // namespace
}  // namespace moesim
