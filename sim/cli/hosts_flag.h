// SPDX-License-Identifier: Apache-2.0
// The flag --hosts of moesim calibrate.
#pragma once

#include <string>

#include "sim/linkfit/logs/read_log.h"

namespace moesim {

/// Takes hosts and slots from "8", from names as Slurm or mpirun take them ("gpu[001-008]",
/// "n1:8,n2:8"), or from a file of hosts ("n1 slots=8", "n1:8" or "rank 0=n1" in a line). Throws
/// Error for other texts.
void take_hosts(const std::string& text, LogChoice& choice);

}  // namespace moesim
