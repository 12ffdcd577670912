// SPDX-License-Identifier: Apache-2.0
#include "sim/run/worker_pool.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "sim/base/platform.h"
#include "sim/base/processes.h"
#include "sim/base/stop_signals.h"

namespace moesim {
namespace {

constexpr std::size_t pieces_ahead = 2;  // so that no worker waits for the next one
constexpr std::int64_t no_more = -1;

bool read_piece(int in, std::int64_t& piece) {
  ssize_t got = 0;
  do {
    got = ::read(in, &piece, sizeof piece);  // written in one go, so it is read in one
  } while (got < 0 && errno == EINTR);
  return got == sizeof piece && piece != no_more;
}

void send_piece(int in, std::int64_t piece) {
  // If that fails the worker has ended, and whoever reads its frames finds out.
  write_all(in, {reinterpret_cast<const char*>(&piece), sizeof piece});
}

/// In the child.
bool run_pieces(const PoolWork& work, int in, int out) {
  hold_back_stop_signals();
  const PoolWork::Tell tell = [out](const std::string& frame) { return write_frame(out, frame); };
  for (std::int64_t piece = 0; read_piece(in, piece);) {
    if (!work.run(piece, tell)) return false;
  }
  return true;
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) {
    return fmt::format(
        "the worker was killed by signal {}{}", WTERMSIG(status),
        WTERMSIG(status) == SIGKILL ? ", as the kernel does if memory runs out" : "");
  }
  return fmt::format("the worker ended with status {} and without a result", WEXITSTATUS(status));
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

std::optional<std::int64_t> WorkerPool::next_piece() {
  if (!again_.empty()) {
    const std::int64_t piece = again_.front();
    again_.pop_front();
    return piece;
  }
  if (out_of_work_) return std::nullopt;
  const auto piece = work_.next();
  out_of_work_ = !piece;
  return piece;
}

void WorkerPool::start(std::int64_t piece) {
  const std::array<int, 2> ends = make_pipe();
  std::fflush(nullptr);
  const ChildProcess child = start_child([&](int out) { return run_pieces(work_, ends[0], out); });
  ::close(ends[0]);
  Worker& worker = workers_[child.out];
  worker.process = child.id;
  worker.in = ends[1];
  worker.stopped = StoppedChild(work_.patience);
  worker.pieces.push_back(piece);
  send_piece(worker.in, piece);
}

void WorkerPool::start_workers() {
  bool started = false;
  while (std::ssize(workers_) < std::max(work_.workers, 1)) {
    const auto piece = next_piece();
    if (!piece) break;
    start(*piece);
    started = true;
  }
  // Everybody has a first piece before anybody has a second.
  if (!started) return;
  for (auto& [pipe, worker] : workers_) hand_out(worker);
}

void WorkerPool::hand_out(Worker& worker) {
  if (worker.leaves) return;  // it would end with what it gets now, unread
  while (work_.kept && worker.pieces.size() < pieces_ahead) {
    const auto piece = next_piece();
    if (!piece) break;
    worker.pieces.push_back(*piece);
    send_piece(worker.in, *piece);
  }
  worker.leaves = !work_.kept || worker.pieces.empty();
  if (worker.leaves) send_piece(worker.in, no_more);
}

void WorkerPool::wait(std::chrono::milliseconds longest, int wake) {
  ::signal(SIGPIPE, SIG_IGN);  // a worker may end before it has read its next piece
  start_workers();
  if (workers_.empty()) return;
  std::vector<pollfd> polled = {{wake, POLLIN, 0}};  // poll() leaves out a negative file
  for (const auto& [pipe, worker] : workers_) polled.push_back({pipe, POLLIN, 0});
  if (::poll(polled.data(), polled.size(), static_cast<int>(longest.count())) < 0 &&
      errno != EINTR) {
    throw std::runtime_error("cannot wait for the workers");
  }
  for (const pollfd& p : polled) {
    if (p.revents != 0 && p.fd != wake) read(p.fd);
  }
  for (auto& [pipe, worker] : workers_) {
    if (!worker.stopped.given_up(worker.process)) continue;
    worker.given_up = true;
    ::kill(worker.process, SIGKILL);
  }
}

void WorkerPool::read(int pipe) {
  Worker& worker = workers_.at(pipe);
  if (!read_more(pipe, worker.bytes)) {
    const Worker gone = worker;
    workers_.erase(pipe);
    ::close(pipe);
    ::close(gone.in);
    return ended(gone, wait_for_end(gone.process));
  }
  while (auto frame = next_frame(worker.bytes)) {
    if (!work_.told(worker.pieces.front(), std::move(*frame))) continue;
    worker.pieces.pop_front();
    hand_out(worker);
  }
}

void WorkerPool::ended(const Worker& worker, int status) {
  if (worker.pieces.empty()) return;
  again_.insert(again_.begin(), worker.pieces.begin() + 1, worker.pieces.end());
  const std::int64_t piece = worker.pieces.front();
  const std::string how =
      worker.given_up ? "the worker was " + stopped_reason(work_.patience) : how_it_ended(status);
  if (work_.lost(piece, how)) again_.push_front(piece);
}

}  // namespace moesim
