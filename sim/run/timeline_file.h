// SPDX-License-Identifier: Apache-2.0
// --timeline: the steps of a comparison as one file of trace events. Workers write the events of
// their cases as they simulate; the file is put together once all is done.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/base/file_in_parts.h"
#include "sim/report/timeline_events.h"
#include "sim/scenario/inputs.h"
#include "sim/topology/topology.h"

namespace moesim {

/// What the file shows, which bounds its size.
struct TimelineChoice {
  std::string ranks;  // "all", "0,8-15"; empty: `default_ranks` of them
  int steps = 1;      // the first ones; of a plan of iterations: iterations
};
inline constexpr int default_ranks = 8;

/// The ranks that are asked for, else the first ones of every pipeline stage, of stages that are
/// evenly spaced if there are more than `default_ranks`. `stage_of`: by
/// GPU, empty if there is one stage. Throws Error for a rank that is not there.
std::vector<GpuId> chosen_ranks(const TimelineChoice& choice, int gpus,
                                const std::vector<int>& stage_of = {});

/// --timeline and what belongs to it.
struct TimelineRequest {
  std::string path;
  TimelineChoice choice = {};
  std::string version = {};  // of moesim
  bool says = true;          // on standard error what is in it
};

/// Made in the parent before workers are forked, one part for each of them.
class TimelineFile {
 public:
  /// `cases`: of all workers together. Throws Error if the file cannot be written.
  TimelineFile(TimelineRequest request, int workers, int cases, int most_gpus);

  const TimelineChoice& choice() const { return request_.choice; }
  /// In a worker: where its events go.
  TraceEvents events(int worker) const;
  /// The case `index` of all, with `name` if there are several.
  TimelineCase named_case(int index, const std::string& name, std::vector<GpuId> ranks) const;
  /// In the parent: all parts but those of workers that have no result. Says on standard error what
  /// is in it.
  void finish(const std::vector<bool>& has_result) const;

 private:
  TimelineRequest request_;
  int cases_, processes_each_;
  std::vector<NamelessFile> parts_;  // [worker]
};

/// For a comparison on these clusters, whose workers run a case of each fidelity; none if it is not
/// asked for. Throws Error for ranks that are not there.
std::optional<TimelineFile> open_timeline(const std::optional<TimelineRequest>& request,
                                          const Inputs& inputs, std::size_t workers,
                                          std::size_t fidelities);

}  // namespace moesim
