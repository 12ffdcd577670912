// SPDX-License-Identifier: Apache-2.0
// What nccl-tests print (read in 1.0 to 2.19.6, src/common.cu and src/util.cu): lines with
// versions, one per rank, names of columns, then a row per size and a summary. Launchers put any
// prefix before them, NCCL and processes print in between, and a file may hold several tests.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/plain_line.h"
#include "sim/base/read_number.h"
#include "sim/base/text.h"
#include "sim/linkfit/logs/formats.h"
#include "sim/linkfit/logs/nccl_lines.h"
#include "sim/linkfit/logs/nccl_rows.h"
#include "sim/linkfit/logs/nccl_table.h"
#include "sim/linkfit/logs/nvlink_switch.h"
#include "sim/linkfit/logs/wrapped_lines.h"

namespace moesim {
namespace {

/// How a row of today looks, for excerpts without names of columns.
const std::vector<std::string> todays_columns = {"size",  "count", "type",  "redop",  "root",
                                                 "time",  "algbw", "busbw", "#wrong", "time",
                                                 "algbw", "busbw", "#wrong"};

class TextLog {
 public:
  TextLog(const std::string& text, std::string file, const LogChoice& choice)
      : lines_(unwrapped(lines_of(text))), file_(std::move(file)), choice_(choice) {}

  std::vector<NcclTest> read() {
    for (const LogLine& line : lines_) {
      number_ = line.number;
      try {
        read_line(plain_line(line.text));
      } catch (const Error& e) {
        if (!test().fault) test().fault = e;
      }
    }
    finish();
    return std::move(tests_);
  }

 private:
  NcclTest& test() {
    if (tests_.empty()) start();
    return tests_.back();
  }

  void start() {
    finish();
    tests_.emplace_back().line = number_;
    tests_.back().program = mentioned_;
    tests_.back().nvlink_set = nvlink_.take_for_test();
    rows_ = {};
  }

  /// A line of the preamble begins a test if the one before has its ranks or table.
  void preamble() {
    if (tests_.empty() || test().has_table || test().ranks.listed() || test().ended) start();
  }

  void finish() {
    if (tests_.empty()) return;
    try {
      rows_.finish(file_, test());
    } catch (const Error& e) {
      if (!test().fault) test().fault = e;
    }
  }

  void read_line(const std::string& line) {
    if (const auto output = library_output(line)) {
      library(*output, line);
      if (output->at > 0) own_line(line.substr(0, output->at));
    } else {
      own_line(line);
    }
  }

  void library(const LibraryOutput& output, const std::string& line) {
    if (!output.info) ending(line.substr(output.at));
    if (const auto value = nvlink_said_by_nccl(output.text)) {
      if (!tests_.empty() && !test().has_table) {
        test().nvlink_set = value;
      } else {
        nvlink_.set_for_next_test(value);
      }
    }
    // What it says after the table is of communicators that end, or of the next test.
    if (!tests_.empty() && test().has_table) return;
    if (const std::string spans = word_after(output.text, " MNNVL ");
        spans == "0" || spans == "1") {
      test().nvlink_between_hosts = spans == "1";
    }
    const auto domain = parse_integer<int>(word_after(output.text, " cliqueSize "));
    if (domain && *domain > 1) test().nvlink_domains.insert(*domain);
    const std::string of = word_after(output.text, " nranks ");
    const auto ranks =
        parse_integer<long long>(of.empty() ? word_after(output.text, " nRanks ") : of);
    const auto rank = parse_integer<long long>(word_after(output.text, " rank "));
    if (!ranks || !rank || output.host.empty()) return;
    if (*rank < 0 || *rank >= *ranks || *ranks > (1 << 24)) return;
    const std::string bus = word_after(output.text, " busId ");
    test().ranks.add_from_nccl(static_cast<int>(*rank), static_cast<int>(*ranks), output.host,
                               bus.empty() ? "" : word_after(output.text, " cudaDev ") + " " + bus);
  }

  /// What is set after a test began, and before it lists its ranks, is for this test.
  void environment(const std::string& line) {
    const auto setting = nvlink_.read(line);
    if (!setting || tests_.empty() || test().has_table || test().ranks.listed()) return;
    test().nvlink_set = setting->value;
    if (setting->scope == NvlinkSetting::Scope::command) nvlink_.take_for_test();
  }

  /// A line without what NCCL printed.
  void own_line(const std::string& printed) {
    const std::string line = without_frame(printed);
    if (const std::size_t end = end_of_row(line); end != std::string::npos) {
      own_line(line.substr(0, end));
      return own_line(line.substr(end));
    }
    if (header(line)) return;
    if (const std::vector<std::string> columns = columns_in(line); !columns.empty()) {
      if (test().has_table) start();
      start_table(columns, line);
      return;
    }
    if (const auto row = row_words(line, rows_.table().has_root())) {
      if (test().ended) start();
      if (!test().has_table) start_table(todays_columns, "");
      rows_.drop();
      note_marks(*row);
      rows_.begin(*row, line, number_);
      take_row();
    } else if (rows_.open() && rows_.continues(line)) {
      take_row();
    } else {
      if (!tests_.empty() && !test().ended) rows_.note_other(line, number_);
      ending(printed);
    }
  }

