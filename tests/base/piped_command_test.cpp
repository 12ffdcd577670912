// SPDX-License-Identifier: Apache-2.0
// A command that answers lines, and each way in which one can fail.
#include "sim/base/piped_command.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/temporary_folder.h"

namespace moesim {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

constexpr milliseconds patient{20000};

class Commands : public testing::Test {
 protected:
  Commands() { allow_commands(); }

  /// What is said of a command's answer to "x".
  static std::string complaint(const std::string& command, milliseconds limit = patient) {
    try {
      PipedCommand piped(command, limit);
      return "it answered " + piped.ask("x");
    } catch (const Error& e) {
      return e.what();
    }
  }
};

TEST_F(Commands, AnswerLineByLine) {
  PipedCommand echo("while read line; do echo \"<$line>\"; done", patient);
  EXPECT_EQ(echo.ask("one"), "<one>");
  EXPECT_EQ(echo.ask("two words"), "<two words>");
  EXPECT_GT(echo.took().value, 0);
  EXPECT_LT(echo.took().value, 20);
}

TEST_F(Commands, LongLinesGoBothWays) {
  const std::string line(3 << 20, 'a');
  PipedCommand cat("cat", patient);
  EXPECT_EQ(cat.ask(line), line);
}

TEST_F(Commands, WhatEndsIsToldWithItsLastWords) {
  EXPECT_THAT(complaint("echo 'no such table' >&2; exit 3"),
              AllOf(HasSubstr("ended with status 3 before it answered"),
                    EndsWith("it said:\nno such table\n")));
  EXPECT_THAT(complaint("printf '\\r\\nwhy\\r\\n\\n' >&2; exit 3"),
              EndsWith("it said:\n\\x0d\nwhy\n"));
  EXPECT_THAT(complaint("kill -SEGV $$"),
              AllOf(HasSubstr("was ended by signal 11 before it answered"),
                    HasSubstr("it said nothing on standard error")));
  EXPECT_THAT(complaint("exit 0"), HasSubstr("ended with status 0 before it answered"));
}

TEST_F(Commands, MuchIsSaidBeforeAnAnswer) {
  // More than a pipe holds: it would stop if nobody read it.
  EXPECT_EQ(complaint("yes complaint | head -c 300000 >&2; read line; echo fine"),
            "it answered fine");
  const std::string end = complaint("yes complaint | head -c 300000 >&2; echo last >&2; exit 1");
  EXPECT_THAT(end, HasSubstr("complaint\nlast"));
  EXPECT_LT(end.size(), 3000U);
  EXPECT_GT(end.size(), 2000U);
}

TEST_F(Commands, WhatClosesItsOutputIsToldSo) {
  EXPECT_THAT(complaint("exec 1>&-; sleep 30"),
              HasSubstr("closed its standard output before it answered"));
}

TEST_F(Commands, WhatHangsIsEndedWithItsChildren) {
  const TemporaryFolder folder;
  const std::string numbers = folder.path() + "/children";
  EXPECT_THAT(complaint("sleep 100 & echo $! > " + numbers + "; wait", milliseconds(300)),
              HasSubstr("did not answer within 0.3 s"));
  const pid_t child = std::atoi(read_file(numbers).c_str());
  ASSERT_GT(child, 1);
  for (int looks = 0; looks < 500 && ::kill(child, 0) == 0; ++looks) ::usleep(10000);
  EXPECT_NE(::kill(child, 0), 0);
}

TEST_F(Commands, TwoAnswersAreOneTooMany) {
  EXPECT_THAT(complaint("read line; printf 'a\\nb\\n'; sleep 30"),
              HasSubstr("answers more lines than it was asked"));
}

TEST_F(Commands, PipesOfWhatFailedAreClosedOnce) {
  std::vector<int> files;  // under the numbers of those pipes
  {
    PipedCommand once("exit 4", patient);
    EXPECT_THROW(once.ask("x"), Error);
    for (int i = 0; i < 3; ++i) files.push_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  for (const int file : files) EXPECT_EQ(::close(file), 0);
}

TEST_F(Commands, WhatFailedIsNotAskedAgain) {
  PipedCommand once("exit 4", patient);
  EXPECT_THROW(once.ask("x"), Error);
  try {
    once.ask("x");
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("'exit 4' has ended"));
  }
}

}  // namespace
}  // namespace moesim
