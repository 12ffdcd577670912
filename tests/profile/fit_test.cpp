// SPDX-License-Identifier: Apache-2.0
// Fits to profiles of known machines give the machines back.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sim/profile/fit_text.h"
#include "sim/profile/profile_fit.h"
#include "tests/profile/files.h"

namespace moesim {
namespace {

/// Kernels one after the other on one rank.
class MadeProfile {
 public:
  MadeProfile() {
    profile_.kernel_names = {"kernel"};
    profile_.groups = {"group"};
    profile_.ranks.emplace_back().streams = {"7", "27"};
  }
  ProfiledRank& rank() { return profile_.ranks[0]; }
  const Profile& profile() const { return profile_; }

  /// Returns where the kernel begins.
  ProfileTicks work(const WorkShape& shape, double microseconds) {
    rank().shapes.push_back(shape);
    ProfiledKernel kernel;
    kernel.start = now_;
    kernel.length = static_cast<ProfileTicks>(microseconds * us);
    kernel.kind = KernelKind::gemm;
    kernel.shape = static_cast<std::int32_t>(rank().shapes.size() - 1);
    rank().kernels.push_back(kernel);
    now_ = kernel.end() + us;
    return kernel.start;
  }
  void exchange(ProfileTicks begin, double microseconds, std::int64_t bytes) {
    ExchangeFacts facts;
    facts.link = "nvlink";
    facts.link_bytes = bytes;
    facts.waiting = 0;
    rank().exchanges.push_back(facts);
    ProfiledKernel kernel;
    kernel.start = begin;
    kernel.length = static_cast<ProfileTicks>(microseconds * us);
    kernel.kind = KernelKind::all_to_all;
    kernel.stream = 1;
    kernel.exchange = static_cast<std::int32_t>(rank().exchanges.size() - 1);
    rank().kernels.push_back(kernel);
    now_ = std::max(now_, kernel.end() + us);
  }
  ProfileTicks now() const { return now_; }

