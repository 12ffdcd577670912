// SPDX-License-Identifier: Apache-2.0
// Writes trace directories, step by step, so that a crash leaves every earlier step intact.
#pragma once

#include <string>

#include "sim/trace/routing_trace.h"

namespace moesim {

class TraceWriter {
 public:
  /// each_step: a step is visible once it is complete, as recorders need it.
  /// at_end: the whole trace appears at finish(), as importers need it; without it nothing remains.
  enum class Publish { each_step, at_end };

  /// Starts a trace in a new folder. Throws Error when there is anything at `directory`.
  static TraceWriter create(const std::string& directory, const TraceInfo& info, Publish publish);
  ~TraceWriter();
  TraceWriter(TraceWriter&& other) noexcept;
  TraceWriter& operator=(TraceWriter&&) = delete;

  const TraceInfo& info() const { return info_; }
  /// Writes a step with the layers of info(); its number must exceed all earlier ones. Throws
  /// Error.
  void append_step(const TraceStep& step);
  /// Publishes the trace; no step may follow.
  void finish();

 private:
  TraceWriter(std::string target, std::string directory, TraceInfo info, std::int64_t last_number);

  std::string target_;     // where the trace ends up
  std::string directory_;  // where it is written, equal to target_ unless published at the end
  TraceInfo info_;
  std::int64_t last_number_ = -1;
  bool finished_ = false;
};

}  // namespace moesim
