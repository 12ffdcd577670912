// SPDX-License-Identifier: Apache-2.0
// What was measured, as JSON lines written as they come, so that an interrupted calibration goes
// on.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/plan/timeline.h"

namespace moesim {

/// Timelines by plan and round.
using Times = std::map<std::string, std::map<int, std::vector<Timeline>>>;

/// Reads what lines of a times file hold; a last line that was cut short does not count. `plans` is
/// the identity of what is measured. Throws Error when the file is another calibration's or none.
Times parse_times(const std::string& text, const std::string& file, const std::string& plans);

/// Appends to a file.
class TimesFile {
 public:
  /// Begins a new file, or goes on with one that parse_times took. Throws Error when it cannot be
  /// written.
  TimesFile(std::string path, const std::string& plans, bool resumed);
  /// Times are kept in whole nanoseconds.
  void add(const std::string& plan, int round, const std::vector<Timeline>& timelines);

 private:
  void append(const std::string& line);
  std::string path_;
};

/// All timelines of a plan, by round.
std::vector<Timeline> timelines_of(const Times& times, const std::string& plan);

}  // namespace moesim
