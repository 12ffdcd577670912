// SPDX-License-Identifier: Apache-2.0
// The process that simulates for the page, and the page itself, by how they end.
#include "sim/explore/simulating.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/base/platform.h"
#include "sim/base/processes.h"
#include "sim/base/stop_signals.h"
#include "sim/base/temporary_folder.h"
#include "sim/explore/explore.h"
#include "sim/explore/http.h"

namespace moesim {
namespace {

/// The exit status of a process that simulates what it is asked, and whether all of it was read.
int status_after(const std::vector<std::string>& requests, bool is_heard) {
  const TemporaryFolder drops;
  const auto in = make_pipe();
  const ChildProcess child = start_child([&](int out) {
    ::signal(SIGPIPE, SIG_IGN);
    ::close(in[1]);
    return simulate_for_page({"1.2", {}, drops.path(), 1}, in[0], out);
  });
  ::close(in[0]);
  if (!is_heard) ::close(child.out);
  for (const std::string& request : requests) EXPECT_TRUE(write_frame(in[1], request));
  ::close(in[1]);
  std::string bytes;
  std::size_t answers = 0;
  while (is_heard && read_more(child.out, bytes)) {
    while (const auto frame = next_frame(bytes)) {
      EXPECT_EQ(frame->front(), static_cast<char>(PageNews::error)) << *frame;
      ++answers;
    }
  }
  if (is_heard) ::close(child.out);
  EXPECT_EQ(answers, is_heard ? requests.size() : 0);
  const int status = wait_for_end(child.id);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST(SimulatingProcess, EndsWellIfItsAnswersWereRead) {
  EXPECT_EQ(status_after({}, true), 0);
  EXPECT_EQ(status_after({"{}", "no JSON", "[]"}, true), 0);
  EXPECT_EQ(status_after({}, false), 0) << "nothing was asked";
  EXPECT_EQ(status_after({"{}"}, false), 1);
}

/// Serves a page in a process of its own, which writes its number and then how it ended.
void serve_and_tell(int out) {
  ExploreOptions options;
  options.version = "1.2";
  options.port = 0;
  options.ready = [&](const std::string&) { write_all(out, std::to_string(::getpid()) + "\n"); };
  try {
    explore(options);
    write_all(out, "returned");
  } catch (const Interrupted& e) {
    write_all(out, "signal " + std::to_string(e.signal()) + ": " + e.what());
  } catch (const std::exception& e) {
    write_all(out, e.what());
  }
}

/// How a page ends when its parent is killed, or it gets SIGTERM.
std::string end_of_page(bool by_its_parent) {
  const auto pipe = make_pipe();
  const pid_t parent = ::fork();
  if (parent == 0) {
    ::close(pipe[0]);
    if (::fork() == 0) {
      serve_and_tell(pipe[1]);
      ::_exit(0);
    }
    ::close(pipe[1]);
    ::pause();
    ::_exit(0);
  }
  ::close(pipe[1]);
  std::string said;
  while (said.find('\n') == std::string::npos && read_more(pipe[0], said)) continue;
  const pid_t page = std::stoi(said);
  ::kill(by_its_parent ? parent : page, by_its_parent ? SIGKILL : SIGTERM);
  while (read_more(pipe[0], said)) continue;
  ::close(pipe[0]);
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  return said.substr(said.find('\n') + 1);
}

TEST(ServedPage, EndsWithItsParentAsWellAsBySignals) {
  if (!why_no_http().empty()) GTEST_SKIP() << why_no_http();
  EXPECT_EQ(end_of_page(true), "returned");
  EXPECT_EQ(end_of_page(false), "signal 15: the page is closed");
}

}  // namespace
}  // namespace moesim
