// SPDX-License-Identifier: Apache-2.0
// Tables whose rows are in lists, framed, next to others, or have one half only.
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/linkfit/logs/nccl_lines.h"
#include "tests/linkfit/logs/made_log.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

void expect_undisturbed(const std::string& text) {
  const Log plain = read_made(MadeLog{}.text()), log = read_made(text);
  EXPECT_EQ(log.what, plain.what);
  EXPECT_EQ(log.gpu, plain.gpu);
  EXPECT_EQ(log.library, plain.library);
  ASSERT_EQ(log.samples.size(), plain.samples.size());
  for (std::size_t i = 0; i < log.samples.size(); ++i) {
    EXPECT_EQ(log.samples[i].time, plain.samples[i].time) << i;
  }
  EXPECT_THAT(log.notes, ElementsAre());
}

TEST(FramedLine, IsWithoutItsFrame) {
  EXPECT_EQ(without_frame("\"a 0  N/A\","), "\"a 0  N/A");
  EXPECT_EQ(without_frame("| a 0 | "), "| a 0");
  EXPECT_EQ(without_frame("'a 0\\n', "), "'a 0");
  EXPECT_EQ(without_frame("a 0  "), "a 0  ") << "blanks tell pieces of rows";
  EXPECT_EQ(without_frame(""), "");
}

TEST(DisturbedRows, MayBeInListsAndFrames) {
  for (const auto& [before, after] :
       std::vector<std::pair<std::string, std::string>>{{"        \"", "\","},
                                                        {"| ", " |"},
                                                        {"'", "',"},
                                                        {"  - '", "'"},
                                                        {"\"", "\\r\\n\","},
                                                        {"<span>", "</span><br/>"},
                                                        {"", "$"},
                                                        {"", "^M$"}}) {
    SCOPED_TRACE(before + "..." + after);
    expect_undisturbed(each_line(MadeLog{}.text(),
                                 [&](const std::string& line) { return before + line + after; }));
  }
}

TEST(DisturbedRows, MayBeEntriesOfAJsonList) {
  const auto entry = [](const std::string& key, int number, const std::string& line) {
    const std::string text = line.empty() ? "" : fmt::format("\"{}\": \"{}\", ", key, line);
    return fmt::format("{{{}\"timestamp\": \"2026-11-30T00:{:02}:{:02}Z\"}}", text, number / 60,
                       number % 60);
  };
  for (const bool last_first : {false, true}) {
    int number = 0;
    std::vector<std::string> entries;
    each_line(MadeLog{}.text(), [&](const std::string& line) {
      entries.push_back(entry("textPayload", number++, line));
      return line;
    });
    if (last_first) std::ranges::reverse(entries);
    expect_undisturbed(fmt::format("[\n {}\n]", fmt::join(entries, ",\n ")));
    expect_undisturbed(fmt::format("{{\"events\": [{}]}}", fmt::join(entries, ", ")));
  }
}

/// A row with blanks in the place of one half.
std::string half_row(const std::string& row, bool in_place) {
  const std::size_t out = row.find("-1") + 2, in = row.find("       0  ") + 8;
  if (!in_place) return row.substr(0, in) + "\n";
  return row.substr(0, out) + std::string(in - out, ' ') + row.substr(in);
}

TEST(DisturbedRows, MayHaveOneHalf) {
  const MadeLog made;
  const std::string names =
      "#       size         count      type   redop    root     time   algbw   busbw  #wrong     "
      "time   algbw   busbw  #wrong ";
  const std::string below =
      "     1048576         16384     float    none      -1    44.58   23.52   22.05       0    "
      "44.58   23.52   22.05     N/A\n"
      "     2097152         32768     float    none      -1    69.15   30.33   28.43       0    "
      "69.15   30.33   28.43     N/A\n";
  const std::string end = "# Out of bounds values : 0 OK\n";
  const auto log_of = [&](bool in_place) {
    return made.header() + names + "\n" +
           each_line(below,
                     [&](const std::string& row) {
                       const std::string half = half_row(row, in_place);
                       return half.substr(0, half.find('\n'));
                     }) +
           end;
  };
  LogChoice in_place;
  in_place.in_place = true;
  EXPECT_EQ(read_made(log_of(false)).samples.size(), 2U);
  EXPECT_EQ(read_made(log_of(true), in_place).samples.size(), 2U);
  EXPECT_DOUBLE_EQ(read_made(log_of(true), in_place).samples[1].time.value, 69.15e-6);
  EXPECT_THAT(refusal_of(log_of(true)),
              HasSubstr("has no out-of-place times\nhint: --in-place takes its in-place times"));
  EXPECT_THAT(refusal_of(log_of(false), in_place), HasSubstr("has no in-place times"));
  // Where blanks are lost nothing says which half it is.
  std::string thin = log_of(true);
  for (auto at = thin.find("  "); at != std::string::npos; at = thin.find("  ", at)) {
    thin.erase(at, 1);
  }
  EXPECT_THAT(refusal_of(thin), HasSubstr("this row cannot be read: it has 4 of 8 values"));
}

