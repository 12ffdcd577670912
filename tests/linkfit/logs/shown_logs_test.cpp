// SPDX-License-Identifier: Apache-2.0
// Logs as terminals, editors and mail programs leave them: other ends of lines, and lines that were
// wrapped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/linkfit/logs/wrapped_lines.h"
#include "tests/linkfit/logs/made_log.h"

namespace moesim {
namespace {

using testing::ElementsAre;

void expect_times_of(const MadeLog& made, const std::string& shown) {
  const Log plain = read_made(made.text()), log = read_made(shown);
  EXPECT_EQ(log.what, plain.what);
  EXPECT_THAT(log.notes, ElementsAre());
  ASSERT_EQ(log.samples.size(), plain.samples.size());
  for (std::size_t i = 0; i < log.samples.size(); ++i) {
    EXPECT_EQ(log.samples[i].bytes, plain.samples[i].bytes);
    EXPECT_DOUBLE_EQ(log.samples[i].time.value, plain.samples[i].time.value) << i;
  }
}

/// Lines of at most so many characters; without the blanks at their ends if these are lost.
std::string wrapped(const std::string& text, std::size_t width, bool blanks) {
  return each_line(text, [&](const std::string& line) {
    std::string all;
    for (std::size_t at = 0; at == 0 || at < line.size(); at += width) {
      std::string piece = line.substr(at, width);
      if (!blanks) piece.resize(piece.find_last_not_of(' ') + 1);
      all += (at == 0 ? "" : "\n") + piece;
    }
    return all;
  });
}

TEST(ShownLog, EndsLinesInAnyWay) {
  for (const char* end : {"\r\n", "\r", "\r\r\n"}) {
    std::string text;
    for (const char c : MadeLog{}.text()) text += c == '\n' ? std::string(end) : std::string(1, c);
    expect_times_of({}, text);
  }
}

TEST(ShownLog, IsOverwrittenByProgress) {
  const MadeLog made;
  expect_times_of(made, with(made.text(), made.row(2),
                             "\rrunning 2 of 6\rrunning 3 of 6\r" + made.row(2) + "\rdone\r"));
}

TEST(ShownLog, IsWrappedByATerminalOfAnyWidth) {
  for (std::size_t width = 44; width < 130; ++width) {
    SCOPED_TRACE(width);
    expect_times_of({}, wrapped(MadeLog{}.text(), width, true));
  }
}

TEST(ShownLog, EndsWithNamesOfColumnsThatWereWrapped) {
  const std::string first = "# size count type redop root time algbw bus";
  for (const char* rest : {"bw #wrong", "b\xc3\xa4w #wrong"}) {
    const bool names = std::string(rest) == "bw #wrong";
    const std::vector<LogLine> lines = unwrapped({"before", first, rest});
    ASSERT_EQ(lines.size(), names ? 2U : 3U);
    EXPECT_EQ(lines[1].text, names ? first + rest : first);
    EXPECT_EQ(lines.back().number, names ? 2 : 3);
  }
  const std::vector<LogLine> more = unwrapped({first, "bw #wrong", "words", "and words"});
  ASSERT_EQ(more.size(), 3U);
  EXPECT_EQ(more[1].text, "words") << "the line before does not fill the width";
}

TEST(ShownLog, HasPrefixesInATerminal) {
  const std::string text =
      each_line(MadeLog{}.text(), [](const std::string& line) { return "[1,0]<stdout>:" + line; });
  expect_times_of({}, wrapped(text, 100, true));
}

// A row that ends in a blank is no wider than the others after it lost that.
TEST(ShownLog, LosesBlanksAtTheEndsOfLines) {
  for (const std::size_t width : {80, 90, 100}) {
    SCOPED_TRACE(width);
    expect_times_of({}, wrapped(MadeLog{}.text(), width, false));
  }
}

// No names of columns tell the width.
TEST(ShownLog, SplitsANumber) {
  const MadeLog made;
  const std::string row = made.row(2);
  const std::size_t half = row.find('.', row.find("float")) + 1;
  for (const std::size_t at : {half, half + 1, row.rfind('.')}) {
    expect_times_of(made, with(made.text(), row, row.substr(0, at) + "\n" + row.substr(at)));
  }
}

TEST(ShownLog, SeparatesColumnsInAnyWay) {
  const auto read = [](const std::string& separator) {
    std::string text;
    for (const char* line :
         {"collective,num_workers,devices_per_node,size,time_stats.all_reduce.median",
          "all_reduce,2,4,1048576,0.02", "all_reduce,2,4,2097152,0.04"}) {
      for (const char* c = line; *c != '\0'; ++c)
        text += *c == ',' ? separator : std::string(1, *c);
      text += "\n";
    }
    return parse_log(text, "a.csv", {});
  };
  for (const char* separator : {",", ", ", ";", "\t", "   ", " | "}) {
    SCOPED_TRACE(separator);
    const Log log = read(separator);
    EXPECT_EQ(log.what, "all_reduce, 2 ranks, inside a host");
    ASSERT_EQ(log.samples.size(), 2u);
    EXPECT_DOUBLE_EQ(log.samples[1].time.value, 40e-6);
  }
}

}  // namespace
}  // namespace moesim
