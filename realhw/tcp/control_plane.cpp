// SPDX-License-Identifier: Apache-2.0
#include "realhw/tcp/control_plane.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace moesim {

ControlPlane::ControlPlane(int rank, std::vector<Socket> peers, const Liveness& liveness)
    : rank_(rank),
      liveness_(liveness),
      peers_(peers.size()),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  for (std::size_t i = 0; i < peers.size(); ++i) peers_[i].socket = std::move(peers[i]);
  thread_ = std::thread([this] { work(); });
}

ControlPlane::~ControlPlane() {
  {
    std::unique_lock lock(mutex_);
    leaving_ = true;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (!peers_[i].socket.open()) continue;
      peers_[i].outgoing.push_back(frame(Kind::goodbye, ""));
      flush(static_cast<int>(i));
    }
    wake();
    changed_.wait(lock, [this] { return all_sent() || failure_; });
    changed_.wait_for(lock, liveness_.farewell, [this] { return all_closed(); });
    stop_ = true;
  }
  wake();
  thread_.join();
}

void ControlPlane::send(int peer, std::string_view message, std::string_view for_) {
  const std::lock_guard lock(mutex_);
  Peer& to = peers_.at(static_cast<std::size_t>(peer));
  if (failure_) complain(for_, failure_->reason);
  if (message.size() > longest_message) {
    complain(for_,
             fmt::format("a message of {} bytes, where {} fit", message.size(), longest_message));
  }
  if (to.left || !to.socket.open()) complain(for_, fmt::format("rank {} has left the run", peer));
  to.outgoing.push_back(frame(Kind::message, message));
  flush(peer);  // now, so that a message costs no change of threads
  if (!to.outgoing.empty()) wake();
}

std::string ControlPlane::receive(int peer, std::string_view for_) {
  std::unique_lock lock(mutex_);
  Peer& from = peers_.at(static_cast<std::size_t>(peer));
  changed_.wait(
      lock, [&] { return !from.inbox.empty() || failure_ || from.left || !from.socket.open(); });
  if (failure_) complain(for_, failure_->reason);
  if (from.inbox.empty()) complain(for_, fmt::format("rank {} has left the run", peer));
  std::string message = std::move(from.inbox.front());
  from.inbox.pop_front();
  return message;
}

void ControlPlane::check() {
  const std::lock_guard lock(mutex_);
  if (failure_) throw std::runtime_error(failure_->reason);
}

void ControlPlane::abort(int code) {
  std::unique_lock lock(mutex_);
  fail({fmt::format("rank {} has ended the run", rank_), code});
  wake();
  changed_.wait_for(lock, liveness_.farewell, [this] { return all_closed(); });
  std::fflush(nullptr);
  std::_Exit(failure_->code);
}

void ControlPlane::complain(std::string_view for_, const std::string& why) const {
  throw std::runtime_error(fmt::format("rank {}, {}: {}", rank_, for_, why));
}

std::string ControlPlane::frame(Kind kind, std::string_view text, int code) {
  const Head head{kind, code, text.size()};
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
  return bytes.append(text);
}

bool ControlPlane::all_sent() const {
  for (const Peer& peer : peers_) {
    if (peer.socket.open() && !peer.outgoing.empty()) return false;
  }
  return true;
}

bool ControlPlane::all_closed() const {
  for (const Peer& peer : peers_) {
    if (peer.socket.open()) return false;
  }
  return true;
}

void ControlPlane::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.fd(), &one, sizeof one);  // full: awake
}

void ControlPlane::work() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    watch(lock);
    keep_time();  // after all that has come was read: this process may have been stopped
  }
}

/// Waits for a socket that can be read or written, for a beat at most, and does so.
void ControlPlane::watch(std::unique_lock<std::mutex>& lock) {
  std::vector<pollfd> polled{{wake_.fd(), POLLIN, 0}};
  std::vector<int> ranks{rank_};
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    const Peer& peer = peers_[i];
    if (!peer.socket.open()) continue;
    const int events = peer.outgoing.empty() ? POLLIN : POLLIN | POLLOUT;
    polled.push_back({peer.socket.fd(), static_cast<short>(events), 0});
    ranks.push_back(static_cast<int>(i));
  }
  const auto beat = std::chrono::ceil<std::chrono::milliseconds>(liveness_.beat);
  lock.unlock();
  poll(polled.data(), polled.size(), static_cast<int>(beat.count()));
  lock.lock();
  if (polled[0].revents != 0) {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = ::read(wake_.fd(), &count, sizeof count);
  }
  for (std::size_t i = 1; i < polled.size(); ++i) {
    if ((polled[i].revents & POLLOUT) != 0) flush(ranks[i]);
    if ((polled[i].revents & ~POLLOUT) != 0) read(ranks[i]);
  }
}

