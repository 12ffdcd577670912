// SPDX-License-Identifier: Apache-2.0
// Fits find what made the times, whatever a few of them say.
#include "sim/linkfit/link_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/temporary_folder.h"
#include "sim/linkfit/calibration_text.h"
#include "sim/linkfit/logs/read_log.h"
#include "sim/linkfit/noted_rates.h"
#include "sim/topology/read/calibration_reader.h"
#include "tests/error_of.h"
#include "tests/linkfit/golden.h"

namespace moesim {
namespace {

double exact(double bytes) { return 10e-6 + bytes / (50e9 * bytes / (bytes + 1e6)); }

std::vector<Sample> samples(int runs) {
  std::vector<Sample> list;
  for (int run = 0; run < runs; ++run) {
    for (int k = 10; k <= 30; ++k) {
      const auto bytes = std::int64_t{1} << k;
      const double wobble = 1 + 0.004 * ((k * 7 + run * 3) % 5 - 2);
      list.push_back({Bytes(bytes), Seconds(exact(static_cast<double>(bytes)) * wobble)});
    }
  }
  return list;
}

double error_at(const LinkFit& fit, double bytes) {
  const Bytes size(std::llround(bytes));
  return (fit.fixed + fit.table().time(size)).value / exact(bytes) - 1;
}

// Here time = 10 us + (bytes + 1 MB) / 50 GB/s, so that the fixed time is 30 us.
TEST(LinkFit, FindsFixedTimeAndRates) {
  const LinkFit fit = fit_link(samples(5));
  EXPECT_NEAR(fit.fixed.value, 30e-6, 0.5e-6);
  EXPECT_NEAR(fit.knots.back().point.rate.value, 50e9, 0.5e9);
  for (double bytes = 1e3; bytes < 1e9; bytes *= 1.7) EXPECT_NEAR(error_at(fit, bytes), 0, 0.03);
  EXPECT_EQ(fit.rejected, 0);
  EXPECT_LT(fit.worst(), 0.03);
  EXPECT_EQ(fit.left_out().size(), fit.knots.size() - 2);
  for (const double error : fit.left_out()) EXPECT_NEAR(error, 0, 0.03);
}

TEST(LinkFit, SaysThatRunsDiffer) {
  std::vector<Sample> list = samples(1);
  for (const Sample& s : samples(1)) list.push_back({s.bytes, s.time * 1.5});
  const std::string said = error_of([&] { fit_link(list); });
  EXPECT_NE(said.find("times of 21 of 21 sizes differ between runs, by 50 % at"), said.npos)
      << said;
}

// Flat up to 8 MiB, where a nanosecond is all that the bytes seem to take.
TEST(LinkFit, NotesRatesThatNoLinkHas) {
  LinkFit fit;
  fit.fixed = Seconds(50e-6);
  fit.knots = {{{Bytes(8 << 20), BytesPerSecond(2e13)}}, {{Bytes(1 << 24), BytesPerSecond(4e11)}}};
  Log log;
  log.gpu = "NVIDIA H100 80GB HBM3";
  note_rates(fit, "", log);
  ASSERT_EQ(log.notes.size(), 1u);
  EXPECT_EQ(log.notes[0],
            "rates up to 20000 GB/s, at 8.389 MB, are more than such a link has (450 GB/s): times "
            "next to the fixed 50 us tell no rate, or the link is another");
  fit.knots.erase(fit.knots.begin());
  note_rates(fit, "", log);
  EXPECT_EQ(log.notes.size(), 1u) << "400 GB/s";
  note_rates(fit, "200 GB/s", log);
  EXPECT_EQ(log.notes.size(), 2u);
  log.reach = LinkReach::fabric;
  note_rates(fit, "", log);
  EXPECT_EQ(log.notes.size(), 3u) << "a NIC has 100 GB/s";
}

// 9 us and 1 us a byte, up to twice the quickest time; larger ones take more.
TEST(LinkFit, TakesTheFixedTimeOfAtLeastThreeSmallSizes) {
  std::vector<Sample> list;
  for (const auto& [bytes, time] : {std::pair(1, 10), std::pair(2, 11), std::pair(3, 12),
                                    std::pair(4, 40), std::pair(8, 80), std::pair(16, 160)}) {
    list.push_back({Bytes(bytes), Seconds(time * 1e-6)});
  }
  EXPECT_NEAR(fit_link(list).fixed.value, 9e-6, 1e-12);
}

// The line goes through two of three sizes, so that most deviations from it are none.
TEST(LinkFit, FewSizesTellNoIntervalOfTheFixedTime) {
  std::vector<Sample> list;
  for (const auto& [bytes, time] :
       {std::pair(1'000, 10.0), std::pair(20'000, 11.2), std::pair(40'000, 12.1),
        std::pair(1'000'000, 60.0), std::pair(8'000'000, 400.0)}) {
    list.push_back({Bytes(bytes), Seconds(time * 1e-6)});
  }
  const auto texts = [](const LinkFit& fit) {
    const Calibrated result{fit, {}, {Log{}}};
    return calibration_report(result, {}) + calibration_yaml(result, {"name", "", {}});
  };
  const LinkFit few = fit_link(list);
  EXPECT_FALSE(few.fixed_spread.has_value());
  EXPECT_EQ(texts(few).find("us +-"), std::string::npos) << texts(few);
  EXPECT_EQ(texts(few).find("fixed_time_95"), std::string::npos);
  list.push_back({Bytes(60'000), Seconds(13.5e-6)});
  list.push_back({Bytes(80'000), Seconds(14.1e-6)});
  const LinkFit more = fit_link(list);
  EXPECT_GT(more.fixed_spread.value(), Seconds(0));
  EXPECT_NE(texts(more).find(" us +- "), std::string::npos);
  EXPECT_NE(texts(more).find("fixed_time_95: "), std::string::npos);
}

TEST(LinkFit, PointsLeftOutTellACornerOfTheCurve) {
  LinkFit fit;
  fit.knots = {{{Bytes(100), BytesPerSecond(100)}},
               {{Bytes(200), BytesPerSecond(100)}},
               {{Bytes(300), BytesPerSecond(50)}}};
  EXPECT_NEAR(fit.left_out().at(0), 3.5 / 2 - 1, 1e-12);
}

TEST(LinkFit, RejectsOutliersAmongRuns) {
  std::vector<Sample> list = samples(5);
  for (std::size_t i = 0; i < 21; i += 2) list[i].time = list[i].time * 20.0;  // of the first run
  const LinkFit fit = fit_link(list);
  EXPECT_EQ(fit.rejected, 11);
  for (double bytes = 1e3; bytes < 1e9; bytes *= 1.7) EXPECT_NEAR(error_at(fit, bytes), 0, 0.03);
}

TEST(LinkFit, OneWildSmallSizeDoesNotMoveTheFixedTime) {
  std::vector<Sample> list = samples(1);
  list[3].time = list[3].time * 10.0;
  EXPECT_NEAR(fit_link(list).fixed.value, 30e-6, 1e-6);
}

TEST(LinkFit, TimesAscendWhateverWasMeasured) {
  std::vector<Sample> list = samples(1);
  std::swap(list[15].time, list[17].time);
  std::swap(list[18].time, list[19].time);
  const LinkFit fit = fit_link(list);  // its table would throw
  for (std::size_t i = 1; i < fit.knots.size(); ++i) {
    EXPECT_GE(fit.knots[i].point.time(), fit.knots[i - 1].point.time());
  }
  EXPECT_GT(fit.worst(), 0.3) << "and the residuals tell";
}

TEST(LinkFit, SaysWhatALineWouldMiss) {
  std::vector<Sample> line, curve;
  for (int k = 10; k <= 30; ++k) {
    const double bytes = std::ldexp(1, k);
    line.push_back({Bytes(std::int64_t{1} << k), Seconds(5e-6 + bytes / 1e9)});
    curve.push_back({Bytes(std::int64_t{1} << k),
                     Seconds(5e-6 + bytes / (k < 20 ? 1e9 : 4e9) + (k < 20 ? 0 : 1e-3))});
  }
  EXPECT_LT(fit_link(line).line_error, 1e-9);
  const std::vector<Sample> bytes = {// one second and a quarter of one a byte
                                     {Bytes(1), Seconds(1.25)},
                                     {Bytes(2), Seconds(1.5)},
                                     {Bytes(4), Seconds(2)},
                                     {Bytes(8), Seconds(3)}};
  EXPECT_LT(fit_link(bytes).line_error, 1e-9);
  EXPECT_GT(fit_link(curve).line_error, 0.2);
}

TEST(LinkFit, NeedsSizesThatDiffer) {
  EXPECT_THROW(fit_link({}), Error);
  EXPECT_THROW(fit_link({{Bytes(8), Seconds(1)}, {Bytes(8), Seconds(1)}}), Error);
  EXPECT_THROW(
      fit_link({{Bytes(8), Seconds(1e-5)}, {Bytes(16), Seconds(1e-5)}, {Bytes(32), Seconds(1e-5)}}),
      Error);
}

std::vector<Log> four_runs() {
  std::vector<Log> logs;
  for (const char* name : {"1.log", "2.log", "3.log", "4.json"}) {
    logs.push_back(read_log(std::string(MOESIM_ROOT "/tests/fixtures/logs/alltoall-") + name, {}));
  }
  return logs;
}

LinkFit fit_of(const std::vector<Log>& logs) {
  std::vector<Sample> all;
  for (const Log& log : logs) all.insert(all.end(), log.samples.begin(), log.samples.end());
  return fit_link(all);
}

TEST(Calibration, IsWrittenLikeThis) {
  const std::vector<Log> logs = four_runs();
  const LinkFit fit = fit_of(logs);
  EXPECT_EQ(fit.rejected, 1) << "the tenfold time of run 3";
  const Calibrated result{fit, {}, logs};
  expect_golden("four-runs.txt", calibration_report(result, {}));
  expect_golden("four-runs.calib.yaml",
                calibration_yaml(result, {"test", "moesim calibrate ...", {Seconds(5e-6)}}));
}

TEST(Calibration, IsReadBackAsItWasFitted) {
  const std::vector<Log> logs = four_runs();
  const LinkFit fit = fit_of(logs);
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/c.calib.yaml";
  write_file(file, calibration_yaml({fit, {}, logs}, {"test", "", {Seconds(2e-6)}}));
  const LinkCalibration read = read_calibration(file);
  EXPECT_NEAR(read.latency.value, (fit.fixed.value - 2e-6) / 2, 1e-10);
  const BandwidthTable table = fit.table();
  ASSERT_EQ(read.bandwidth->points().size(), table.points().size());
  for (std::size_t i = 0; i < table.points().size(); ++i) {
    EXPECT_EQ(read.bandwidth->points()[i].size, table.points()[i].size);
    EXPECT_NEAR(read.bandwidth->points()[i].rate.value / table.points()[i].rate.value, 1, 1e-9);
  }
}

// Small sizes of these tables have two or four times that differ up to twofold.
double worst_above(const LinkFit& fit, Bytes size) {
  double worst = 0;
  for (const LinkFit::Residual& r : fit.residuals) {
    if (r.bytes >= size) worst = std::max(worst, std::abs(r.error));
  }
  return worst;
}

TEST(Calibration, OfPublishedTablesFollowsThem) {
  const std::string root = MOESIM_SHARED "/calibration/";
  if (!std::filesystem::is_directory(root)) GTEST_SKIP() << root << " is absent";
  LogChoice choice;
  choice.collective = Collective::alltoall;
  choice.ranks = 8;
  for (const char* name : {"a100_sxm_2.27.3", "h100_sxm_2.27.3", "h100_sxm_2.29.2"}) {
    const Log log = read_log(root + "aiconfigurator/nccl_" + name + ".csv", choice);
    const LinkFit fit = fit_link(log.samples);
    EXPECT_LT(fit.typical(), 0.02) << name;
    EXPECT_LT(worst_above(fit, Bytes(1 << 20)), 0.02) << name;
    // busbw at 512 MiB, from the notes of the tables.
    const double published = std::string(name).starts_with("a100") ? 203.1 : 316.3;
    EXPECT_NEAR(fit.knots.back().point.rate.value / 1e9 / published, 1, 0.02) << name;
  }
}

}  // namespace
}  // namespace moesim
