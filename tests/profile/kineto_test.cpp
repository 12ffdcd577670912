// SPDX-License-Identifier: Apache-2.0
// Traces of PyTorch's profiler whose times can be added up in one's head.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/profile/profile_text.h"
#include "tests/profile/files.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::Not;

RankTime::Kind kind_time(const RankTime& rank, KernelKind kind) {
  return rank.kinds[static_cast<std::size_t>(kind)];
}

/// Work from 0 to 100 and from 140 to 150 us, an exchange from 60 to 130.
std::vector<std::string> one_step() {
  return {
      R"({"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#4", "pid": 9, "tid": 9, "ts": 1000, "dur": 160})",
      R"({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": 1130, "dur": 6, "args": {"correlation": 3}})",
      kineto_kernel("nvjet_tst_1", 7, 1000, 100),
      kineto_kernel("ncclDevKernel_SendRecv(x)", 27, 1060, 70, all_to_all_facts(1000, 5)),
      kineto_kernel("my_kernel", 7, 1140, 10, ", \"correlation\": 3")};
}

TEST(Kineto, AddsUpWhereTimeGoes) {
  const ProfileFiles files;
  const ReadProfile read = read_files({files.write("r.json", kineto_trace(3, one_step()))});
  ASSERT_EQ(read.profile.ranks.size(), 1U);
  EXPECT_EQ(read.profile.ranks[0].rank, 3);
  EXPECT_EQ(read.profile.ranks[0].gpu, "NVIDIA H100");
  const ProfileReport report(read);
  const RankTime& time = report.ranks[0];
  EXPECT_EQ(time.wall, 150 * us);
  EXPECT_EQ(time.work_only, 70 * us);
  EXPECT_EQ(time.both, 40 * us);
  EXPECT_EQ(time.traffic_only, 30 * us);
  EXPECT_EQ(time.idle, 10 * us);
  EXPECT_EQ(time.host, 6 * us);  // the launch ends at 136
  EXPECT_EQ(time.steps, std::vector<ProfileTicks>{160 * us});
  const auto exchange = kind_time(time, KernelKind::all_to_all);
  EXPECT_EQ(exchange.time, 70 * us);
  EXPECT_EQ(exchange.overlapped, 40 * us);
  EXPECT_DOUBLE_EQ(exchange.exposed, 30.0 * us);
  EXPECT_FALSE(time.waiting_known);
  EXPECT_DOUBLE_EQ(report.recognized(), 170.0 / 180);
  ASSERT_EQ(report.unknown.size(), 1U);
  EXPECT_EQ(report.unknown[0].name, "my_kernel");
  const ExchangeFacts& facts = read.profile.ranks[0].exchanges.at(0);
  EXPECT_EQ(facts.in_bytes, 2000);
  EXPECT_EQ(facts.ranks, 2);
  EXPECT_EQ(read.profile.groups[facts.group], "EP_GROUP: 0-1");
}

TEST(Kineto, NamesThatAreNotUtf8AreStillWritten) {
  const ProfileFiles files;
  std::string trace = kineto_trace(0, {kineto_kernel("cut\xe2\x82", 7, 0, 10)});
  trace.replace(trace.find("H100"), 4, "H\xb0");
  const ReadProfile read = read_files({files.write("r.json", trace)});
  EXPECT_EQ(read.profile.ranks[0].gpu, "(not UTF-8)");
  EXPECT_THAT(profile_json(ProfileReport(read), "0"), HasSubstr("\"kernel\": \"(not UTF-8)\""));
}

TEST(Kineto, AlignsClocksByExchanges) {
  // Rank 1 joins 20 us later, and its clock is 500 us ahead.
  const ProfileFiles files;
  const auto rank = [&](int r, double ahead, double join, int order) {
    std::vector<std::string> events;
    for (int i = 0; i < 3; ++i) {
      const double end = 1000 + 100.0 * i + ahead;
      events.push_back(kineto_kernel("ncclDevKernel_SendRecv(x)", 27, end - join, join,
                                     all_to_all_facts(1000, i)));
    }
    return files.write(fmt::format("{}.json", order), kineto_trace(r, events));
  };
  const ReadProfile read = read_files({rank(1, 500, 30, 0), rank(0, 0, 50, 1)});
  EXPECT_EQ(read.clocks.matched, 3);
  EXPECT_NEAR(read.clocks.largest_shift.value, 500e-6, 1e-12);
  EXPECT_NEAR(read.clocks.residual_95.value, 0, 1e-12);
  EXPECT_EQ(read.profile.ranks[0].rank, 0);
  const ProfileReport report(read);
  EXPECT_EQ(kind_time(report.ranks[0], KernelKind::all_to_all).waiting, 60 * us);
  EXPECT_EQ(kind_time(report.ranks[1], KernelKind::all_to_all).waiting, 0);
}

