// SPDX-License-Identifier: Apache-2.0
// The one launch that a script, a log or YAML has, as arguments by name.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/launched/lined_text.h"
#include "sim/launched/named_arguments.h"
#include "sim/launched/shell_script.h"

namespace moesim {

enum class LaunchSoftware { megatron, vllm, sglang, trtllm };
/// As people write it: "Megatron-LM", "vLLM".
const char* name_of(LaunchSoftware software);

struct LaunchFile {
  LaunchSoftware software = LaunchSoftware::megatron;
  NamedArguments arguments;
  std::vector<LinedText> others;  // words that belong to no flag
  NamedArguments launcher;        // of torchrun, srun, mpirun and #SBATCH
  /// All arguments of the program, defaults included: what is not known there is no surprise.
  bool dump = false;
  bool yaml = false;  // keys that nobody states have defaults of their own
  std::map<std::string, LinedText> environment;  // of variables such as VLLM_ALL2ALL_BACKEND
  ShellScript script;                            // undecided variables, documents
};

LaunchFile launch_file_of(const std::string& text, const std::string& file);

}  // namespace moesim
