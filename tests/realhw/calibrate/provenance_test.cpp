// SPDX-License-Identifier: Apache-2.0
// What is recorded of the machines, the command and the rounds of a calibration.
#include "realhw/calibrate/provenance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "realhw/core/gemm.h"
#include "tests/error_of.h"
#include "tests/realhw/calibrate/measured_calibration.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Four ranks on two hosts; every rank gives what the first gives, but for one that is told.
class FourRanks : public LoneJob {
 public:
  int ranks() const override { return 4; }
  std::vector<std::string> gather(const std::string& mine) override {
    return {mine, mine, mine == "132" ? "66" : mine, mine};
  }
};

Provenance of_this_process(Job& job, int sms) {
  CountingBackend backend;
  backend.sms_of_gpu = sms;
  return provenance_of(job, backend, MeasuredCalibration().head().origin);
}

TEST(Provenance, HasTheCommandWithoutTheFolderOfItsProgram) {
  LoneJob job;
  const std::string command = of_this_process(job, 0).command;
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::string word;
  std::getline(in, word, '\0');
  std::string expected = std::filesystem::path(word).filename();
  while (std::getline(in, word, '\0')) expected += " " + word;
  EXPECT_EQ(command, expected);
}

TEST(Provenance, HasTheReleaseAndTheTimeOfTheMeasurement) {
  LoneJob job;
  const Provenance p = of_this_process(job, 0);
  EXPECT_THAT(p.moesim, ::testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+.*"));
  EXPECT_THAT(p.date, ::testing::MatchesRegex("20[0-9][0-9]-[0-9]+-[0-9]+ [0-9:]+ UTC"));
  EXPECT_EQ(p.backend, "nothing; " + gemm_library());
  EXPECT_THAT(p.hosts, ElementsAre(host_name()));
  EXPECT_EQ(p.topology, "t");
  EXPECT_EQ(p.model, "m hidden=64");
  EXPECT_EQ(p.ranks, 1);
  EXPECT_EQ(p.rounds.rounds, 2);
  EXPECT_EQ(p.rounds.repeats, 3);
}

TEST(Provenance, HasTheNameOfTheProcessor) {
  std::string name = "an unknown processor";
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const auto colon = line.find(':');
    if (line.substr(0, 10) != "model name" || colon == std::string::npos) continue;
    name = line.substr(colon + 2);
    break;
  }
  LoneJob job;
  const auto processors = of_this_process(job, 0).processors;
  ASSERT_EQ(processors.size(), 1u);
  EXPECT_THAT(processors[0], ::testing::StartsWith(name + ", "));
  EXPECT_THAT(processors[0], ::testing::EndsWith(" threads"));
}

TEST(Provenance, HasEveryHostOnceAndTheMultiprocessorsOfEveryRank) {
  FourRanks job;
  const Provenance p = of_this_process(job, 132);
  EXPECT_EQ(p.hosts.size(), 1u);
  EXPECT_EQ(p.processors.size(), 1u);
  EXPECT_THAT(p.sms, ElementsAre(132, 132, 66, 132));
  EXPECT_THAT(of_this_process(job, 1).sms, ElementsAre(1, 1, 1, 1));
  EXPECT_TRUE(of_this_process(job, 0).sms.empty());
}

std::string continued_with(const Provenance& first, const Provenance& now) {
  return error_of([&] { continued(first, now, "f"); });
}

TEST(Provenance, SaysWhatIsAnotherThanWhenItBegan) {
  Provenance first = MeasuredCalibration().head().provenance;
  first.processors = {"x", "y"};
  first.sms = {132, 132};
  Provenance now = first;
  now.processors = {"y", "x"};
  EXPECT_EQ(continued_with(first, now), "") << "in any order of ranks";
  now.processors = {"y", "z"};
  EXPECT_EQ(continued_with(first, now),
            "f: error: these times were measured with [\"x\", \"y\"], not with [\"y\", \"z\"]\n"
            "hint: use the same build and hosts, or leave --resume out\n");
  now = first;
  now.backend = "NCCL";
  EXPECT_THAT(continued_with(first, now), HasSubstr("measured with counting, not with NCCL"));
  now = first;
  now.sms = {132, 66};
  EXPECT_THAT(continued_with(first, now),
              HasSubstr("with GPUs of 132, 132 multiprocessors, not with GPUs of 132, 66 "));
  now.sms = {};
  EXPECT_NE(continued_with(first, now), "");
}

TEST(Rounds, SayWhatTheyMeasureBeforeTheyDo) {
  MeasuredCalibration c;
  c.measure(false);
  std::vector<std::pair<std::string, int>> all;
  for (const int round : {0, 1}) {
    for (const MicroPlan* plan : c.plans) all.emplace_back(plan->name, round);
  }
  EXPECT_EQ(c.told, all);
  EXPECT_EQ(c.backend.compared, 1) << "tokens of a rank";
}

TEST(Rounds, NameThePlanWithWrongNumbers) {
  MeasuredCalibration c;
  c.backend.wrong = 1;
  try {
    c.measure(false);
    FAIL();
  } catch (const std::runtime_error& e) {
    EXPECT_THAT(e.what(), HasSubstr("1 wrong element in '" + c.plans[0]->name + "'"));
  }
  EXPECT_THAT(c.told, ElementsAre(std::pair(c.plans[0]->name, 0)));
}

TEST(MicroPlans, TakeFromTheLastStartOfAnExchangeToItsLastEnd) {
  Intervals ops;
  ops.add_row({Interval{Seconds(3), Seconds(10)}, Interval{Seconds(5), Seconds(9)},
               Interval{Seconds(4), Seconds(12)}});
  EXPECT_EQ(time_of_exchange(ops[0]), Seconds(7));
  Intervals skewed;  // clocks that differ
  skewed.add_row({Interval{Seconds(3), Seconds(4)}, Interval{Seconds(5), Seconds(4)}});
  EXPECT_EQ(time_of_exchange(skewed[0]), Seconds(0));
}

TEST(MicroPlans, SettleByAByteOfEveryPair) {
  Plan plan;
  plan.gpus = 3;
  plan.add(Op{"first", {}, Stream::ep, Group::first(3), {}, Exchange()});
  const OpId settled = add_settle(plan, {OpId(0)});
  const Op& op = plan[settled];
  EXPECT_EQ(op.after, std::vector<OpId>{OpId(0)});
  EXPECT_EQ(op.group.size(), 3u);
  for (int from = 0; from < 3; ++from) {
    for (int to = 0; to < 3; ++to) {
      EXPECT_EQ(op.exchange()->traffic.at(GpuId(from), GpuId(to)), Bytes(from == to ? 0 : 1));
    }
  }
}

TEST(MicroPlans, TellProbesApart) {
  Plan plan;
  plan.gpus = 2;
  const Probe all[] = {Probe::sized, Probe::empty, Probe::tiny, Probe::alone, Probe::beside};
  std::vector<std::string> labels;
  for (const Probe probe : all) {
    const OpId id = add_exchange(plan, probe, Stream::ep_2, ByteMatrix());
    labels.push_back(plan[id].label.text());
    EXPECT_EQ(plan[id].stream, Stream::ep_2);
    for (const Probe other : all) EXPECT_EQ(is_probe(plan[id], other), probe == other);
  }
  EXPECT_THAT(labels, ElementsAre("exchange sized", "exchange empty", "exchange tiny",
                                  "exchange alone", "exchange beside"));
}

}  // namespace
}  // namespace moesim
