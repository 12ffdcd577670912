// SPDX-License-Identifier: Apache-2.0
// What hardware does not take of a scenario is refused before anything runs.
#include "realhw/cli/source_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/flags/said_by.h"
#include "tests/realhw/cli/hw_program.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(HardwareSourceFlags, RefuseWhatHasNoEffectOnHardware) {
  const std::pair<std::vector<std::string>, const char*> refused[] = {
      {{"--topology", "b200-hgx"}, "moesim-hw takes one topology"},
      {{"--fidelity", "flow"}, "'fidelity' has no effect on hardware"},
      {{"--p2p-order", "nccl"}, "has no effect at fidelity port"},
      {{"--saved", "steps"}, "excludes --saved"}};
  for (const auto& [words, message] : refused) {
    const HwSaid said = said_by_hw(with(with(run_one_step(), {"--policy", "megatron"}), words));
    EXPECT_EQ(said.code, 2) << message;
    EXPECT_THAT(said.err, HasSubstr(message));
    EXPECT_EQ(said.out, "") << message;
  }
}

TEST(HardwareSourceFlags, RefuseIterationsThatNobodyCanExecute) {
  const HwSaid said =
      said_by_hw({"run", MOESIM_ROOT "/scenarios/iteration-hardware.yaml", "--zero", "3"});
  EXPECT_EQ(said.code, 2);
  EXPECT_THAT(said.err, HasSubstr("hardware cannot execute zero = 3 yet"));
  EXPECT_EQ(said.out, "");
}

TEST(HardwareSourceFlags, CountGpusAndProcesses) {
  EXPECT_NO_THROW(check_ranks("mine", 4, 4));
  EXPECT_THAT([] { check_ranks("mine", 4, 1); },
              ThrowsMessage<Error>(HasSubstr("mine has 4 GPUs, but 1 process runs")));
  EXPECT_THAT([] { check_ranks("mine", 4, 2); },
              ThrowsMessage<Error>(HasSubstr("mine has 4 GPUs, but 2 processes run\n")));
}

TEST(HardwareSourceFlags, WithoutYamlSayWhatTheProgramCannotDo) {
  CommandLine app("prog", "");
  refuse_without_yaml(app, {"--policy", "--trace"}, "plans no scenario", "take --saved");
  EXPECT_EQ(said_by(app, {"--trace", "t"}),
            "this moesim-hw was built without YAML and plans no scenario; take --saved");
  EXPECT_THAT(said_by(app, {"--help"}), testing::Not(HasSubstr("--policy")));
}

}  // namespace
}  // namespace moesim
