// SPDX-License-Identifier: Apache-2.0
// Which deployment serves a scenario's requests within an SLA with the most tokens per GPU.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/base/yaml.h"
#include "sim/print/table.h"
#include "sim/serving/deployment/sla.h"

namespace moesim {

struct ServingAdviceOptions {
  std::string version;
  std::string sla;  // as parse_sla takes it
  int workers = 1;
  int shown = 5;
  int finals = 8;  // plans that an engine runs
  /// Asked between passes, in processes of their own, too; then what is left does not run.
  std::function<bool()> stop = [] { return false; };
};

/// Prices a few passes of every kind of instance, ranks all plans roughly by them, and runs the
/// engine for the best ones of one pool and of pools apart. The table has them by tokens per second
/// and GPU, plans that break the SLA last, with why; lines below it start the best one. Throws
/// Error for a scenario without requests or with several topologies, and if no kind can run.
Printout advise_serving(const std::string& file, const std::vector<Override>& flags,
                        const ServingAdviceOptions& options);

}  // namespace moesim