 private:
  Profile profile_;
  ProfileTicks now_ = 0;
};

WorkShape product(std::vector<std::int64_t> m, OpKind kind = OpKind::dense_fc1) {
  return {OpType{kind}, GroupedGemm{std::move(m), 1024, 512, DataType::bf16}};
}

const char* const made_gpu =
    "name: made\ndescription: d\nsource: s\ndie: made\nmemory: 80 GB\nmemory_bandwidth: 1 TB/s\n"
    "peak:  # comment\n  bf16: 100 TFLOP/s\nefficiency:\n  gemm: 1\n  memory: 1\n"
    "launch_overhead: 0 us\n";

TEST(ProfileFit, TablesHoldTheTimes) {
  MadeProfile made;
  for (const std::int64_t m : {100, 200, 400, 800})
    made.work(product({m}), 5 + 0.1 * static_cast<double>(m));
  const KernelTables tables = tables_of(shape_times(made.profile()), 1);
  ASSERT_EQ(tables.gemm.size(), 1U);
  EXPECT_NEAR(tables.gemm[0].time(1, 200).value, 25e-6, 1e-12);
  EXPECT_NEAR(tables.gemm[0].time(1, 283).value, 33.3e-6, 1e-6);
  EXPECT_EQ(fit_profile(made.profile(), parse_gpu_model(made_gpu, "made"), {}).shapes, 4);
}

TEST(ProfileFit, UnevenGroupsTakeTheLineThroughTheirSums) {
  // 2 us and 10 ns a row, whatever the groups have.
  MadeProfile made;
  const std::vector<std::vector<std::int64_t>> all = {
      {1000, 10}, {400, 900}, {30, 3000}, {2500, 2400}};
  const auto time_of = [](const std::vector<std::int64_t>& m) {
    return 2 + 0.01 * static_cast<double>(m[0] + m[1]);
  };
  for (const auto& m : all) made.work(product(m, OpKind::fc1), time_of(m));
  const KernelTables tables = tables_of(shape_times(made.profile()), 1);
  for (const auto& m : all) {
    EXPECT_NEAR(tables.gemm.at(0).time(m).value / (time_of(m) * 1e-6), 1, 0.01);
  }
}

TEST(ProfileFit, SmallerBatchesTakeLess) {
  // Times that do not ascend are noise: the larger size does not take less.
  MadeProfile made;
  for (const auto& [bytes, time] : {std::pair(1000000, 11.0), {1200000, 9.0}, {1400000, 14.0}}) {
    made.work({OpType{OpKind::activation}, MemoryBound{Bytes(bytes), Bytes(0)}}, time);
  }
  const TimeCurve curve = tables_of(shape_times(made.profile()), 1).memory_bound.at(0).bytes;
  EXPECT_EQ(curve.at(1000000), curve.at(1200000));
  EXPECT_NEAR(curve.at(500000).value, 5e-6, 0.5e-6);
  EXPECT_NEAR(curve.at(1400000).value, 14e-6, 1e-9);
  EXPECT_EQ(curve.at(125000), curve.at(1000));
}

TEST(ProfileFit, FindsTheSlowDownNextToExchanges) {
  MadeProfile made;
  made.work(product({100}), 10);
  ProfiledRank& rank = made.rank();
  const ProfileTicks begin = made.work(product({100}), 13);
  rank.kernels.back().shape = rank.kernels.front().shape;
  made.exchange(begin - us / 2, 15, 1 << 20);
  const SlowDown slow = kernel_slowdown(shape_times(made.profile()));
  EXPECT_EQ(slow.shapes, 1);
  EXPECT_NEAR(slow.factor, 1.3, 1e-9);
}

TEST(ProfileFit, FindsTheKeptRate) {
  // 2 x 4096 x 1024 x 512 flop take 42.9 us at the peak.
  const GpuModel gpu = parse_gpu_model(made_gpu, "made");
  MadeProfile made;
  made.work(product({4096}), 42.949 / 0.6);
  const auto kept = kept_rates(shape_times(made.profile()), 1, gpu, false);
  EXPECT_NEAR(kept.at(DataType::bf16).kept, 0.6, 1e-4);
}

TEST(ProfileFit, FitsLinks) {
  MadeProfile made;
  for (int i = 10; i < 28; ++i) {
    const double bytes = std::exp2(i);
    made.exchange(made.now(), 5 + bytes / 100e9 * 1e6, std::int64_t{1} << i);
  }
  const GpuModel gpu = parse_gpu_model(made_gpu, "made");
  const ProfileFit fit = fit_profile(made.profile(), gpu, {});
  ASSERT_EQ(fit.links.size(), 1U);
  EXPECT_EQ(fit.links[0].name, "nvlink");
  EXPECT_TRUE(fit.links[0].of_class);
  const LinkFit& link = fit.links[0].calibrated.fit;
  EXPECT_NEAR(link.fixed.value, 5e-6, 0.1e-6);
  for (const double bytes : {1e6, 3e7}) {
    const Seconds time = link.fixed + link.table().time(Bytes(static_cast<std::int64_t>(bytes)));
    EXPECT_NEAR(time.value / (5e-6 + bytes / 100e9), 1, 0.01);
  }
  EXPECT_TRUE(fit.links[0].calibrated.held.has_value());
}

TEST(ProfileFit, ExchangesOfOneSizeGiveARate) {
  MadeProfile made;
  for (int i = 0; i < 9; ++i) {  // 1 MB to 1.4 MB at 100 GB/s
    const double bytes = 1e6 + 5e4 * i;
    made.exchange(made.now(), bytes / 100e9 * 1e6, std::llround(bytes));
  }
  const ProfileFit fit = fit_profile(made.profile(), parse_gpu_model(made_gpu, "made"), {});
  ASSERT_EQ(fit.links.size(), 1U);
  const LinkFit& link = fit.links[0].calibrated.fit;
  EXPECT_EQ(link.fixed.value, 0);
  for (const std::int64_t bytes : {1000, 1'200'000, 1 << 30}) {
    EXPECT_NEAR(link.table().time(Bytes(bytes)).value / (static_cast<double>(bytes) / 100e9), 1,
                1e-4);
  }
  const std::string text = calibration_yaml(fit.links[0].calibrated, {"one", "", {}});
  EXPECT_NE(text.find("latency: 0 us  # not measured"), std::string::npos) << text;
  // Times that hardly grow tell none.
  MadeProfile flat;
  for (int i = 10; i < 20; ++i) flat.exchange(flat.now(), 5, std::int64_t{1} << i);
  const ProfileFit none = fit_profile(flat.profile(), parse_gpu_model(made_gpu, "made"), {});
  EXPECT_TRUE(none.links.empty());
  EXPECT_THAT(none.notes, testing::Contains(testing::HasSubstr("nvlink: ")));
}

TEST(ProfileFit, FindsTheHostsTimePerKernel) {
  MadeProfile made;
  for (int i = 0; i < 10; ++i) {
    ProfiledKernel kernel;
    kernel.launch = i * 20 * us;
    kernel.start = kernel.launch + 2 * us;
    kernel.length = 5 * us;
    made.rank().kernels.push_back(kernel);
  }
  const ProfileFit fit = fit_profile(made.profile(), parse_gpu_model(made_gpu, "made"), {});
  EXPECT_NEAR(fit.per_kernel.value, 20e-6, 1e-12);
}

TEST(ProfileFit, CountsLaunchesThatAGpuWaitedFor) {
  MadeProfile made;
  const auto launched = [&](ProfileTicks launch, ProfileTicks start, ProfileTicks length) {
    ProfiledKernel kernel;
    kernel.launch = launch;
    kernel.start = start;
    kernel.length = length;
    made.rank().kernels.push_back(kernel);
  };
  launched(0, 2 * us, 3 * us);
  launched(5 * us, 6 * us, 10 * us);   // 5 us later, as the GPU has ended
  launched(15 * us, 17 * us, us);      // it is busy
  launched(15 * us, 19 * us, us);      // launched together
  launched(1014 * us, 1015 * us, us);  // 999 us later
  launched(2014 * us, 2015 * us, us);  // a millisecond later: the host did other things
  launched(-1, 2020 * us, us);
  launched(2030 * us, 2031 * us, us);
  const ProfileFit fit = fit_profile(made.profile(), parse_gpu_model(made_gpu, "made"), {});
  EXPECT_EQ(fit.launches, 2);
  EXPECT_NEAR(fit.per_kernel.value, 999e-6, 1e-12) << "the upper of both";
}

TEST(LinkSamples, AreOfTheQuickerHalfInsideAHostOrBetweenHosts) {
  MadeProfile made;
  const auto exchange = [&](int ranks, double microseconds, std::int64_t bytes = 1600) {
    made.exchange(made.now(), microseconds, 0);
    ExchangeFacts& facts = made.rank().exchanges.back();
    facts = {};
    facts.ranks = ranks;
    facts.in_bytes = bytes;
    facts.out_bytes = 800;
  };
  for (const double microseconds : {30, 10, 20}) exchange(8, microseconds);
  for (const double microseconds : {60, 50, 40}) exchange(8, microseconds, 3200);
  exchange(16, 40);
  exchange(1, 40);
  const auto samples = link_samples(made.profile(), {});
  ASSERT_EQ(samples.size(), 2U);
  const auto& inside = samples.at("host-all-to-all-8");
  ASSERT_EQ(inside.size(), 4U) << "of three and three";
  EXPECT_EQ(inside[0].bytes, Bytes(1400));  // 7/8
  EXPECT_NEAR(inside[0].time.value, 10e-6, 1e-12);
  EXPECT_NEAR(inside[1].time.value, 20e-6, 1e-12);
  EXPECT_EQ(inside[2].bytes, Bytes(2800));
  EXPECT_NEAR(inside[2].time.value, 40e-6, 1e-12);
  EXPECT_NEAR(inside[3].time.value, 50e-6, 1e-12);
  const auto& between = samples.at("fabric-all-to-all-16");
  ASSERT_EQ(between.size(), 1U);
  EXPECT_EQ(between[0].bytes, Bytes(800));  // half of a rank's bytes leave its host
  EXPECT_EQ(link_samples(made.profile(), {.gpus_per_host = 4}).count("fabric-all-to-all-8"), 1U);
}

TEST(LinkSamples, AreOfExchangesThatNoOtherOverlaps) {
  MadeProfile made;
  made.exchange(0, 10, 100);
  made.exchange(10 * us, 10, 100);  // begins as the other ends
  made.exchange(40 * us, 10, 100);
  made.exchange(45 * us, 20, 100);
  made.exchange(50 * us, 5, 100);
  made.exchange(60 * us, 10, 100);
  made.exchange(80 * us, 10, 100);
  EXPECT_EQ(link_samples(made.profile(), {}).at("nvlink").size(), 3U);
}

TEST(ProfileFit, KnowsWhetherItFitsAnything) {
  const GpuModel gpu = parse_gpu_model(made_gpu, "made");
  MadeProfile made;
  EXPECT_FALSE(fit_profile(made.profile(), gpu, {}).fits_anything());
  made.work(product({4096}), 80);
  const ProfileFit fit = fit_profile(made.profile(), gpu, {});
  EXPECT_TRUE(fit.fits_anything());
  const auto cluster = [&](bool given) {
    return fitted_files(
               fit, {"mine", "command", "made", made_gpu, "made", "ideal", Seconds(2e-6), given})[2]
        .text;
  };
  EXPECT_NE(cluster(true).find("exchange_overhead: 2 us  # given"), std::string::npos);
  EXPECT_NE(cluster(false).find("exchange_overhead: 2 us  # not measured"), std::string::npos);
}

TEST(ProfileFit, WritesFilesThatAreRead) {
  MadeProfile made;
  made.work(product({4096}), 80);
  made.work({OpType{OpKind::norm}, MemoryBound{Bytes(1 << 20), Bytes(0)}}, 3);
  const ProfileFit fit = fit_profile(made.profile(), parse_gpu_model(made_gpu, "made"), {});
  const auto files =
      fitted_files(fit, {"mine", "command", "made", made_gpu, "made", "ideal", Seconds(0)});
  ASSERT_EQ(files[0].ending, ".gpu.yaml");
  const GpuModel mine = parse_gpu_model(files[0].text, "mine");
  EXPECT_EQ(mine.name, "mine");
  EXPECT_NEAR(mine.time(GroupedGemm{{4096}, 1024, 512, DataType::bf16}, {OpKind::dense_fc1}).value,
              80e-6, 1e-9);
  EXPECT_NEAR(mine.time(MemoryBound{Bytes(1 << 19), Bytes(1 << 19)}, {OpKind::norm}).value, 3e-6,
              1e-10);
  EXPECT_NEAR(mine.training.at(DataType::bf16), 42.949 / 80, 1e-4);
}

std::string gpu_file_of(const ProfileFit& fit, const std::string& base) {
  return fitted_files(fit, {"mine", "command", "made", base, "made", "ideal", Seconds(0)})[0].text;
}

TEST(FittedGpu, KeepsTheOtherRatesOfItsBase) {
  ProfileFit fit;
  fit.kept[DataType::bf16].kept = 0.5;
  EXPECT_NE(gpu_file_of(fit, "x: 1\nefficiency:\n  gemm: 1\n")
                .find("efficiency:\n  training: {bf16: 0.5000}  # measured; of the base's own "
                      "rates\n  gemm: 1\n"),
            std::string::npos);
  const std::string base = "x: 1\nefficiency: {gemm: 1}  # {\n";
  EXPECT_NE(gpu_file_of(fit, base).find("efficiency: {training: {bf16: 0.5000}, gemm: 1}  # {\n"),
            std::string::npos);
  EXPECT_NE(gpu_file_of(fit, "x: 1\nefficiency:  # {\n  gemm: 1\n")
                .find("efficiency:  # {\n  training: "),
            std::string::npos);
  EXPECT_NE(gpu_file_of(fit, "x: 1\n").find("x: 1\nefficiency:\n  training: "), std::string::npos);
  fit.kept_attention[DataType::bf16].kept = 0.25;
  EXPECT_NE(gpu_file_of(fit, base).find("bf16: 0.2500"), std::string::npos);
}

TEST(FittedGpu, ReplacesTheOverlapThatWasMeasured) {
  ProfileFit fit;
  EXPECT_NE(gpu_file_of(fit, "overlap: {compute: 2}\n").find("overlap: {compute: 2}"),
            std::string::npos);
  fit.slowdown.shapes = 1;
  fit.slowdown.factor = 1.25;
  const std::string text = gpu_file_of(fit, "overlap: {compute: 2}\n");
  EXPECT_EQ(text.find("overlap: {compute: 2}"), std::string::npos);
  EXPECT_NE(text.find("overlap: {compute: 1.2500}  # measured; 1 shapes"), std::string::npos);
}

TEST(WithoutKeys, DropsBlocks) {
  EXPECT_EQ(without_keys("a: 1\nb:\n  - x\n\n  c: 2\nbb: 3\n", {"b"}), "a: 1\nbb: 3\n");
  EXPECT_EQ(without_keys("#b:\n\na: 1\nb: {\n- x\n# y\nc: 2", {"b"}), "#b:\n\na: 1\n# y\nc: 2\n");
}

}  // namespace
}  // namespace moesim
