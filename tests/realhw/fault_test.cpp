// SPDX-License-Identifier: Apache-2.0
// Faults on purpose: what their text says, where they strike, and what they do.
#include "realhw/program/fault.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <array>

#include "realhw/host/host_device.h"
#include "tests/error_of.h"
#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

using testing::HasSubstr;

TEST(FaultText, NamesKindOpAndRank) {
  const Fault stop = parse_fault("stop:a:b@c@12");
  EXPECT_EQ(stop.kind, Fault::Kind::stop);
  EXPECT_EQ(stop.op, "a:b@c");
  EXPECT_EQ(stop.rank, GpuId(12));
  EXPECT_EQ(parse_fault("kill:fc1@0").kind, Fault::Kind::kill);
  EXPECT_EQ(parse_fault("nan:fc1@0").kind, Fault::Kind::nan);
  EXPECT_EQ(parse_fault("nan:fc1@0").rank, GpuId(0));
}

TEST(FaultText, IsRefusedUnlessItIsWhole) {
  for (const char* text : {"", "kill", "kill:fc1", "kill@1", "1@kill:fc1", "kill:@1", "kill:fc1@",
                           "kill:fc1@-1", "kill:fc1@1x", "kill:fc1@x", "burn:fc1@1"}) {
    EXPECT_THAT(error_of([&] { parse_fault(text); }), HasSubstr("is not a fault")) << text;
  }
}

/// GPU 1 checks 4 bytes from the 4th on behind op 0, and nothing behind op 1.
struct Drilled {
  Drilled() {
    plan.add(test::kernel("fc1", 1));
    plan.add(test::kernel("gate", 1));
    program.rank = GpuId(1);
    program.buffers = {{"memory", 12}};
    program.steps.resize(2);
    program.steps[0].op = OpId(0);
    program.steps[0].after = {check};
    program.steps[1].op = OpId(1);
    device.load(program);
    device.reset(false);
  }

  /// The memory after what a fault does before the call.
  std::array<int, 12> after(const char* fault, GpuId rank, const Call& call) {
    const FaultDrill drill(parse_fault(fault), plan, rank);
    for (const RankStep& step : program.steps) drill.before(call, step, device);
    std::array<int, 12> bytes{};
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<int>(device.data(BufferId(0))[i]);
    }
    return bytes;
  }

  Plan plan{"plan", 2, {}};
  FiniteCheck check{OpId(0), {{{BufferId(0), 4}, 1}}};
  RankProgram program;
  HostDevice device;
};

TEST(FaultDrill, StrikesOnlyWhatIsThere) {
  const Drilled d;
  const auto complaint = [&](const char* fault) {
    return error_of([&] { check_fault(parse_fault(fault), d.plan, d.program); });
  };
  EXPECT_EQ(complaint("nan:fc1@1"), "");
  EXPECT_EQ(complaint("kill:gate@1"), "");
  EXPECT_THAT(complaint("nan:gate@1"), HasSubstr("'gate' makes no numbers"));
  EXPECT_THAT(complaint("stop:fc2@1"), HasSubstr("rank 1 has no op 'fc2' in plan"));
}

TEST(FaultDrill, WritesNanBeforeTheCheckOfItsOpOnItsRank) {
  const std::array<int, 12> none{}, nan{0, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0};
  Drilled d;
  EXPECT_EQ(d.after("nan:fc1@0", GpuId(1), d.check), none) << "another rank";
  EXPECT_EQ(d.after("nan:fc2@1", GpuId(1), d.check), none) << "another op";
  EXPECT_EQ(d.after("kill:fc1@1", GpuId(1), d.check), none) << "another fault";
  EXPECT_EQ(d.after("nan:fc1@1", GpuId(1), HostWork{0}), none) << "no check";
  EXPECT_EQ(d.after("nan:fc1@1", GpuId(1), FiniteCheck{OpId(0), {}}), none) << "of nothing";
  EXPECT_EQ(d.after("nan:fc1@1", GpuId(1), d.check), nan);
}

TEST(FaultDrill, KillsItsRankWhenItsOpStarts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // products have threads
  const Drilled d;
  const auto starts = [&](const char* fault, std::size_t step) {
    FaultDrill(parse_fault(fault), d.plan, GpuId(1)).at_start(d.program.steps[step]);
  };
  starts("kill:fc1@0", 0);
  starts("kill:fc1@1", 1);
  starts("nan:fc1@1", 0);
  EXPECT_EXIT(starts("kill:fc1@1", 0), testing::KilledBySignal(SIGKILL), "");
}

}  // namespace
}  // namespace moesim
