// SPDX-License-Identifier: Apache-2.0
// What instances of an engine may do besides their degrees (overlap, shared keys, fewer drafts),
// and how to start a deployment that was simulated.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "sim/base/yaml.h"
#include "sim/sweep/serving_candidates.h"

namespace moesim {

/// A command for each pool, and what of it no flag says.
std::string launch_text(const std::string& file, const std::vector<Override>& flags,
                        const std::vector<ServingInstanceKind>& kinds, const ServingPlan& plan);

struct EngineRun;
struct MoeModel;
struct ServingSpec;

/// The first drafts of those that a scenario has.
struct FewerDrafts {
  int drafts = 0;
  double accepted = 0;         // of them, on average
  std::vector<double> gained;  // shares of passes that give 1, 2, ... tokens; empty: not stated
};

/// What a launch line can ask for, beside what the scenario states.
struct ServingChoices {
  std::vector<std::string> overlaps;  // other than the scenario's
  std::set<std::string> exchanging;   // policies whose exchanges they overlap
  /// GPUs of a tensor group that hold the same keys: so many may share them. None: they may not.
  std::function<int(int tp)> key_copies;
  std::vector<FewerDrafts> drafts;
};

/// No choices if the preset has no launch texts.
ServingChoices serving_choices(const ServingSpec& pass, const MoeModel& model, const EngineRun& run,
                               const std::vector<ServingPolicy>& policies);

/// The passes of all drafts, cut after the first ones: exact if each number of tokens is stated.
/// An average is taken for a draft's constant chance to be accepted (arXiv 2211.17192, eq. 1).
FewerDrafts first_drafts(const EngineRun& run, double accepted, int drafts);

/// All others of the kind: each overlap of ranks that exchange rows, each part of a tensor group
/// that shares keys, each number of drafts, and all of them together.
std::vector<ServingInstanceKind> variants_of(const ServingInstanceKind& kind,
                                             const ServingChoices& choices);

}  // namespace moesim
