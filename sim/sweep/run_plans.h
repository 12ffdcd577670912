// SPDX-License-Identifier: Apache-2.0
// Kinds of instances that can run, plans worth an engine's run, and deployments that an engine has
// run for advice.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/print/table.h"
#include "sim/run/engine_outcome.h"
#include "sim/run/workers.h"
#include "sim/serving/deployment/sla.h"
#include "sim/serving/requests/request_log.h"
#include "sim/sweep/kind_times.h"
#include "sim/sweep/serving_candidates.h"

namespace moesim {

struct PricedKinds {
  std::vector<ServingInstanceKind> kinds;  // that can run
  std::vector<KindTimes> times;            // of each
  std::string left_out;                    // a line for each of the others, with why

  void append(PricedKinds more);
  /// "nic" if a pool exchanges tokens by links at a data sheet's rates that other kinds have
  /// measured ones for; else empty.
  std::string by_data_sheet(const ServingPlan& plan) const;
};

/// Simulates a few passes of each, by so many processes. A kind that cannot run, or whose passes
/// `stop` ends, is left out.
PricedKinds price_kinds(const std::string& file, const std::vector<Override>& flags,
                        const std::vector<ServingInstanceKind>& kinds, const ServingDemand& demand,
                        int workers, const std::function<bool()>& stop);

/// The first ones of `ranked`, half of them of one pool and half of pools apart if there are both;
/// of either also the first one whose instances do nothing besides.
std::vector<RoughPlan> finalists(const std::vector<ServingInstanceKind>& kinds,
                                 const std::vector<RoughPlan>& ranked, int most);

struct RunPlan {
  RoughPlan rough;
  EngineOutcome outcome;
  std::string broken;   // what of the SLA; empty: nothing
  bool as_run = false;  // as of AskedPlan
};

/// A plan to run; as_run: with the figures of `moesim run`, else all prices are reused.
struct AskedPlan {
  const ServingPlan& plan;
  bool as_run = false;
};

/// "2 x 8 GPUs tp8 ep8 megatron-allgather", pools with a bar between them.
std::string plan_words(const std::vector<ServingInstanceKind>& kinds, const ServingPlan& plan);

/// Answers the log with instances of the scenario in `file`.
EngineOutcome outcome_of(const std::string& file, const std::vector<Override>& flags,
                         const std::vector<ServingInstanceKind>& kinds, const AskedPlan& asked,
                         const RequestLog& log, const JobProgress& progress);

/// Which bounds it does not keep, or why it did not run.
std::string broken_of(const EngineOutcome& outcome, const std::vector<SlaBound>& bounds);

/// The first `shown` of them.
Table plans_table(const std::vector<ServingInstanceKind>& kinds, const std::vector<RunPlan>& plans,
                  std::size_t shown);

}  // namespace moesim