TEST(Kineto, SaysHowFarClocksAreApart) {
  const ProfileFiles files;
  const auto rank = [&](int r, std::vector<double> ends) {
    std::vector<std::string> events;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      events.push_back(kineto_kernel("ncclDevKernel_SendRecv(x)", 27, ends[i] - 10, 10,
                                     all_to_all_facts(1000, static_cast<int>(i))));
    }
    return files.write(fmt::format("{}.json", r), kineto_trace(r, events));
  };
  const ReadProfile read = read_files({rank(0, {1000, 1100, 1200}), rank(1, {1300, 1401, 1502})});
  EXPECT_NEAR(read.clocks.largest_shift.value, 301e-6, 1e-12);
  EXPECT_NEAR(read.clocks.residual_median.value, 1e-6, 1e-12);
}

TEST(Kineto, NamesNoHostUserOrPath) {
  const ProfileFiles files;
  auto events = one_step();
  events.push_back(kineto_kernel("/home/someone/k.cu(3)", 7, 1150, 1));
  const ReadProfile read = read_files({files.write("host7_someone.json", kineto_trace(0, events))});
  const ProfileReport report(read);
  const std::string all = profile_text(report, 10).text() + profile_json(report, "0");
  EXPECT_THAT(all, Not(HasSubstr("someone")));
  EXPECT_THAT(all, Not(HasSubstr("host7")));
  EXPECT_THAT(all, HasSubstr("k.cu(3)"));
}

TEST(Kineto, RefusesByName) {
  const ProfileFiles files;
  const std::string mtia =
      kineto_trace(0, {R"({"ph": "X", "cat": "mtia_ccp_events", "name": "k", "ts": 1, "dur": 1})"});
  EXPECT_THAT(error_of_files({files.write("m.json", mtia)}),
              HasSubstr("MTIA devices, which are not"));
  EXPECT_THAT(error_of_files({files.write("e.json", "{\"traceEvents\": []}")}),
              HasSubstr("holds no kernels of GPUs"));
  EXPECT_THAT(error_of_files({files.write("p.pkl", "\x80\x02}q.")}), HasSubstr("is a pickle"));
  EXPECT_THAT(error_of_files({files.write("n.json", "")}), HasSubstr("is empty"));
  const std::string sound = kineto_trace(0, one_step());
  EXPECT_THAT(error_of_files({files.write("a.json", sound), files.write("b.json", sound)}),
              HasSubstr("rank 0 is in another file"));
  EXPECT_THAT(error_of_files({files.write("c.json", sound.substr(0, sound.size() / 2))}),
              HasSubstr("unexpected end of input"));
}

TEST(Kineto, SaysIfItsEndIsMissing) {
  const ProfileFiles files;
  const std::string trace = kineto_trace(0, one_step());
  const auto notes = [&](const std::string& text) {
    return read_files({files.write("r.json", text)}).profile.notes;
  };
  const auto end = testing::Contains(HasSubstr("ends without its last bracket"));
  EXPECT_THAT(notes(trace), Not(end));
  EXPECT_THAT(notes(trace.substr(0, trace.rfind(']'))), end);
}

TEST(Kineto, LeavesOutTimesThatAreNone) {
  const auto kernel = [](const std::string& begin, const std::string& length) {
    return R"({"ph": "X", "cat": "kernel", "name": "odd", "ts": )" + begin + R"(, "dur": )" +
           length + R"(, "args": {"device": 0, "stream": 7}})";
  };
  for (const auto& [begin, length] :
       {std::pair{"5", "NaN"}, std::pair{"5", "-5"}, std::pair{"5", "1e30"}, std::pair{"5", "null"},
        std::pair{"NaN", "5"}, std::pair{"null", "5"}, std::pair{"5", "\"4 us\""}}) {
    const ProfileFiles files;
    // As the first event, it must not become the origin of all times.
    const auto events = {kernel(begin, length), kineto_kernel("nvjet_x", 7, 1e9, 0)};
    const ReadProfile read = read_files({files.write("r.json", kineto_trace(0, events))});
    ASSERT_EQ(read.profile.ranks.at(0).kernels.size(), 1U) << begin << " " << length;
    EXPECT_EQ(read.profile.ranks[0].kernels[0].start, 0);
    EXPECT_THAT(read.profile.notes,
                testing::ElementsAre("leaves out 1 kernel whose times are not times, first 'odd'"));
    EXPECT_THAT(error_of_files({files.write("o.json", kineto_trace(0, {kernel(begin, length)}))}),
                HasSubstr("o.json: error: has no kernel with a valid start and length"));
  }
}

