// SPDX-License-Identifier: Apache-2.0
// Which times of kernels count, and what tables make of them.
#include "sim/profile/kernel_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/profile/clocks.h"
#include "sim/profile/fit_text.h"
#include "sim/profile/kineto_args.h"
#include "sim/profile/profile_fit.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr ProfileTicks tick_us = 1'000'000;

struct Span {
  int begin = 0, end = 0, waiting = 0;
};

/// Times of a kernel from 0 to 100 us next to exchanges: (alone, next to one).
std::pair<std::size_t, std::size_t> counted_with(const std::vector<Span>& exchanges) {
  Profile profile;
  ProfiledRank& rank = profile.ranks.emplace_back();
  rank.shapes.push_back({{}, MemoryBound{Bytes(8), Bytes(0)}});
  for (const Span& span : exchanges) {
    ProfiledKernel kernel;
    kernel.start = span.begin * tick_us;
    kernel.length = (span.end - span.begin) * tick_us;
    kernel.kind = KernelKind::all_reduce;
    kernel.exchange = static_cast<std::int32_t>(rank.exchanges.size());
    rank.exchanges.emplace_back().waiting = span.waiting * tick_us;
    rank.kernels.push_back(kernel);
  }
  ProfiledKernel work;
  work.length = 100 * tick_us;
  work.shape = 0;
  rank.kernels.push_back(work);
  const std::vector<ShapeTimes> times = shape_times(profile);
  return times.empty() ? std::pair<std::size_t, std::size_t>()
                       : std::pair(times[0].alone.size(), times[0].next_to.size());
}

TEST(ShapeTime, CountsAloneOrNextToExchangesForNineTenths) {
  using Counts = std::pair<std::size_t, std::size_t>;
  EXPECT_EQ(counted_with({}), Counts(1, 0));
  EXPECT_EQ(counted_with({{-50, 0}, {100, 120}}), Counts(1, 0));
  EXPECT_EQ(counted_with({{-50, 1}}), Counts(0, 0));
  EXPECT_EQ(counted_with({{0, 45}, {55, 100}}), Counts(0, 1));
  EXPECT_EQ(counted_with({{0, 44}, {55, 100}}), Counts(0, 0));
  EXPECT_EQ(counted_with({{-9, 60}, {20, 40}, {30, 130}}), Counts(0, 1));
  EXPECT_EQ(counted_with({{0, 100, 10}}), Counts(0, 1));
  EXPECT_EQ(counted_with({{0, 100, 11}}), Counts(0, 0)) << "it moves nothing while it waits";
}

TEST(ShapeTime, IsOfShapesThatHaveKernels) {
  Profile profile;
  ProfiledRank& rank = profile.ranks.emplace_back();
  for (const int bytes : {8, 16, 24}) rank.shapes.push_back({{}, MemoryBound{Bytes(bytes), {}}});
  for (const int shape : {2, 1, 1}) {
    ProfiledKernel kernel;
    kernel.length = tick_us;
    kernel.shape = shape;
    rank.kernels.push_back(kernel);
  }
  const std::vector<ShapeTimes> times = shape_times(profile);
  ASSERT_EQ(times.size(), 2U);
  EXPECT_EQ(times[0].alone.size(), 2U);
  EXPECT_EQ(times[1].alone.size(), 1U);
}

TEST(ShapeTime, IsTheMedianAloneElseNextToOthers) {
  EXPECT_EQ((ShapeTimes{{}, {3, 1, 2}, {9}}).time(2), Seconds(2));
  EXPECT_EQ((ShapeTimes{{}, {}, {6, 8, 4}}).time(2), Seconds(3));
  EXPECT_EQ(kernel_slowdown({{{}, {2}, {3}}, {{}, {2}, {}}, {{}, {}, {9}}}).factor, 1.5);
  EXPECT_EQ(kernel_slowdown({{{}, {2}, {1}}}).factor, 1) << "none are quicker";
  EXPECT_EQ(kernel_slowdown({{{}, {2}, {}}}).shapes, 0);
  EXPECT_EQ(kernel_slowdown({{{}, {2}, {}}, {{}, {2}, {3}}}).shapes, 1);
}

ShapeTimes moving(std::int64_t bytes, double microseconds) {
  return {{OpType{OpKind::norm}, MemoryBound{Bytes(bytes), Bytes(0)}}, {microseconds * 1e-6}, {}};
}