TEST(DisturbedRows, MayHaveHalvesThatAreNotAvailable) {
  const MadeLog made;
  std::string text = made.text();
  for (int k = 0; k < made.sizes; ++k) {
    const std::string row = made.row(k);
    const std::size_t out = row.find("-1") + 2, in = row.find("       0  ") + 8;
    text = with(text, row, row.substr(0, out) + "  N/A  N/A  N/A  N/A" + row.substr(in));
  }
  EXPECT_THAT(refusal_of(text), HasSubstr("error: has no out-of-place times\nhint: --in-place"));
  LogChoice in_place;
  in_place.in_place = true;
  EXPECT_EQ(read_made(text, in_place).samples.size(), 6U);
}

TEST(DisturbedRows, AreNamed) {
  const MadeLog made;
  const auto in_rows = [&](const auto& change) {
    std::string text = made.text();
    for (int k = 0; k < made.sizes; ++k) text = with(text, made.row(k), change(made.row(k)));
    return refusal_of(text);
  };
  EXPECT_THAT(in_rows([](const std::string& row) { return with(row, "       0  ", " | "); }),
              HasSubstr("a.log:26: error: this row cannot be read: '|' is between its values"));
  EXPECT_THAT(in_rows([](const std::string& row) { return with(row, "float", "fp99"); }),
              HasSubstr("a.log:26: error: this row cannot be read: no type of data"));
}

TEST(DisturbedRows, OfTwoLogsSideBySideAreNotRead) {
  const std::string twice = each_line(
      MadeLog{}.text(), [](const std::string& line) { return line + "     |     " + line; });
  EXPECT_THAT(refusal_of(twice), HasSubstr("holds two outputs next to each other"));
}

TEST(DisturbedRows, OfMscclppAreOfAnotherProgram) {
  const std::string hint = "is the output of mscclpp-test, not of nccl-tests";
  EXPECT_THAT(refusal_of("# minBytes 1024 maxBytes 4096 graph: 1 kernel num: 0\n"
                         "#  size  count  time  algbw  busbw  #wrong\n"),
              HasSubstr(hint));
  EXPECT_THAT(refusal_of("#                      in-place          out-of-place\n"
                         "#  size  count  time  algbw  busbw  #wrong time algbw busbw #wrong\n"),
              HasSubstr(hint));
}

TEST(DisturbedRows, HaveTimesOfTheExchange) {
  std::string text = MadeLog{}.text();
  const std::string names = "     time   algbw   busbw  #wrong";
  text = with(with(text, names, "  cputime   algbw   busbw  #wrong"), names,
              "  cputime   algbw   busbw  #wrong");
  EXPECT_THAT(refusal_of(text),
              HasSubstr("times are what the CPU took to launch (-C 1), not those of the "
                        "exchanges\nhint: run the test without -C"));
}

// 0.03 GB/s may be 17 % off, a time of four digits 0.01 %.
TEST(DisturbedRows, HaveTimesThatRoundLess) {
  MadeLog made;
  const auto row = [](long long size, const char* time, const char* rate, const char* bus) {
    return fmt::format("{} {} float none -1 {} {} {} 0 {} {} {} N/A\n", size, size / 64, time, rate,
                       bus, time, rate, bus);
  };
  const auto log_of = [&](const std::string& rows) {
    return made.header() + MadeLog::columns() + rows + "# Out of bounds values : 0 OK\n";
  };
  const Log slow = read_made(log_of(row(268435456, "1.007e+07", "0.03", "0.02") +
                                    row(536870912, "2.013e+07", "0.03", "0.03")));
  EXPECT_DOUBLE_EQ(slow.samples.at(0).time.value, 10.07);
  EXPECT_DOUBLE_EQ(slow.samples.at(1).time.value, 20.13);
  const Log large = read_made(log_of(row(1LL << 38, "1.6e+06", "171.80", "161.06") +
                                     row(1LL << 39, "3.2e+06", "171.80", "161.06")));
  EXPECT_DOUBLE_EQ(large.samples.at(0).time.value, (1LL << 38) / 171.80e9) << "two digits of it";
}

}  // namespace
}  // namespace moesim