TEST(Kineto, KindsAreOfNamesUnlessTheyAreCopies) {
  const ProfileFiles files;
  const auto event = [](const char* category) {
    std::string text = kineto_kernel("nvjet_tst_1", 7, 10, 5);
    return text.replace(text.find("kernel"), 6, category);
  };
  std::string trace = kineto_trace(3, {event("kernel"), event("Kernel"), event("gpu_memset")});
  trace.replace(trace.find("distributedInfo"), 15, "other");
  const ReadProfile read = read_files({files.write("r.json", trace)});
  const ProfiledRank& rank = read.profile.ranks.at(0);
  EXPECT_EQ(rank.rank, 0) << "the first, as the trace does not say which";
  int copies = 0, products = 0;
  for (const ProfiledKernel& kernel : rank.kernels) {
    copies += kernel.kind == KernelKind::copy;
    products += kernel.kind == KernelKind::gemm;
  }
  EXPECT_EQ(copies, 1);
  EXPECT_EQ(products, 2);
  EXPECT_EQ(read.profile.bytes, std::ssize(trace));
}

TEST(Kineto, ReadsAmdAndWindowsLines) {
  std::string text = kineto_trace(0, {kineto_kernel("Cijk_Ailk_Bljk_SB", 0, 10, 5)});
  std::string with_returns;
  for (const char c : text) with_returns += c == '\n' ? "\r\n" : std::string(1, c);
  const ProfileFiles files;
  const ReadProfile read = read_files({files.write("r.json", with_returns)});
  EXPECT_EQ(read.profile.ranks[0].kernels.at(0).kind, KernelKind::gemm);
}

TEST(Kineto, HasAGpuPerDeviceAndTheNextRankPerFile) {
  const ProfileFiles files;
  const std::string other =
      R"({"ph": "X", "cat": "gpu_memcpy", "name": "copy", "pid": 1, "tid": 9, "ts": 12, "dur": 2})";
  const std::string both = files.write(
      "a.json", R"({"deviceProperties": [{"id": 1, "name": "B"}, {"id": 0, "name": "A"}], )"
                R"("traceEvents": [)" +
                    kineto_kernel("nvjet", 7, 10, 5) + "," + other + "]}");
  const std::string single =
      files.write("b.json", R"({"traceEvents": [)" + kineto_kernel("nvjet", 7, 30, 5) + "]}");
  const Profile profile = read_files({both, single}).profile;
  ASSERT_EQ(profile.ranks.size(), 3U);
  EXPECT_EQ(profile.ranks[0].gpu + profile.ranks[1].gpu + profile.ranks[2].gpu, "AB");
  EXPECT_EQ(profile.ranks[1].rank, 1);
  EXPECT_EQ(profile.ranks[1].kernels[0].kind, KernelKind::copy);
  EXPECT_EQ(profile.ranks[1].kernels[0].start, 2 * us);
  EXPECT_EQ(profile.ranks[2].rank, 2);
  EXPECT_EQ(profile.ranks[2].kernels[0].start, 20 * us) << "since the first file's first event";
}

/// A trace of a job on two of a host's GPUs, neither of which is the first.
TEST(Kineto, RanksOfOneFileAreItsDevices) {
  const ProfileFiles files;
  const auto copy = [](int device) {
    return fmt::format(
        R"({{"ph": "X", "cat": "gpu_memcpy", "name": "copy", "pid": {}, "tid": 9, "ts": 12, "dur": 2.5e2}})",
        device);
  };
  const Profile profile =
      read_files({files.write("a.json", R"({"traceEvents": [)" + copy(2) + "," + copy(5) + "]}")})
          .profile;
  ASSERT_EQ(profile.ranks.size(), 2U);
  EXPECT_EQ(profile.ranks[0].rank, 2);
  EXPECT_EQ(profile.ranks[1].rank, 5);
  EXPECT_EQ(profile.ranks[1].kernels[0].length, 250 * us);
}

TEST(Kineto, AddsTheEpochOfAFile) {
  const ProfileFiles files;
  const auto write = [&](const char* file, const char* epoch) {
    return files.write(file, fmt::format(R"({{"baseTimeNanoseconds": {}, "traceEvents": [{}]}})",
                                         epoch, kineto_kernel("nvjet", 7, 10, 5)));
  };
  const Profile near = read_files({write("a.json", "5000"), write("b.json", "8000")}).profile;
  EXPECT_EQ(near.ranks[1].kernels[0].start, 3 * us);
  const Profile far =
      read_files({write("a.json", "5000"), write("c.json", "2700000000000000000")}).profile;
  EXPECT_EQ(far.ranks[1].kernels[0].start, 0);
  EXPECT_THAT(far.notes, testing::Contains("traces were made months apart"));
}

