// SPDX-License-Identifier: Apache-2.0
// What ran when in measured steps, as a file of trace events: docs/timeline.md.
#pragma once

#include <optional>
#include <string>

#include "sim/base/file_in_parts.h"
#include "sim/report/timeline_events.h"
#include "sim/topology/topology.h"

namespace moesim {

/// All ranks of all steps, policy by policy. `moesim profile import` reads it as it reads what the
/// simulator writes.
class MeasuredTimeline {
 public:
  /// `named`: processes bear their policy's name, because there are several. The cluster must
  /// outlive it. Throws Error if the file cannot be written.
  MeasuredTimeline(const std::string& path, const Topology& cluster, bool named);

  void begin(const std::string& policy);
  void add(const Plan& plan, const Timeline& timeline, int number);
  /// Puts the file where its path says. Throws Error.
  void finish();

 private:
  const Topology& cluster_;
  bool named_;
  int policies_ = 0;
  FileInParts file_;
  TraceEvents events_;
  std::optional<TimelineEvents> policy_;
};

}  // namespace moesim
