// SPDX-License-Identifier: Apache-2.0
// Tables and JSON of a profile whose times one can add up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sim/profile/profile_text.h"
#include "sim/profile/profile_validation.h"
#include "tests/profile/files.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Json = nlohmann::ordered_json;

void add_kernel(ProfiledRank& rank, KernelKind kind, double begin, double end,
                std::uint16_t stream = 0) {
  ProfiledKernel kernel;
  kernel.start = static_cast<ProfileTicks>(begin * us);
  kernel.length = static_cast<ProfileTicks>((end - begin) * us);
  kernel.kind = kind;
  kernel.stream = stream;
  kernel.name = kind == KernelKind::gemm ? 0 : is_exchange(kind) ? 1 : 2;
  if (is_exchange(kind)) {
    kernel.exchange = 0;
    rank.exchanges.emplace_back().sequence = 1;
  }
  rank.kernels.push_back(kernel);
}

/// Rank 1 joins the all-to-all 20 us after rank 0, and both leave it at 130 us.
ReadProfile two_ranks() {
  ReadProfile read;
  Profile& profile = read.profile;
  profile.producer = "test";
  profile.kernel_names = {"product", "exchange", std::string(150, 'k')};
  profile.groups = {"all"};
  profile.bytes = 2000;
  profile.notes = {"ends early"};
  profile.timers["optimizer"] = {{0.001, 0.002}, {0.003, 0.004}, {0.002, 0.005}};
  for (const int r : {0, 1}) {
    ProfiledRank& rank = profile.ranks.emplace_back();
    rank.rank = 2 + r;
    rank.gpu = "NVIDIA H100";
    rank.streams = {"7", "27"};
    rank.shift = r * us;
    add_kernel(rank, KernelKind::gemm, 0, r == 0 ? 100 : 50);
    add_kernel(rank, KernelKind::all_to_all, r == 0 ? 60 : 80, 130, 1);
    add_kernel(rank, KernelKind::unknown, 140, 150);
  }
  profile.ranks[0].steps = {{0, 70 * us}, {70 * us, 160 * us}};
  profile.ranks[0].kernels.back().launch = 136 * us;
  read.clocks = {1, 0, Seconds(1e-6), Seconds(2e-6), Seconds(3e-6)};
  return read;
}

TEST(ProfileText, HoldsAllTables) {
  const ReadProfile read = two_ranks();
  EXPECT_EQ(profile_text(ProfileReport(read), 5).text(), R"(test, 2 ranks of NVIDIA H100, 2 kB read
2 steps: 80 us in the median, 70 us to 90 us
clocks: aligned by 1 exchange, moved by at most 1 us; their ends are 2 us apart in the median, 3 us in 95 %
note: ends early
timer      times  least  largest
optimizer      3   2 ms     4 ms
rank    wall  work only  traffic only   both   idle  host gaps  waiting  kernels  recognized
2     150 us      70 us         30 us  40 us  10 us       6 us    20 us        3      94.4 %
3     150 us      60 us         50 us   0 ns  40 us          -     0 ns        3      90.9 %

kinds of kernels, times per rank:
kind        kernels   time  GPU time  exposed  wall time  overlapped  waiting
gemm              2  75 us    51.7 %    55 us     36.7 %      26.7 %        -
all-to-all        2  60 us    41.4 %    40 us     26.7 %      33.3 %    10 us
unknown           2  10 us     6.9 %    10 us      6.7 %       0.0 %        -

rank  stream  kernels    busy  wall time  exchanges
2     7             2  110 us     73.3 %       0 ns
2     27            1   70 us     46.7 %      70 us
3     7             2   60 us     40.0 %       0 ns
3     27            1   50 us     33.3 %      50 us

recognized: 93.1 % of the GPU time
 time  kernels  kernel
20 us        2  )" + std::string(117, 'k') + "...\n");
}

TEST(ProfileText, IsOfManyOrNoRanks) {
  ReadProfile read = two_ranks();
  read.clocks.unaligned = 3;
  read.profile.ranks[1].gpu = "B200";
  const std::string text = profile_text(ProfileReport(read), 0).text();
  EXPECT_THAT(text, HasSubstr("2 ranks of NVIDIA H100, B200, 2 kB read\n"));
  EXPECT_THAT(text, HasSubstr("clocks: 3 ranks share no exchange with the first one\n"));
  EXPECT_THAT(text, testing::Not(HasSubstr("kkk")));
  read.profile.ranks.pop_back();
  read.profile.ranks[0].steps.pop_back();
  const std::string one = profile_text(ProfileReport(read), 5).text();
  EXPECT_THAT(one, HasSubstr("test, 1 rank of NVIDIA H100, 2 kB read\n1 step: 70 us"));
  EXPECT_THAT(one, HasSubstr("\nkinds of kernels:\n"));
  EXPECT_THAT(one, testing::Not(HasSubstr("clocks")));
  read.profile.ranks[0].kernels.clear();
  const std::string none = profile_text(ProfileReport(read), 5).text();
  EXPECT_THAT(none, HasSubstr("optimizer"));
  EXPECT_THAT(none, testing::Not(HasSubstr("work only")));
  EXPECT_EQ(ProfileReport(read).recognized(), 0);
}

