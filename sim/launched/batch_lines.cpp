// SPDX-License-Identifier: Apache-2.0
#include "sim/launched/batch_lines.h"

#include <algorithm>
#include <initializer_list>

#include "sim/launched/shell_lexer.h"

namespace moesim {
namespace {

/// Sets variables to the value of the first of these flags that is there.
void set_by_flag(ShellScript& script, std::initializer_list<const char*> flags,
                 std::initializer_list<const char*> names) {
  for (const char* flag : flags) {
    const auto found = script.sbatch.find(flag);
    if (found == script.sbatch.end() || found->second.empty()) continue;
    LinedText value = found->second.front();
    const std::size_t colon = value.text.rfind(':');  // --gres=gpu:h100:8
    if (colon != value.text.npos) value = value.part(colon + 1, value.text.size());
    for (const char* name : names) script.variables[name].items = {value};
    return;
  }
}

}  // namespace

void take_batch_lines(const std::string& text, const std::string& file, ShellScript& script) {
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (!line.starts_with("#SBATCH ")) continue;
    const LinedText lined = LinedText::of(line.substr(8), number);
    const auto commands = raw_commands(lined, file);
    if (commands.empty()) continue;
    const std::vector<LinedText>& words = commands.front().words;
    const std::string& flag = words.front().text;
    const std::size_t sign = flag.starts_with("--") ? flag.find('=') : flag.npos;
    auto& values = script.sbatch[flag.substr(0, sign)];
    if (sign != flag.npos) values.push_back(words.front().part(sign + 1, flag.size()));
    values.insert(values.end(), words.begin() + 1, words.end());
  }
  set_by_flag(script, {"--nodes", "-N"}, {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"});
  set_by_flag(script, {"--gpus-per-node", "--gres"}, {"SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"});
  set_by_flag(script, {"--ntasks-per-node"}, {"SLURM_NTASKS_PER_NODE"});
  set_by_flag(script, {"--ntasks", "-n"}, {"SLURM_NTASKS"});
}

}  // namespace moesim
