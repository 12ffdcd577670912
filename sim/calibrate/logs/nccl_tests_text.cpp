// SPDX-License-Identifier: Apache-2.0
// What nccl-tests print (read in 2.19.6, commit a0b82b2, src/util.cu): `#` lines with versions, one
// line per rank, names of columns, then a row per size and a summary.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "sim/base/error.h"
#include "sim/calibrate/logs/formats.h"

namespace moesim {
namespace {

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

/// What follows `key` in the line, up to a space; "" when it is not there.
std::string after(const std::string& line, const std::string& key) {
  const std::size_t at = line.find(key);
  if (at == std::string::npos) return "";
  const std::size_t start = line.find_first_not_of(' ', at + key.size());
  if (start == std::string::npos) return "";
  return line.substr(start, line.find(' ', start) - start);
}

class TextLog {
 public:
  TextLog(const std::string& text, std::string file, const LogChoice& choice)
      : lines_(lines_of(text)), file_(std::move(file)), choice_(choice) {}

  Log read() {
    log_.kind = "nccl-tests text";
    log_.checked = true;
    for (const std::string& line : lines_) {
      ++number_;
      if (line.starts_with('#')) {
        header(line);
      } else if (!columns_.empty()) {
        row(words_of(line));
      }  // launchers and NCCL print what they like before the table
    }
    if (columns_.empty()) {
      throw error_in(file_, "has no line with the columns of nccl-tests",
                     "give the whole output, its lines with '#' included");
    }
    if (!ended_) {
      throw error_in(file_, "is cut short: the summary after the last row is missing",
                     "run the test to its end", number_);
    }
    return std::move(log_);
  }

 private:
  void header(const std::string& line) {
    if (line.find("Collective test starting:") != std::string::npos) {
      collective_ = tested(file_, number_, after(line, "starting:"));
    } else if (line.starts_with("#  Rank")) {
      ++setting_.ranks;
      hosts_.insert(after(line, " on "));
      const std::size_t name = line.find("] ");
      if (name != std::string::npos) log_.gpu = line.substr(name + 2);
    } else if (const std::string version = after(line, "nccl-library="); !version.empty()) {
      log_.library = "NCCL " + version + ", nccl-tests " + after(line, "nccl-tests version");
    } else if (line.find("Out of bounds values") != std::string::npos) {
      ended_ = true;
      if (line.find("FAILED") != std::string::npos) {
        throw error_in(file_, "the test found wrong results", wrong_results_hint, number_);
      }
    } else if (columns_.empty()) {
      const std::vector<std::string> words = words_of(line.substr(1));
      if (!words.empty() && words[0] == "size") start_table(words);
    }
  }

  void start_table(std::vector<std::string> columns) {
    columns_ = std::move(columns);
    timestamps_ = columns_.back() == "timestamp";
    std::vector<std::size_t> times;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i] == "time" || columns_[i] == "cputime") times.push_back(i);
    }
    const std::size_t which = choice_.in_place ? 1 : 0;
    const bool sound =
        times.size() > which && times[which] + 3 < columns_.size() &&
        columns_[times[which] + 1] == "algbw" && columns_[times[which] + 2] == "busbw" &&
        (columns_[times[which] + 3] == "#wrong" || columns_[times[which] + 3] == "error");
    if (!sound) {
      throw error_in(file_, "lacks the columns time, algbw, busbw and #wrong",
                     "give the output of nccl-tests 2.10 or later", number_);
    }
    time_ = times[which];
    settle();
  }

  /// What ran is known when the table begins.
  void settle() {
    if (!collective_) collective_ = choice_.collective;
    if (!collective_) {
      throw error_in(file_, "does not say which collective it measures",
                     "--collective NAME does, for output of older nccl-tests", number_);
    }
    setting_.collective = *collective_;
    if (setting_.ranks == 0) setting_.ranks = choice_.ranks.value_or(0);
    if (setting_.ranks == 0) {
      throw error_in(file_, "has no lines '#  Rank ...' before its table",
                     "give the whole output, or --ranks N", number_);
    }
    setting_.hosts = std::max(1, static_cast<int>(hosts_.size()));
    if (setting_.ranks < 2) {
      throw error_in(file_, "ran with one rank: nothing crossed a link", "run at least two",
                     number_);
    }
    check_choice(file_, setting_, choice_);
    share_ = link_share(file_, setting_, choice_, log_);
  }

  void row(const std::vector<std::string>& words) {
    if (words.empty()) return;
    // NCCL and launchers may print between the rows; rows begin with a number.
    const bool is_row = words[0].find_first_not_of("0123456789") == std::string::npos;
    if (!is_row && words.size() < columns_.size()) {
      if (ended_ || words[0].find(':') != std::string::npos) return;
    }
    const std::size_t expected = columns_.size() + (timestamps_ ? 1 : 0);
    if (words.size() != expected) {
      throw error_in(file_,
                     fmt::format("a row of {} words below {} columns", words.size(), expected),
                     number_ == static_cast<int>(lines_.size())
                         ? "the log is cut short: run the test to its end"
                         : "give the output as the test printed it",
                     number_);
    }
    const auto value = [&](std::size_t column) {
      return number_in(file_, number_, "'" + columns_[column] + "'", words[column]);
    };
    const NcclRow row{value(0), value(time_), value(time_ + 1), value(time_ + 2)};
    if (words[time_ + 3] == "N/A") {
      log_.checked = false;
    } else if (value(time_ + 3) != 0) {
      throw error_in(file_, fmt::format("{} wrong elements at size {}", words[time_ + 3], words[0]),
                     wrong_results_hint, number_);
    }
    if (row.size == 0) return;
    check_row(file_, number_, setting_, row);
    share_.add(row.size, Seconds(row.microseconds * 1e-6), log_);
    if (timestamps_) log_.date = words[words.size() - 2];
  }

  std::vector<std::string> lines_;
  std::string file_;
  const LogChoice& choice_;
  Log log_;
  int number_ = 0;  // of the line
  Setting setting_;
  std::optional<Collective> collective_;
  std::set<std::string> hosts_;
  LinkShare share_{};
  std::vector<std::string> columns_;
  std::size_t time_ = 0;  // column
  bool timestamps_ = false, ended_ = false;
};

}  // namespace

Log parse_nccl_tests_text(const std::string& text, const std::string& file,
                          const LogChoice& choice) {
  return TextLog(text, file, choice).read();
}

}  // namespace moesim