TEST(ProfileJson, HoldsTheTimesOfEachRank) {
  const ReadProfile read = two_ranks();
  const ProfileReport report(read);
  EXPECT_EQ(report.kernels(), 6);
  EXPECT_DOUBLE_EQ(report.recognized(), 270.0 / 290);
  const Json json = Json::parse(profile_json(report, "1.2"));
  EXPECT_EQ(json["moesim"], "1.2");
  EXPECT_EQ(json["bytes"], 2000);
  EXPECT_EQ(json["clocks"]["exchanges"], 1);
  EXPECT_DOUBLE_EQ(json["clocks"]["residual_95_s"], 3e-6);
  const Json &first = json["ranks"][0], &second = json["ranks"][1];
  const auto times = [](const Json& rank) {
    std::vector<double> list;
    for (const char* const key : {"wall_s", "work_only_s", "traffic_only_s", "both_s", "idle_s",
                                  "time_s", "recognized_s", "clock_shift_s"}) {
      list.push_back(std::round(rank[key].get<double>() * 1e6));
    }
    return list;
  };
  EXPECT_THAT(times(first), ElementsAre(150, 70, 30, 40, 10, 180, 170, 0));
  EXPECT_THAT(times(second), ElementsAre(150, 60, 50, 0, 40, 110, 100, 1));
  EXPECT_EQ(first["rank"], 2);
  EXPECT_EQ(first["kernels"], 3);
  EXPECT_DOUBLE_EQ(first["host_gaps_s"], 6e-6);
  EXPECT_FALSE(second.contains("host_gaps_s"));
  EXPECT_NEAR(first["steps_s"][1], 90e-6, 1e-12);
  const Json& exchange = first["kinds"][2];
  EXPECT_EQ(exchange["kind"], "all-to-all");
  EXPECT_EQ(exchange["kernels"], 1);
  EXPECT_NEAR(exchange["time_s"], 70e-6, 1e-12);
  EXPECT_NEAR(exchange["exposed_s"], 30e-6, 1e-12);
  EXPECT_NEAR(exchange["overlapped_s"], 40e-6, 1e-12);
  EXPECT_NEAR(exchange["waiting_s"], 20e-6, 1e-12);
  EXPECT_EQ(first["streams"][1],
            (Json{{"stream", "27"}, {"kernels", 1}, {"busy_s", 70e-6}, {"exchanges_s", 70e-6}}));
  EXPECT_EQ(json["unknown"][0]["kernels"], 2);
  EXPECT_DOUBLE_EQ(json["unknown"][0]["time_s"], 20e-6);
}

double kind_of(const std::vector<double>& times, KernelKind kind) {
  return times[static_cast<std::size_t>(kind)] * 1e6;
}

TEST(StepTimes, AreMeansOverRanksAndSteps) {
  ReadProfile read = two_ranks();
  const StepTimes times = step_times(read.profile, 0);  // two steps, as the profile says
  EXPECT_EQ(times.ranks, 2);
  EXPECT_EQ(times.steps, 2);
  EXPECT_TRUE(times.waits);
  EXPECT_NEAR(times.wall * 1e6, 300.0 / 4, 1e-9);
  EXPECT_NEAR(times.work_only * 1e6, 130.0 / 4, 1e-9);
  EXPECT_NEAR(times.traffic_only * 1e6, 80.0 / 4, 1e-9);
  EXPECT_NEAR(times.both * 1e6, 40.0 / 4, 1e-9);
  EXPECT_NEAR(times.idle * 1e6, 50.0 / 4, 1e-9);
  EXPECT_NEAR(kind_of(times.kinds, KernelKind::gemm), 150.0 / 4, 1e-9);
  EXPECT_NEAR(kind_of(times.kinds, KernelKind::all_to_all), (120.0 - 20) / 4, 1e-9);
  EXPECT_NEAR(kind_of(times.exposed, KernelKind::gemm), 110.0 / 4, 1e-9);
  EXPECT_NEAR(kind_of(times.exposed, KernelKind::all_to_all), 80.0 / 4, 1e-9);
  EXPECT_NEAR(step_times(read.profile, 5).wall * 1e6, 300.0 / 2 / 5, 1e-9);
  read.profile.ranks[0].steps.clear();
  EXPECT_EQ(step_times(read.profile, 0).steps, 1);
}

