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
    const LinedText& value = found->second.front();
    if (std::string_view(flag) == "--gres" && !value.text.starts_with("gpu") &&
        value.text.find(",gpu") == value.text.npos) {
      continue;
    }
    const TextPart count = gpu_count_in(value.text);
    for (const char* name : names) {
      script.variables[name].items = {value.part(count.begin, count.end)};
    }
    return;
  }
}

/// The flags of a line, the last of equal ones, as Slurm takes them.
void take_flags(const std::vector<LinedText>& words, ShellScript& script) {
  for (std::size_t w = 0; w < words.size(); ++w) {
    const std::string& flag = words[w].text;
    if (!flag.starts_with('-')) continue;
    const bool named = flag.starts_with("--");
    const std::size_t end = std::min(named ? flag.find('=') : std::size_t{2}, flag.size());
    auto& values = script.sbatch[flag.substr(0, end)];
    values.clear();
    if (end < flag.size()) {
      values = {words[w].part(end + (named ? 1 : 0), flag.size())};
    } else if (w + 1 < words.size() && !words[w + 1].text.starts_with('-')) {
      values = {words[++w]};
    }
  }
}

}  // namespace

TextPart gpu_count_in(std::string_view value) {
  std::size_t begin = 0;
  for (std::size_t comma; (comma = value.find(',', begin)) != value.npos; begin = comma + 1) {
    if (value.substr(begin).starts_with("gpu")) break;
  }
  const std::size_t end = std::min(value.find_first_of(",(", begin), value.size());
  const std::size_t colon = value.substr(begin, end - begin).rfind(':');
  return {colon == value.npos ? begin : begin + colon + 1, end};
}

void take_batch_lines(const std::string& text, const std::string& file, ShellScript& script) {
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (!line.starts_with("#SBATCH") || line.size() == 7) continue;
    if (line[7] != ' ' && line[7] != '\t') continue;
    const LinedText lined = LinedText::of(line.substr(8), number);
    const auto commands = raw_commands(lined, file);
    if (!commands.empty()) take_flags(commands.front().words, script);
  }
  set_by_flag(script, {"--nodes", "-N"}, {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"});
  set_by_flag(script, {"--gpus-per-node", "--gres"}, {"SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"});
  set_by_flag(script, {"--ntasks-per-node"}, {"SLURM_NTASKS_PER_NODE"});
  set_by_flag(script, {"--ntasks", "-n"}, {"SLURM_NTASKS"});
  set_by_flag(script, {"--gpus", "-G"}, {"SLURM_GPUS"});
}

}  // namespace moesim
