// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "sim/launched/shell_script.h"

namespace moesim {

/// "#SBATCH --nodes=4", "#SBATCH -N 4": their flags, and the variables that Slurm sets by them.
void take_batch_lines(const std::string& text, const std::string& file, ShellScript& script);

}  // namespace moesim