ProfileValidation validation() {
  ProfileValidation both;
  both.measured = step_times(two_ranks().profile, 1);
  both.simulated = both.measured;
  both.simulated.wall = 75e-6;
  both.simulated.idle = 50e-6;
  both.simulated.kinds[static_cast<std::size_t>(KernelKind::router)] = 15e-6;
  both.simulated.kinds[static_cast<std::size_t>(KernelKind::optimizer)] = 1e-6;
  both.scenario = "s";
  both.timelines = both_timelines(two_ranks().profile, two_ranks().profile, 1);
  return both;
}

TEST(ValidationText, ComparesGroupsAndKinds) {
  ProfileValidation both = validation();
  EXPECT_EQ(validation_of_profile_text(both).text(),
            R"(measured: 2 ranks, 1 step; simulated: 2 ranks
of one step   measured  simulated     error
wall            150 us      75 us   -50.0 %
work only        65 us      65 us    +0.0 %
traffic only     40 us      40 us    +0.0 %
both             20 us      20 us    +0.0 %
idle             25 us      50 us  +100.0 %
products         75 us      90 us   +20.0 %
optimizer         0 ns       1 us         -
unknown          10 us      10 us    +0.0 %
tokens           50 us      50 us    +0.0 %

kind        measured  simulated   error
unknown        10 us      10 us  +0.0 %
gemm           75 us      75 us  +0.0 %
router          0 ns      15 us       -
optimizer       0 ns       1 us       -
all-to-all     50 us      50 us  +0.0 %
)");
  both.measured.waits = false;
  EXPECT_THAT(validation_of_profile_text(both).text(),
              HasSubstr("measured: 2 ranks, 1 step, exchanges with their waiting; simulated: 2"));
}

/// Three iterations of a log, and timers of them.
Profile log_of_iterations() {
  Profile profile;
  profile.ranks.emplace_back().steps = {{0, 400 * us}, {400 * us, 500 * us}, {500 * us, 610 * us}};
  profile.timers["forward-backward"] = {{20e-6, 40e-6}, {10e-6, 30e-6}, {12e-6, 32e-6}};
  profile.timers["layernorm"] = profile.timers["optimizer"] = {{1e-6, 2e-6}};
  return profile;
}

TEST(StepTimes, OfALogAreTheMedianIteration) {
  const StepTimes times = step_times(log_of_iterations(), 0);
  EXPECT_FALSE(times.kernels);
  EXPECT_EQ(times.steps, 3);
  EXPECT_NEAR(times.wall, 110e-6, 1e-12);
  EXPECT_TRUE(is_log(log_of_iterations()));
  EXPECT_FALSE(is_log(two_ranks().profile));
  EXPECT_FALSE(is_log({}));
}

TEST(ValidationText, OfALogHasNoKinds) {
  ProfileValidation both = validation();
  both.measured = step_times(log_of_iterations(), 0);
  both.timers = timer_times(log_of_iterations(), 75e-6, 1e-6);
  EXPECT_EQ(validation_of_profile_text(both).text(),
            R"(measured: the median of 3 iterations in a log, which has no kernels
of one step   measured  simulated    error
wall            110 us      75 us  -31.8 %
work only            -      65 us        -
traffic only         -      40 us        -
both                 -      20 us        -
idle                 -      50 us        -
products             -      90 us        -
optimizer            -       1 us        -
unknown              -      10 us        -
tokens               -      50 us        -

timer             least  largest  simulated     error
forward-backward  12 us    32 us      74 us  +131.2 %
layernorm          1 us     2 us          -         -
optimizer          1 us     2 us       1 us   -50.0 %

kind        measured  simulated  error
unknown            -      10 us      -
gemm               -      75 us      -
router             -      15 us      -
optimizer          -       1 us      -
all-to-all         -      50 us      -
)");
  const Json json = Json::parse(validation_of_profile_json(both, "1", true));
  EXPECT_NEAR(json["measured"]["wall_s"], 110e-6, 1e-12);
  EXPECT_TRUE(json["measured"]["idle_s"].is_null());
  EXPECT_EQ(json["timers"].size(), 3U);
  EXPECT_NEAR(json["timers"][0]["simulated_s"], 74e-6, 1e-12);
  EXPECT_FALSE(json["timers"][1].contains("simulated_s"));
}

