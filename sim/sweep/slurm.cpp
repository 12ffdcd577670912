// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/slurm.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/platform.h"
#include "sim/base/processes.h"

namespace moesim {
namespace {

constexpr int usual_tasks = 16;

/// As a shell takes it for one word.
std::string shell_word(const std::string& word) {
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

/// "0-15" or "0-15%4" has 16 tasks.
int tasks_of(const std::string& array) {
  int last = 0, end = 0;
  const std::string range = array.substr(0, array.find('%'));
  const bool read = std::sscanf(range.c_str(), "0-%d%n", &last, &end) == 1;
  if (read && end == static_cast<int>(range.size()) && last >= 0) return last + 1;
  throw Error(fmt::format("--slurm: '--array={}' does not count from 0 on", array),
              "--array=0-15 makes 16 shards, --array=0-15%4 runs 4 of them at a time");
}

/// What a program prints, without the line's end.
std::string printed_by(std::vector<std::string> words) {
  const std::string program = find_program(words[0]);
  if (program.empty()) throw std::runtime_error(fmt::format("there is no {} here", words[0]));
  const ChildProcess child = start_child([&](int out) {
    ::dup2(out, STDOUT_FILENO);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::execv(program.c_str(), arguments.data());
    return false;
  });
  std::string printed;
  while (read_more(child.out, printed)) continue;
  ::close(child.out);
  const int status = wait_for_end(child.id);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw std::runtime_error(fmt::format("{} failed", words[0]));
  }
  while (!printed.empty() && printed.back() == '\n') printed.pop_back();
  return printed.substr(0, printed.find(';'));  // --parsable: "job;cluster"
}

}  // namespace

SlurmJobs slurm_jobs(const std::vector<std::string>& command, const std::string& file,
                     const std::string& flags) {
  const std::string array_flag = "--array=";
  int tasks = usual_tasks;
  std::vector<std::string> given;
  std::istringstream words(flags);
  for (std::string word; words >> word;) {
    if (word.starts_with(array_flag)) tasks = tasks_of(word.substr(array_flag.size()));
    given.push_back(word);
  }
  const auto sbatch = [&](const std::string& log) {
    return std::vector<std::string>{"sbatch",
                                    "--parsable",
                                    "--requeue",
                                    "--open-mode=append",
                                    "--job-name=moesim-sweep",
                                    "--output=" + file + log};
  };
  SlurmJobs jobs{sbatch(".slurm-%a.log"), sbatch(".slurm-merge.log")};
  jobs.array.push_back(fmt::format("{}0-{}", array_flag, tasks - 1));
  jobs.array.insert(jobs.array.end(), given.begin(), given.end());
  jobs.array.push_back(fmt::format("--wrap=exec {} --shard \"$SLURM_ARRAY_TASK_ID/{}\"",
                                   shell_line(command), tasks));
  for (const std::string& word : given) {
    if (!word.starts_with(array_flag)) jobs.merge.push_back(word);
  }
  jobs.merge.push_back(fmt::format("--wrap=exec {} --merge", shell_line(command)));
  return jobs;
}

std::pair<std::string, std::string> submit(const SlurmJobs& jobs) {
  const std::string array = printed_by(jobs.array);
  std::vector<std::string> merge = jobs.merge;
  merge.insert(merge.begin() + 1, "--dependency=afterok:" + array);
  return {array, printed_by(merge)};
}

std::vector<std::string> without_slurm(const std::vector<std::string>& words) {
  std::vector<std::string> kept;
  bool value = false;
  for (const std::string& word : words) {
    const bool flag = word == "--slurm";
    if (!flag && !value && !word.starts_with("--slurm=")) kept.push_back(word);
    value = flag;
  }
  kept[0] = own_program();
  return kept;
}

}  // namespace moesim
