// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace fs = std::filesystem;

namespace moesim {
namespace {

void limit() {
  const rlimit seconds{10, 10};
  ::setrlimit(RLIMIT_CPU, &seconds);
#ifndef __SANITIZE_ADDRESS__  // which reserves terabytes
  const rlimit memory{2'000'000'000, 2'000'000'000};
  ::setrlimit(RLIMIT_AS, &memory);
#endif
}

/// A terminal on which somebody has typed this.
int terminal_with(const std::string& typed) {
  const int person = ::posix_openpt(O_RDWR | O_NOCTTY);
  ::grantpt(person);
  ::unlockpt(person);
  const int terminal = ::open(::ptsname(person), O_RDWR | O_NOCTTY);
  return ::write(person, typed.data(), typed.size()) > 0 ? terminal : -1;
}

/// Replaces the calling process, between fork and exec.
[[noreturn]] void become_moesim(const std::vector<std::string>& arguments,
                                const Surroundings& surroundings, const fs::path& folder) {
  std::string program = surroundings.program;
  std::vector<std::string> copies = arguments;
  std::vector<char*> argv = {program.data()};
  for (std::string& argument : copies) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const fs::path kept = surroundings.output.empty() ? folder / "out" : surroundings.output;
  const int out = ::open(kept.c_str(), O_WRONLY | O_CREAT, 0666);
  const int err = ::open((folder / "err").c_str(), O_WRONLY | O_CREAT, 0666);
  ::dup2(surroundings.typed.empty() ? ::open("/dev/null", O_RDONLY)
                                    : terminal_with(surroundings.typed),
         STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  if (surroundings.data.empty()) {
    ::unsetenv("MOESIM_DATA");
  } else {
    ::setenv("MOESIM_DATA", surroundings.data.c_str(), 1);
  }
  // Else Open MPI starts a daemon for every moesim-hw and looks for networks, which take longer
  // than the run.
  ::setenv("OMPI_MCA_ess_singleton_isolated", "1", 1);
  ::setenv("OMPI_MCA_pml", "ob1", 1);
  ::setenv("OMPI_MCA_btl", "self", 1);
  ::setpgid(0, 0);
  if (surroundings.limited) limit();
  if (::chdir(surroundings.folder.c_str()) == 0) ::execv(program.c_str(), argv.data());
  ::_exit(127);
}

/// The first process whose parent is `parent`, or 0.
pid_t child_of(pid_t parent) {
  const std::string task = fmt::format("/proc/{0}/task/{0}/children", parent);
  std::ifstream children(task);
  pid_t child = 0;
  children >> child;
  return child;
}

}  // namespace

Running::Running(const std::vector<std::string>& arguments, const Surroundings& surroundings) {
  std::string pattern = (fs::temp_directory_path() / "moesim-run-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
  folder_ = pattern;
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("cannot fork");
  if (pid_ == 0) become_moesim(arguments, surroundings, folder_);
  ::setpgid(pid_, pid_);  // here, too: whoever comes first
  group_ = pid_;
}

Running::~Running() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  fs::remove_all(folder_);
}

pid_t Running::wait_for_child(pid_t before) const {
  for (int i = 0; i < 60'000; ++i) {
    const pid_t child = child_of(pid_);
    if (child != 0 && child != before) return child;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return 0;
}

std::vector<pid_t> Running::members() const {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::string stat = content(entry.path() / "stat");  // PID (NAME) STATE PARENT GROUP ...
    const auto end = stat.rfind(')');
    if (end == std::string::npos) continue;
    std::istringstream rest(stat.substr(end + 1));
    char state = 0;
    pid_t parent = 0, group = 0;
    rest >> state >> parent >> group;
    if (group == group_ && state != 'Z' && state != 'X') {
      found.push_back(std::stoi(entry.path().filename()));
    }
  }
  return found;
}

Outcome Running::wait() {
  int status = 0;
  rusage used{};
  ::wait4(pid_, &status, 0, &used);
  pid_ = 0;
  Outcome outcome;
  for (const timeval& time : {used.ru_utime, used.ru_stime}) {
    outcome.cpu_seconds +=
        static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  }
  outcome.peak_bytes = 1024.0 * static_cast<double>(used.ru_maxrss);
  if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  outcome.out = content(folder_ / "out");
  outcome.err = content(folder_ / "err");
  return outcome;
}

fs::path moesim_program() {
  const char* program = std::getenv("MOESIM_PROGRAM");
  return program != nullptr ? program : MOESIM_BINARY;
}

Outcome run_moesim(const std::vector<std::string>& arguments, const Surroundings& surroundings) {
  return Running(arguments, surroundings).wait();
}

Outcome run_shipped(const std::vector<std::string>& arguments) {
  Surroundings shipped;
  shipped.data = MOESIM_ROOT;
  return run_moesim(arguments, shipped);
}

Scratch::Scratch() {
  std::string pattern = (fs::temp_directory_path() / "moesim-test-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
  path_ = pattern;
}

Scratch::~Scratch() { fs::remove_all(path_); }

std::string content(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void expect_golden(const fs::path& file, const std::string& text) {
  const char* accept = std::getenv("MOESIM_ACCEPT");
  if (accept != nullptr && std::string(accept) == "1") {
    std::ofstream(file, std::ios::binary) << text;
    return;
  }
  EXPECT_EQ(text, content(file)) << "MOESIM_ACCEPT=1 rewrites " << file;
}

std::vector<std::string> on_hand_trace(const std::string& command, const std::string& topology,
                                       const std::vector<std::string>& policies,
                                       const std::vector<std::string>& more) {
  std::vector<std::string> words = {command,
                                    "--topology",
                                    topology,
                                    "--model",
                                    "hand",
                                    "--trace",
                                    MOESIM_ROOT "/tests/fixtures/traces/hand"};
  for (const std::string& policy : policies) words.insert(words.end(), {"--policy", policy});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace moesim