TEST(ValidationJson, HoldsBothAndTheirTimelines) {
  const ProfileValidation both = validation();
  EXPECT_FALSE(Json::parse(validation_of_profile_json(both, "1", false)).contains("timelines"));
  const Json json = Json::parse(validation_of_profile_json(both, "1", true));
  EXPECT_EQ(json["format_version"], 1);
  EXPECT_EQ(json["scenario"], "s");
  EXPECT_NEAR(json["measured"]["idle_s"], 25e-6, 1e-12);
  EXPECT_NEAR(json["simulated"]["idle_s"], 50e-6, 1e-12);
  EXPECT_NEAR(json["measured"]["kinds_s"]["all-to-all"], 50e-6, 1e-12);
  EXPECT_NEAR(json["measured"]["exposed_s"]["all-to-all"], 40e-6, 1e-12);
  EXPECT_EQ(json["measured"]["kinds_s"].size(), 3U);
  EXPECT_EQ(json["groups"]["attention"], (Json{"attention", "attention-backward"}));
  const Json& lines = json["timelines"];
  EXPECT_EQ(lines["measured_rank"], 2);
  EXPECT_NEAR(lines["length_s"], 130e-6, 1e-12);
  ASSERT_EQ(lines["lanes"].size(), 4U);
  EXPECT_EQ(lines["lanes"][1]["of"], "measured");
  EXPECT_EQ(lines["lanes"][1]["stream"], "27");
  // It waits 20 us of its 70.
  EXPECT_EQ(lines["lanes"][1]["bars_ns"],
            (Json{{60'000, 20'000, 70'000, static_cast<int>(KernelKind::all_to_all)}}));
  EXPECT_EQ(lines["lanes"][2]["of"], "simulated");
}

TEST(MeasuredTimeline, BeginsWithTheFirstKernelOfAll) {
  Profile profile = two_ranks().profile;
  for (ProfiledKernel& kernel : profile.ranks[0].kernels) kernel.start += 5 * us;
  for (ProfiledKernel& kernel : profile.ranks[1].kernels) kernel.start += 3 * us;
  profile.ranks.emplace(profile.ranks.begin());  // without kernels
  std::string text;
  TraceEvents events([&](std::string_view more) { text += more; });
  add_measured(profile, 4, events);
  const Json json = Json::parse("[0" + text + "]");
  std::vector<std::string> names;
  for (const Json& event : json) {
    const bool named = event.is_object() && event["args"].contains("name");
    if (named && event["ph"] == "M") names.push_back(event["args"]["name"]);
  }
  EXPECT_THAT(names, ElementsAre("measured rank 0", "measured rank 2", "7", "27", "measured rank 3",
                                 "7", "27"));
  std::vector<Json> slices;
  for (const Json& event : json) {
    if (event.is_object() && event["ph"] == "X") slices.push_back(event);
  }
  ASSERT_EQ(slices.size(), 6U);
  EXPECT_EQ(slices[1]["pid"], 5);
  EXPECT_EQ(slices[1]["tid"], 1);
  EXPECT_EQ(slices[1]["ts"], 62);
  EXPECT_EQ(slices[1]["dur"], 70);
  EXPECT_EQ(slices[1]["name"], "exchange");
  EXPECT_EQ(slices[1]["cat"], "exchange");
  EXPECT_EQ(slices[1]["args"]["kind"], "all-to-all");
  EXPECT_EQ(slices[2]["name"], std::string(100, 'k'));
  EXPECT_EQ(slices[3]["cat"], "kernel");
  EXPECT_EQ(slices[3]["ts"], 0);
  EXPECT_EQ(slices[3]["pid"], 6);
}

TEST(Breakdown, KnowsLaunchesFromTheBeginningOn) {
  ProfiledRank rank;
  rank.streams = {"7"};
  for (const ProfileTicks start : {0, 20}) rank.kernels.push_back({.start = start, .length = 10});
  EXPECT_FALSE(breakdown(rank).launches_known);
  rank.kernels[1].launch = 0;
  EXPECT_TRUE(breakdown(rank).launches_known);
  EXPECT_EQ(breakdown(rank).host, 0);
  rank.kernels[1].launch = 16;
  EXPECT_EQ(breakdown(rank).host, 6) << "of the 10 between the kernels";
}

}  // namespace
}  // namespace moesim
