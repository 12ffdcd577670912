// SPDX-License-Identifier: Apache-2.0
// A policy in a setting of a published table as it is simulated, with a folder for traces of even
// exchanges.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/base/temporary_folder.h"
#include "sim/evidence/published.h"
#include "sim/report/metrics.h"
#include "sim/scenario/inputs.h"

namespace moesim {

class PaperTraces {
 public:
  /// Draws what the settings ask for, each trace once, in worker processes.
  PaperTraces(const std::vector<PaperTable>& tables, int workers);

  /// The flags of the setting with its trace.
  std::vector<Override> flags(const PaperSetting& setting) const;

 private:
  TemporaryFolder folder_;
};

/// An even all-to-all as routing: as many tokens of equal size from every rank to every other.
struct EvenExchange {
  std::int64_t tokens = 0;  // of a rank
  std::int64_t hidden = 0;  // of a token, 4 bytes each
};
EvenExchange even_exchange(Bytes bytes, int ranks);

/// One policy, nothing of whose memory is checked: publications say that it fits. `flags` are those
/// of the setting.
Scenario scenario_of(const PaperSetting& setting, std::vector<Override> flags,
                     const PaperVariant& variant);

/// Hash of all files with their changes, and of all else that the scenario says.
std::string hash_of_inputs(const Scenario& scenario, const Inputs& inputs);

/// Simulates the iterations of a scenario of one policy, in this process. Throws Unsuitable where
/// they cannot be.
IterationFigures iteration_figures(const Scenario& scenario, const Inputs& inputs);

}  // namespace moesim
