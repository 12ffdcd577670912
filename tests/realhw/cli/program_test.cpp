// SPDX-License-Identifier: Apache-2.0
// What moesim-hw says of itself, and its exit codes.
#include "realhw/cli/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "realhw/cli/measuring.h"
#include "realhw/core/gemm.h"
#include "tests/realhw/cli/hw_program.h"
#include "tests/realhw/nccl/thread_job.h"

/// Of OpenBLAS, if that multiplies.
extern "C" int __attribute__((weak)) openblas_get_num_threads();

namespace moesim {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

TEST(HardwareProgram, TellsItsVersionAndItsExitCodes) {
  const HwSaid version = said_by_hw({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_EQ(version.out, "moesim-hw " MOESIM_RELEASE "\n");
  const HwSaid help = said_by_hw({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out,
              AllOf(HasSubstr("calibrate"), HasSubstr("--launcher"), HasSubstr("2 bad input.\n")));
  EXPECT_FALSE(help.job_ended);
}

TEST(HardwareProgram, TakesTheLauncherBeforeAndAfterTheCommand) {
  const auto run = with(run_one_step(), {"--policy", "megatron"});
  EXPECT_EQ(said_by_hw(with({"--launcher", "mpi"}, run)).code, 0);
  EXPECT_EQ(said_by_hw(with(run, {"--launcher", "mpi"})).code, 0);
}

TEST(HardwareProgram, NeedsACommand) {
  const HwSaid said = said_by_hw(std::vector<std::string>{});
  EXPECT_EQ(said.code, 2);
  EXPECT_THAT(said.err, HasSubstr("moesim-hw needs a command"));
}

/// Two ranks of threads print what one of them says.
TEST(HardwareProgram, PrintsHelpOnce) {
  testing::internal::CaptureStdout();
  const auto thrown = as_ranks(2, [](Job& job) {
    std::vector<std::string> words = {"moesim-hw", "--version"};
    std::vector<char*> arguments = {words[0].data(), words[1].data()};
    EXPECT_EQ(run_moesim_hw(2, arguments.data(), job, [] {}), 0);
  });
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "moesim-hw " MOESIM_RELEASE "\n");
  EXPECT_THAT(thrown, Each(""));
}

TEST(HardwareProgram, MultipliesWithOneThread) {
  if (openblas_get_num_threads == nullptr) GTEST_SKIP() << "not with OpenBLAS";
  set_gemm_threads(3);
  EXPECT_EQ(said_by_hw(with(run_one_step(), {"--policy", "megatron", "--local"})).code, 0);
  EXPECT_EQ(openblas_get_num_threads(), 1);
}

TEST(HardwareProgram, FailsForASingleWrongElement) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(code_of(0, true), 0);
  EXPECT_EQ(code_of(1, false), 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  EXPECT_EQ(code_of(1, true), 1);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), StartsWith("moesim-hw: the run failed: 1 "));
}

}  // namespace
}  // namespace moesim
