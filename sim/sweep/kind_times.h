// SPDX-License-Identifier: Apache-2.0
// What passes of kinds of serving instances take, from a few that are simulated.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/report/token_rates.h"
#include "sim/scenario/inputs.h"
#include "sim/scenario/scenario.h"
#include "sim/serving/requests/request_log.h"
#include "sim/sweep/serving_candidates.h"

namespace moesim {

/// What a worker finds out about a kind: times of passes that decode 1, 2, 4, ... sequences per
/// rank, and of one that computes a prompt's chunk on every rank.
struct KindTimes {
  std::vector<double> decode;  // s
  double prompt_rate = 0;      // tokens per second
  std::string why;             // it cannot run; else empty
  TokenRates rates = {};       // of its exchanges of tokens
};

/// Of the requests of a log, all of which are in flight unless it limits them.
ServingDemand demand_of(const RequestLog& log, int gpus);
/// The inputs of a scenario whose degrees an advice chooses: if its own cannot form a grid of the
/// GPUs, experts are over all of them. Throws as open_inputs.
Inputs open_for_advice(Scenario& scenario);
/// The scenario of one instance of that kind, with its degrees.
Scenario scenario_of_kind(const std::string& file, const std::vector<Override>& flags,
                          const ServingInstanceKind& kind);
/// Throws Error, which is why a kind or a plan did not run, if `stop` says that the time is over.
void check_time(const std::function<bool()>& stop);
/// Simulates them in this process; `why` says what keeps the kind from running.
KindTimes times_of(const std::string& file, const std::vector<Override>& flags,
                   const ServingInstanceKind& kind, const ServingDemand& demand,
                   const std::function<bool()>& stop);

/// Linear between the sampled numbers of sequences. Kinds and times must outlive it.
class SampledRates : public KindRates {
 public:
  SampledRates(const std::vector<ServingInstanceKind>& kinds, const std::vector<KindTimes>& times)
      : kinds_(kinds), times_(times) {}
  double decode_time(std::size_t kind, double sequences) override;
  double prompt_tokens_per_second(std::size_t kind) override { return times_[kind].prompt_rate; }

 private:
  const std::vector<ServingInstanceKind>& kinds_;
  const std::vector<KindTimes>& times_;
};

}  // namespace moesim