TEST(MemoryTables, AreExtendedByTheirLineIfItTellsALaunch) {
  // 10 us and 2 ns a byte.
  const TimeCurve line =
      tables_of({moving(1000, 12), moving(2000, 14)}, 1).memory_bound.at(0).bytes;
  EXPECT_NEAR(line.at(500).value, 11e-6, 1e-15);
  EXPECT_NEAR(line.at(250).value, 10.5e-6, 1e-15);
  EXPECT_NEAR(line.at(125).value, 10.25e-6, 1e-15);
  const TimeCurve near =
      tables_of({moving(1000, 12), moving(1999, 14)}, 1).memory_bound.at(0).bytes;
  EXPECT_NEAR(near.at(500).value, 6e-6, 1e-15) << "in proportion";
}

ShapeTimes multiplying(std::vector<std::int64_t> rows, double microseconds, std::int64_t n = 1024,
                       std::int64_t k = 512, DataType type = DataType::bf16) {
  return {
      {OpType{OpKind::fc1}, GroupedGemm{std::move(rows), n, k, type}}, {microseconds * 1e-6}, {}};
}

TEST(ProductTables, AreOfOneProductWithACurveForEachNumberOfGroups) {
  const ShapeTimes no_op{{{}, MemoryBound{Bytes(8), Bytes(0)}}, {1e-6}, {}};
  const KernelTables tables =
      tables_of({no_op, moving(0, 5), moving(8, 0), multiplying({64}, 9), multiplying({64, 64}, 9),
                 multiplying({0, 0}, 9), multiplying({64}, 9, 1024, 512, DataType::fp8),
                 multiplying({64}, 9, 1024, 1024), multiplying({64}, 9, 2048, 1024)},
                1);
  EXPECT_EQ(tables.memory_bound.size(), 1U) << "what moves nothing or takes no time is left out";
  ASSERT_EQ(tables.gemm.size(), 4U);
  std::size_t groups = 0;
  for (const auto& table : tables.gemm) groups = std::max(groups, table.groups.size());
  EXPECT_EQ(groups, 2U);
}

TEST(ProductTables, OfSeveralGroupsAreExtendedByTheirLine) {
  // 10 us and 1 us a row of a group.
  const auto curve_of = [](const std::vector<ShapeTimes>& times) {
    return tables_of(times, 1).gemm.at(0).groups.at(2);
  };
  const TimeCurve line = curve_of({multiplying({64, 64}, 74), multiplying({128, 128}, 138)});
  EXPECT_NEAR(line.at(1).value, 11e-6, 1e-12);
  EXPECT_NEAR(line.at(32).value, 42e-6, 1e-12);
  EXPECT_NEAR(line.at(64 * 128).value, (10 + 64 * 128) * 1e-6, 1e-12);
  const TimeCurve one = curve_of({multiplying({64, 64}, 64), multiplying({64, 64}, 64)});
  EXPECT_NEAR(one.at(128).value, 128e-6, 1e-12) << "in proportion";
  EXPECT_NEAR(one.at(16).value, 16e-6, 1e-12);
}

TEST(ProfileFit, SaysIfNoKernelHasAShape) {
  const GpuModel gpu;
  Profile profile;
  profile.ranks.emplace_back();
  EXPECT_THAT(fit_profile(profile, gpu, {}).notes,
              testing::Contains(HasSubstr("no kernel has a shape")));
  ProfiledKernel kernel;
  kernel.length = 50 * tick_us;
  kernel.shape = 0;
  profile.ranks[0].shapes = {moving(1000, 1).shape};
  profile.ranks[0].kernels = {kernel};
  EXPECT_THAT(fit_profile(profile, gpu, {}).notes,
              testing::Not(testing::Contains(HasSubstr("no kernel has a shape"))));
}

TEST(HeldOut, SizesArePredictedByTheOthers) {
  // 10 ns a byte, but for the third size.
  const TableErrors two = held_out_errors(
      {moving(1000, 10), moving(2000, 20), moving(4000, 50), moving(8000, 80)}, 1, 2);
  EXPECT_EQ(two.held, 2);
  EXPECT_NEAR(two.worst, 0.2, 1e-9);
  EXPECT_NEAR(two.typical, 0.2, 1e-9);
  // Every third size is held out alone: the one behind a wild size is predicted by it.
  std::vector<ShapeTimes> six;
  for (int i = 0; i < 6; ++i) six.push_back(moving(1000 << i, (i == 1 ? 20 : 10) << i));
  const TableErrors three = held_out_errors(six, 1, 3);
  EXPECT_EQ(three.held, 4);
  EXPECT_NEAR(three.worst, 0.5, 1e-9);
  EXPECT_GT(three.typical, 0.1);
  EXPECT_EQ(held_out_errors({moving(1000, 10), moving(2000, 20)}, 1, 2).held, 0);
}

