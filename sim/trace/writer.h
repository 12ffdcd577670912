// SPDX-License-Identifier: Apache-2.0
// Writes trace directories, step by step, so that a crash leaves every earlier step intact.
#pragma once

#include <string>
#include <utility>

#include "sim/trace/routing_trace.h"

namespace moesim {

/// Throws Error if `path` is inside a trace, which other files in it would break.
void check_outside_traces(const std::string& path);

class TraceWriter {
 public:
  /// each_step: a step is visible once it is complete, as recorders need it.
  /// at_end: the whole trace appears at finish(); without it nothing remains.
  enum class Publish { each_step, at_end };

  /// Starts a trace in a new folder. Throws Error if there is anything at `directory`, or if that
  /// is inside another trace.
  static TraceWriter create(const std::string& directory, const TraceInfo& info, Publish publish);
  /// As at_end, but the steps outlive a writer that is neither finished nor abandoned: the next
  /// one with the same `key` keeps them, one with another key begins anew. info() is empty until
  /// set_info(). Throws Error, too, while another program writes this trace.
  static TraceWriter resume(const std::string& directory, const std::string& key);
  ~TraceWriter();
  TraceWriter(TraceWriter&& other) noexcept;
  TraceWriter& operator=(TraceWriter&&) = delete;

  const TraceInfo& info() const { return info_; }
  void set_info(TraceInfo info) { info_ = std::move(info); }
  /// Whether an earlier writer has written the step already.
  bool has_step(std::int64_t number) const;
  /// Writes a step with the layers of info(), unless it is there; its number must exceed all
  /// earlier ones. Throws Error.
  void append_step(const TraceStep& step);
  /// Publishes the trace; no step may follow.
  void finish();
  /// Removes what was written and is not published.
  void abandon();

 private:
  TraceWriter(std::string target, std::string directory, TraceInfo info);

  std::string target_;     // where the trace ends up
  std::string directory_;  // if it is written, equal to target_ unless published at the end
  TraceInfo info_;
  std::int64_t last_number_ = -1;
  int lock_ = -1;  // of the folder that is not published yet
  bool resumable_ = false;
  std::string key_;  // not yet written: what has no step need not be resumed
  bool finished_ = false;
};

}  // namespace moesim