TEST(Kineto, TakesStepsOfTheGpuWhereTheHostHasNone) {
  const ProfileFiles files;
  const auto step = [](const char* category, const char* name) {
    return fmt::format(R"({{"ph": "X", "cat": "{}", "name": "{}", "ts": 5, "dur": 9}})", category,
                       name);
  };
  const auto steps = [&](const std::vector<std::string>& events) {
    return read_files({files.write("a.json", kineto_trace(0, events))}).profile.ranks[0].steps;
  };
  const std::string kernel = kineto_kernel("nvjet", 7, 1, 5),
                    gpu = step("gpu_user_annotation", "ProfilerStep#1"),
                    host = step("user_annotation", "ProfilerStep#1");
  using Steps = std::vector<std::pair<ProfileTicks, ProfileTicks>>;
  EXPECT_EQ(steps({kernel, gpu}), (Steps{{4 * us, 13 * us}}));
  EXPECT_EQ(steps({kernel, gpu, gpu, host}).size(), 1U);
  EXPECT_TRUE(steps({kernel, step("user_annotation", "other")}).empty());
}

TEST(Kineto, FilesShareTheProgress) {
  const ProfileFiles files;
  const auto trace = [](int rank) { return kineto_trace(rank, {kineto_kernel("k", 7, 5, 1)}); };
  std::vector<double> parts;
  read_profile({files.write("a.json", trace(0)), files.write("b.json", trace(1))}, kernel_table({}),
               [&](double done) { parts.push_back(done); });
  EXPECT_TRUE(std::ranges::is_sorted(parts));
  EXPECT_EQ(parts.back(), 1);
}

TEST(Kineto, JoinsExchangesOfTheHost) {
  const ProfileFiles files;
  const std::string op =
      R"({"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "ts": 1, "dur": 1, "args": {"External id": 8, "Collective name": "_reduce_scatter_base", "In msg nelems": 10, "Out msg nelems": 5, "dtype": "Float", "Group size": 2}})";
  const ReadProfile read = read_files(
      {files.write("r.json", kineto_trace(0, {op, kineto_kernel("ncclDevKernel_ReduceScatter(x)", 7,
                                                                5, 1, ", \"External id\": 8")}))});
  const ProfiledRank& rank = read.profile.ranks[0];
  ASSERT_EQ(rank.exchanges.size(), 1U);
  EXPECT_EQ(rank.kernels[0].exchange, 0);
  EXPECT_EQ(rank.kernels[0].kind, KernelKind::reduce_scatter);
  EXPECT_EQ(rank.exchanges[0].in_bytes, 40);
  EXPECT_EQ(rank.exchanges[0].out_bytes, 20);
  EXPECT_GT(read.profile.bytes, static_cast<std::int64_t>(op.size()));
}

TEST(Kineto, JoinsShapesOfProducts) {
  const ProfileFiles files;
  const auto op = [](int number, int rows) {
    return fmt::format(
        R"({{"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "ts": 1, "dur": 1, "args": {{"External id": {}, "Input Dims": [[64], [{}, 16], [16, 64]], "Input type": ["c10::BFloat16", "c10::BFloat16", "c10::BFloat16"]}}}})",
        number, rows);
  };
  const ReadProfile read = read_files({files.write(
      "r.json",
      kineto_trace(0, {op(8, 32), op(9, 48), op(10, 32),
                       kineto_kernel("nvjet_tst_1", 7, 5, 1, ", \"External id\": 8"),
                       kineto_kernel("nvjet_tst_1", 7, 7, 1, ", \"External id\": 9"),
                       kineto_kernel("nvjet_tst_1", 7, 9, 1, ", \"External id\": 10")}))});
  const ProfiledRank& rank = read.profile.ranks[0];
  ASSERT_EQ(rank.kernels.size(), 3U);
  EXPECT_EQ(rank.shapes.size(), 2U) << "equal ones once";
  for (const int k : {0, 1, 2}) {
    const auto kernel = static_cast<std::size_t>(k);
    const WorkShape& shape = rank.shapes.at(static_cast<std::size_t>(rank.kernels[kernel].shape));
    EXPECT_EQ(shape,
              (WorkShape{std::nullopt, GroupedGemm{{k == 1 ? 48 : 32}, 64, 16, DataType::bf16}}));
  }
}

}  // namespace
}  // namespace moesim
