// SPDX-License-Identifier: Apache-2.0
// What was measured, as JSON lines written as they come, so that an interrupted calibration
// continues, and so that times can be fitted elsewhere.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "realhw/calibrate/provenance.h"
#include "sim/plan/timeline.h"

namespace moesim {

/// Timelines by plan and round.
using Times = std::map<std::string, std::map<int, std::vector<Timeline>>>;

/// What the first line of a file tells.
struct TimesHead {
  CalibrationOrigin origin;
  Provenance provenance;
};

struct TimesRead {
  TimesHead head;
  Times times;
};

/// Reads the text of a times file; a last line that was cut short does not count. Throws Error when
/// it is none, or of another version.
TimesRead parse_times(const std::string& text, const std::string& file);
TimesRead read_times(const std::string& file);

/// Appends to a file.
class TimesFile {
 public:
  /// Begins a new file, or continues with what parse_times took. Throws Error when it cannot be
  /// written.
  TimesFile(std::string path, const TimesHead& head, const std::string& before = "");
  /// Times are kept in whole nanoseconds.
  void add(const std::string& plan, int round, const std::vector<Timeline>& timelines);

 private:
  void append(const std::string& line);
  std::string path_;
};

/// All timelines of a plan, by round.
std::vector<Timeline> timelines_of(const Times& times, const std::string& plan);

}  // namespace moesim
