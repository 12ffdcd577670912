// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "sim/launched/shell_script.h"

namespace moesim {

struct TextPart {
  std::size_t begin, end;
};
/// Where "gpu:h100:8(S:0-1),nvme:1", "h100:8" or "8" says how many.
TextPart gpu_count_in(std::string_view value);

/// "#SBATCH --nodes=4", "#SBATCH -N 4": their flags, and the variables that Slurm sets by them.
void take_batch_lines(const std::string& text, const std::string& file, ShellScript& script);

}  // namespace moesim
