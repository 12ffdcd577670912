// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/worker_pool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <stdexcept>
#include <system_error>

#include "sim/base/processes.h"
#include "sim/base/wire.h"

namespace moesim {
namespace {

constexpr int longest_wait = 200;       // milliseconds
constexpr std::size_t units_ahead = 2;  // so that no worker waits for the next one
constexpr std::int64_t no_more = -1;

bool read_unit(int in, std::int64_t& unit) {
  ssize_t got = 0;
  do {
    got = ::read(in, &unit, sizeof unit);  // written in one piece, so it is read in one
  } while (got < 0 && errno == EINTR);
  return got == sizeof unit && unit != no_more;
}

/// In the child.
bool work(UnitRunner& runner, int in, int out) {
  ::signal(SIGINT, SIG_IGN);  // the parent stops its workers
  ::signal(SIGTERM, SIG_DFL);
  for (std::int64_t unit = 0; read_unit(in, unit);) {
    if (!write_frame(out, to_bytes(runner.run(unit)))) return false;
  }
  return true;
}

}  // namespace

WorkerPool::~WorkerPool() {
  for (const auto& [pipe, worker] : workers_) {
    ::kill(worker.process, SIGKILL);
    wait_for_end(worker.process);
    ::close(pipe);
    ::close(worker.in);
  }
}

void WorkerPool::start() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot make a pipe for a worker");
  }
  std::fflush(nullptr);
  const ChildProcess child = start_child([&](int out) { return work(work_.runner, ends[0], out); });
  ::close(ends[0]);
  workers_[child.out] = {child.id, ends[1]};
  hand_out(workers_[child.out]);
}

std::optional<std::int64_t> WorkerPool::next_unit() {
  if (!again_.empty()) {
    const std::int64_t unit = again_.front();
    again_.pop_front();
    return unit;
  }
  while (const auto unit = work_.claims.next()) {
    reached_ = *unit + 1;
    if (work_.wanted(*unit)) return unit;
  }
  return std::nullopt;
}

void WorkerPool::hand_out(Worker& worker) {
  const auto send = [&](std::int64_t unit) {
    // Where that fails the worker has ended, and whoever reads its rows finds out.
    write_all(worker.in, {reinterpret_cast<const char*>(&unit), sizeof unit});
  };
  while (worker.at.size() < units_ahead) {
    const auto unit = next_unit();
    if (!unit) break;
    worker.at.push_back(*unit);
    send(*unit);
  }
  if (worker.at.empty()) send(no_more);
}

std::vector<SweepRow> WorkerPool::wait() {
  if (!started_) {
    started_ = true;
    ::signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < work_.workers; ++i) start();
  }
  std::vector<pollfd> polled;
  for (const auto& [pipe, worker] : workers_) polled.push_back({pipe, POLLIN, 0});
  if (::poll(polled.data(), polled.size(), longest_wait) < 0 && errno != EINTR) {
    throw std::runtime_error("cannot wait for the workers");
  }
  std::vector<SweepRow> rows;
  for (const pollfd& p : polled) {
    if (p.revents != 0) read(p.fd, rows);
  }
  for (auto& [pipe, worker] : workers_) {
    if (worker.stopped.given_up(worker.process)) ::kill(worker.process, SIGKILL);
  }
  return rows;
}

void WorkerPool::read(int pipe, std::vector<SweepRow>& rows) {
  Worker& worker = workers_.at(pipe);
  if (!read_more(pipe, worker.bytes)) {
    const Worker gone = worker;
    workers_.erase(pipe);
    ::close(pipe);
    ::close(gone.in);
    return ended(gone, wait_for_end(gone.process), rows);
  }
  while (const auto frame = next_frame(worker.bytes)) {
    std::ranges::move(from_bytes<std::vector<SweepRow>>(*frame), std::back_inserter(rows));
    worker.at.pop_front();
    hand_out(worker);
  }
}

void WorkerPool::ended(const Worker& worker, int status, std::vector<SweepRow>& rows) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && worker.at.empty()) return;
  again_.insert(again_.begin(), worker.at.begin(), worker.at.end());
  if (!worker.at.empty() && !killed_once_.insert(worker.at.front()).second) {
    again_.pop_front();
    const std::string how = WIFSIGNALED(status)
                                ? fmt::format("was killed by signal {}", WTERMSIG(status))
                                : fmt::format("ended with status {}", WEXITSTATUS(status));
    std::ranges::move(work_.runner.not_run(worker.at.front(), sweep_failed,
                                           fmt::format("the worker {}, twice", how)),
                      std::back_inserter(rows));
  }
  start();
}

}  // namespace moesim
