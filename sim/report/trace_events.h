// SPDX-License-Identifier: Apache-2.0
// Chrome's trace-event format, which Perfetto and chrome://tracing open: one JSON object a line.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/types.h"

namespace moesim {

/// Whole picoseconds: an end and the next start that are equal stay so in the file.
using Picoseconds = std::int64_t;
Picoseconds picoseconds(Seconds time);

/// A line of the picture: a stream of a rank.
struct TraceThread {
  int process = 0, thread = 0;
};

struct TraceSlice {
  TraceThread on;
  Picoseconds begin = 0, end = 0;
  std::string name, category;
  std::string args = {};  // a JSON object, or nothing
};

/// Writes events as they come; each is a line that begins with a comma, as a list has begun before.
class TraceEvents {
 public:
  explicit TraceEvents(std::function<void(std::string_view)> out) : out_(std::move(out)) {}
  void name_process(int process, const std::string& name);
  void name_thread(TraceThread thread, const std::string& name);
  void slice(const TraceSlice& slice);
  /// From a moment of a slice to one of another, no earlier.
  void arrow(TraceThread from, Picoseconds begin, TraceThread to, Picoseconds end,
             const std::string& name);
  /// Series that are drawn on top of each other.
  void counter(int process, const std::string& name, Picoseconds at,
               const std::vector<std::pair<std::string, double>>& series);
  /// To be called at the end.
  void flush();

 private:
  void put(std::string_view event);

  std::function<void(std::string_view)> out_;
  std::string text_;
  std::int64_t arrows_ = 0;
};

/// A file of events is this, what TraceEvents writes, and `end_of_events`. `shown`: what it holds,
/// for people.
std::string start_of_events(const std::string& version, const std::string& shown);
inline constexpr std::string_view end_of_events = "\n]}\n";

}  // namespace moesim