/// Beats, notices who is silent, and ends a process whose main thread heeds no failure.
void ControlPlane::keep_time() {
  const Clock::time_point now = Clock::now();
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    Peer& peer = peers_[i];
    if (!peer.socket.open()) continue;
    const auto rank = static_cast<int>(i);
    if (now - peer.heard > liveness_.silence) {
      const std::chrono::duration<double> silent = now - peer.heard;
      close(rank, fmt::format("nothing was heard of it for {:.1f} s", silent.count()));
    } else if (now - peer.spoken >= liveness_.beat && peer.outgoing.empty() && !leaving_) {
      peer.outgoing.push_back(frame(Kind::beat, ""));
      flush(rank);
    }
  }
  if (failure_ && !leaving_ && now - failure_->noticed > liveness_.grace) {
    fmt::print(stderr, "moesim-hw: the run failed: rank {}: {}\n", rank_, failure_->reason);
    std::_Exit(failure_->code);
  }
}

void ControlPlane::flush(int rank) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  while (peer.socket.open() && !peer.outgoing.empty()) {
    const std::string& first = peer.outgoing.front();
    const auto sent = ::send(peer.socket.fd(), first.data() + peer.sent, first.size() - peer.sent,
                             MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return;
    if (sent < 0) return close(rank, std::strerror(errno));
    peer.spoken = Clock::now();
    peer.sent += static_cast<std::size_t>(sent);
    if (peer.sent < first.size()) continue;
    peer.outgoing.pop_front();
    peer.sent = 0;
  }
  if (!peer.socket.open()) return;
  if (leaving_ || failure_) ::shutdown(peer.socket.fd(), SHUT_WR);
  changed_.notify_all();
}

void ControlPlane::read(int rank) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  char bytes[1 << 16];
  while (peer.socket.open()) {
    const auto got = recv(peer.socket.fd(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got < 0) return close(rank, std::strerror(errno));
    if (got == 0) return close(rank, "its connection was closed");
    peer.heard = Clock::now();
    peer.incoming.append(bytes, static_cast<std::size_t>(got));
    Head head;
    while (peer.incoming.size() >= sizeof head) {
      std::memcpy(&head, peer.incoming.data(), sizeof head);
      const std::string why = misfit(head);
      if (!why.empty()) return close(rank, why);
      if (peer.incoming.size() - sizeof head < head.size) break;
      take(rank, head, peer.incoming.substr(sizeof head, head.size));
      peer.incoming.erase(0, sizeof head + head.size);
    }
  }
}

/// What is wrong with the head of a frame: nothing of a peer's word is taken before it fits.
std::string ControlPlane::misfit(const Head& head) {
  if (head.kind > Kind::goodbye) {
    return fmt::format("it sent a frame of unknown kind {}", static_cast<unsigned>(head.kind));
  }
  const std::uint64_t most = head.kind == Kind::message   ? longest_message
                             : head.kind == Kind::failure ? longest_reason
                                                          : 0;
  if (head.size <= most) return "";
  return fmt::format("it announced {} bytes where {} fit", head.size, most);
}

void ControlPlane::take(int rank, const Head& head, std::string text) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (head.kind == Kind::message) peer.inbox.push_back(std::move(text));
  if (head.kind == Kind::failure) fail({std::move(text), head.code});
  if (head.kind == Kind::goodbye) peer.left = true;
  changed_.notify_all();
}

/// A peer that has not said goodbye is gone.
void ControlPlane::close(int rank, const std::string& why) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  peer.socket = Socket();
  peer.outgoing.clear();
  if (!peer.left && !leaving_) fail({fmt::format("rank {} is gone: {}", rank, why)});
  changed_.notify_all();
}

/// Keeps the first failure and passes it on, before anything else that waits to be sent.
void ControlPlane::fail(Failure failure) {
  if (failure_) return;
  failure_ = std::move(failure);
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    Peer& peer = peers_[i];
    if (!peer.socket.open()) continue;
    peer.outgoing.erase(peer.outgoing.begin() + (peer.sent > 0 ? 1 : 0), peer.outgoing.end());
    peer.outgoing.push_back(
        frame(Kind::failure, failure_->reason.substr(0, longest_reason), failure_->code));
    flush(static_cast<int>(i));
  }
  changed_.notify_all();
}

}  // namespace moesim
