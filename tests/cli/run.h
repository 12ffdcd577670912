// SPDX-License-Identifier: Apache-2.0
// Runs the moesim binary as a user would and keeps what it printed.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace moesim {

struct Outcome {
  int code = -1;   // exit status; -1 when a signal ended it
  int signal = 0;  // the signal, else 0
  std::string out, err;
  double cpu_seconds = 0;  // with its children
  double peak_bytes = 0;   // of memory
};

/// The moesim that is tested: $MOESIM_PROGRAM, or the one that was built.
std::filesystem::path moesim_program();

/// Where a command runs; everything it needs is named by absolute paths.
struct Surroundings {
  std::filesystem::path folder = MOESIM_ROOT;                  // working directory
  std::filesystem::path data = MOESIM_ROOT "/tests/cli/data";  // MOESIM_DATA; unset when empty
  std::filesystem::path output = {};                           // where stdout goes; kept when empty
  std::filesystem::path program = moesim_program();
  std::string typed = {};  // on a terminal, which then is standard input
  bool limited = false;    // to 10 s of a core and 2 GB, so that what hangs or swells ends
};

/// Output without its first line, which tells the version.
inline std::string without_version(const std::string& text) {
  return text.substr(text.find('\n') + 1);
}

/// A running moesim with its output going to files.
class Running {
 public:
  Running(const std::vector<std::string>& arguments, const Surroundings& surroundings);
  ~Running();  // kills what still runs
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  pid_t pid() const { return pid_; }
  /// The first child process that is not `before`, once there is one; 0 when ten seconds pass
  /// before.
  pid_t wait_for_child(pid_t before = 0) const;
  /// What still runs of the process group, the first process included.
  std::vector<pid_t> members() const;
  Outcome wait();

 private:
  pid_t pid_ = 0, group_ = 0;
  std::filesystem::path folder_;  // of stdout and stderr
};

/// Runs moesim to its end.
Outcome run_moesim(const std::vector<std::string>& arguments,
                   const Surroundings& surroundings = {});
/// With the files that are shipped.
Outcome run_shipped(const std::vector<std::string>& arguments);

/// A command over the hand-sized trace, its model and one of the clusters in tests/cli/data.
std::vector<std::string> on_hand_trace(const std::string& command, const std::string& topology,
                                       const std::vector<std::string>& policies,
                                       const std::vector<std::string>& more = {});

/// A folder of its own, removed with all it holds.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string content(const std::filesystem::path& file);

/// Compares with the file, or rewrites it when MOESIM_ACCEPT=1.
void expect_golden(const std::filesystem::path& file, const std::string& text);

}  // namespace moesim