  void note_marks(const RowWords& row) {
    NcclMarks& marks = test().marks;
    marks.blank_redop = row.redop.empty();
    marks.reduces = !row.redop.empty() && row.redop != "none";
    marks.rooted = !row.root.empty() && row.root != "-1";
    if (row.size != "0") marks.whole_count = row.whole_count;
  }

  /// Whether the line is one of those around the table; takes what it says.
  bool header(const std::string& line) {
    const auto has = [&](const char* text) { return line.find(text) != std::string::npos; };
    if (has("ccl-tests version ") || has("NCCL Tests compiled with NCCL")) {
      preamble();
      std::string library = word_after(line, "ccl-library=");
      if (library.empty()) library = word_after(line, "compiled with NCCL");
      const std::string tests = word_after(line, "ccl-tests version");
      std::string all;
      if (!library.empty()) all = (has("rccl-library=") ? "RCCL " : "NCCL ") + library;
      if (!tests.empty()) all += (all.empty() ? "" : ", ") + ("nccl-tests " + tests);
      test().library = all;
    } else if (has("Collective test starting:")) {
      preamble();
      name(word_after(line, "starting:"));
    } else if (has("Collective test concluded:")) {
      if (test().program.empty() || test().program_line == 0) name(word_after(line, "concluded:"));
    } else if (has("nThread ") && has("nGpus ")) {
      preamble();
      const auto threads = parse_integer<long long>(word_after(line, "nThread "));
      const auto gpus = parse_integer<long long>(word_after(line, "nGpus "));
      const auto sound = [](long long n) { return n > 0 && n <= 1024; };
      if (threads && gpus && sound(*threads) && sound(*gpus) && sound(*threads * *gpus)) {
        test().ranks.set_local(static_cast<int>(*threads * *gpus));
      }
    } else if (has("Using devices")) {
      preamble();
    } else if (const auto rank = rank_line(line)) {
      if (test().has_table) start();
      test().rank_tags.insert(tag_before(line));
      test().ranks.add_listed(rank->rank, rank->group, rank->host, rank->address, rank->device);
      test().gpu = rank->gpu;
    } else if (has("Out of bounds values")) {
      summary(has("FAILED"));
    } else if (has("Avg bus bandwidth")) {
      return true;
    } else {
      environment(line);
      mention(program_in(line));
      return false;
    }
    return true;
  }

  void name(const std::string& program) {
    test().program = program;
    test().program_line = number_;
  }

  /// A command names the test that follows, or the one that says no name itself.
  void mention(const std::string& program) {
    const bool other =
        program.starts_with("alltoallv_perf") || program.starts_with("hypercube_perf");
    if (!other && (program.empty() || !collective_of(program))) return;
    mentioned_ = program;
    if (!tests_.empty() && !test().has_table && test().program_line == 0) test().program = program;
  }

  void summary(bool failed) {
    rows_.drop();
    test().ended = true;
    test().cause.clear();
    if (failed && !test().fault) {
      test().fault = error_in(file_, "the test found wrong results", wrong_results_hint, number_);
    }
  }

  void start_table(const std::vector<std::string>& columns, const std::string& names) {
    test().has_table = true;
    test().cause.clear();
    if (std::ranges::count(columns, "size") > 1) {
      throw error_in(file_, "holds two outputs next to each other, as diff -y prints them",
                     "give each of them by itself", number_);
    }
    rows_ = NcclRows(NcclTable(columns, choice_.in_place, file_, number_), names);
    test().marks.redop_column = rows_.table().has_redop();
  }

  /// Takes the row if all of it is there.
  void take_row() {
    const int number = rows_.open_line();
    const std::vector<std::string> words = rows_.whole();
    if (words.empty() || test().fault) return;
    rows_.table().add(words, file_, number, test());
    test().cause.clear();  // it did not end there
  }

  /// Keeps the first line after the table's beginning that says why the test ended early.
  void ending(const std::string& line) {
    if (tests_.empty() || test().ended || !test().cause.empty()) return;
    if (line.find_first_not_of("# \t") == std::string::npos || !tells_of_an_end(line)) return;
    constexpr std::size_t most = 120;
    std::string shown = printable(line.substr(line.find_first_not_of(" \t")));
    if (shown.size() > most) shown = shown.substr(0, most) + "...";
    test().cause = shown;
    test().cause_line = number_;
  }

  std::vector<LogLine> lines_;
  std::string file_;
  const LogChoice& choice_;
  int number_ = 0;  // of the line
  std::vector<NcclTest> tests_;
  std::string mentioned_;  // the test of the last command
  NvlinkSwitch nvlink_;    // between hosts
  NcclRows rows_;
};

}  // namespace

Log parse_nccl_tests_text(const std::string& text, const std::string& file,
                          const LogChoice& choice) {
  Log log = log_of(TextLog(text, file, choice).read(), file, choice);
  log.kind = "nccl-tests text";
  return log;
}

}  // namespace moesim