TEST(KeptRates, LeaveOutWhatIsShortOrAWeightGradient) {
  const GpuModel gpu = parse_gpu_model(
      "name: made\ndescription: d\nsource: s\ndie: made\nmemory: 80 GB\nmemory_bandwidth: 1 TB/s\n"
      "peak: {bf16: 100 TFLOP/s}\nefficiency: {gemm: 1, memory: 1}\nlaunch_overhead: 0 us\n",
      "made");
  const auto product = [](OpType op, double microseconds, DataType type = DataType::bf16) {
    return ShapeTimes{{op, GroupedGemm{{4096}, 1024, 512, type}}, {microseconds * 1e-6}, {}};
  };
  OpType weights{OpKind::dense_fc1};
  weights.role = Role::wgrad;
  // 2 x 4096 x 1024 x 512 flop take 42.949673 us at the peak.
  const auto kept =
      kept_rates({product({OpKind::dense_fc1}, 19.9), moving(1000, 50), product(weights, 100),
                  product({OpKind::dense_fc1}, 100, DataType::fp8),
                  product({OpKind::dense_fc1}, 42.949673 * 2)},
                 1, gpu, false);
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_EQ(kept.at(DataType::bf16).shapes, 1);
  EXPECT_NEAR(kept.at(DataType::bf16).kept, 0.5, 1e-6);
  EXPECT_TRUE(kept_rates({product({OpKind::dense_fc1}, 100)}, 1, gpu, true).empty());
}

TEST(FitReport, SaysWhatWasFitted) {
  ProfileFit fit;
  FitText text;
  text.gpu = "made";
  EXPECT_EQ(fit_report(fit, text).text(),
            "kernels: 0 shapes, 0 tables of products, 0 of memory-bound ops\n");
  fit.slowdown = {1.25, 1};
  fit.launches = 1;
  fit.per_kernel = Seconds(20e-6);
  EXPECT_THAT(fit_report(fit, text).text(), HasSubstr(" 1.250 times as long (1 shape"));
  EXPECT_THAT(fit_report(fit, text).text(), HasSubstr(" per kernel (1 launch"));
  fit.kept[DataType::bf16] = {0.5, 3};
  fit.slowdown = {1.25, 2};
  fit.launches = 4;
  fit.per_kernel = Seconds(20e-6);
  fit.notes = {"why"};
  const std::string all = fit_report(fit, text).text();
  EXPECT_THAT(all, HasSubstr("\nproducts in bf16: 0.500 of the rates of made (3 shapes)\n"
                             "kernels during exchanges take 1.250 times as long (2 shapes)\n"));
  EXPECT_THAT(all, HasSubstr(" per kernel (4 launches that a GPU waited for)\nnote: why\n"));
}

TEST(StatedWaiting, IsThatOfEachKernel) {
  Profile profile;
  ProfiledRank& rank = profile.ranks.emplace_back();
  for (const ProfileTicks waiting : {3, 9}) {
    ProfiledKernel kernel;
    kernel.length = 5;
    kernel.exchange = static_cast<std::int32_t>(rank.exchanges.size());
    kernel.kind = KernelKind::send_recv;
    rank.exchanges.emplace_back().waiting = waiting;
    rank.kernels.push_back(kernel);
  }
  rank.kernels.emplace_back();
  EXPECT_THAT(waits_of(profile).at(0), ElementsAre(3, 5, 0)) << "at most its length";
}

TEST(ExchangeMetadata, NamesGroupsByPlainLetters) {
  Profile profile;
  const auto group = [&](const std::string& description) {
    const std::string text = R"({"args": {"Process Group Description": ")" + description +
                             R"(", "Process Group Name": "5", "Process Group Ranks": "[0, 1]"}})";
    return profile.groups[exchange_facts(flat_object(text), profile).second.group];
  };
  EXPECT_EQ(group("azAZ09_- /!."), "azAZ09_- : 0-1");
  EXPECT_EQ(group("undefined"), "group 5: 0-1");
  EXPECT_EQ(group(""), "group 5: 0-1");
  EXPECT_EQ(group(std::string(70, 'x')), std::string(60, 'x') + ": 0-1");
}

}  // namespace
}  // namespace moesim
