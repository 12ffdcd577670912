// SPDX-License-Identifier: Apache-2.0
#include "sim/explore/runs.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "sim/base/platform.h"
#include "sim/base/processes.h"
#include "sim/base/read_number.h"
#include "sim/base/stop_signals.h"

namespace moesim {
namespace {

constexpr std::size_t most_kept = 32;      // ended runs that may still be asked for
constexpr std::chrono::seconds to_end(3);  // for a run that was cancelled
constexpr std::chrono::milliseconds parent_look(200);

std::string failure_json(const std::string& text) {
  return nlohmann::ordered_json{{"error", text}, {"kind", "failure"}}.dump();
}

}  // namespace

Runs::Runs(SimulatingOptions options) : options_(std::move(options)) {
  wake_ = make_pipe(false);
  ::signal(SIGPIPE, SIG_IGN);  // the process may end before it has read a request
  start_process();
}

Runs::~Runs() {
  end_process();
  ::close(wake_[0]);
  ::close(wake_[1]);
}

void Runs::start_process() {
  const std::array<int, 2> in = make_pipe();
  std::fflush(nullptr);
  const ChildProcess child = start_child([&](int out) {
    ::close(in[1]);  // else the end of the parent would not end its requests
    return simulate_for_page(options_, in[0], out);
  });
  ::close(in[0]);
  process_ = {child.id, in[1], child.out};
}

void Runs::end_process() {
  if (process_.id < 0) return;
  ::kill(process_.id, SIGKILL);
  wait_for_end(process_.id);
  ::close(process_.in);
  ::close(process_.out);
  process_ = {};
}

bool Runs::is_overtaken(const std::string& client, std::int64_t asked) const {
  return asked >= 0 && std::ranges::any_of(states_, [&](const auto& state) {
           return state.second.client == client && state.second.asked > asked;
         });
}

std::int64_t Runs::start(const std::string& client, std::int64_t asked,
                         const std::string& request) {
  const std::lock_guard guard(mutex_);
  const bool overtaken = !client.empty() && is_overtaken(client, asked);
  const std::int64_t run = ++last_;
  states_[run].client = client;
  states_[run].asked = asked;
  forget_old();
  if (overtaken) {
    withdraw(run);
    return run;
  }
  if (!client.empty()) {
    std::erase_if(queue_, [&](const Waiting& before) {
      if (states_[before.run].client != client) return false;
      withdraw(before.run);
      return true;
    });
    if (RunState* now = current(); now && now->client == client) cancel_wanted_ = true;
  }
  queue_.push_back({run, request});
  changed_.notify_all();
  wake_up();
  return run;
}

void Runs::withdraw(std::int64_t run) {
  states_[run].stage = RunState::Stage::cancelled;
  ++states_[run].change;
}

void Runs::cancel(std::int64_t run) {
  const std::lock_guard guard(mutex_);
  if (running_ == run) cancel_wanted_ = true;
  if (std::erase_if(queue_, [&](const Waiting& each) { return each.run == run; }) != 0) {
    withdraw(run);
    changed_.notify_all();
  }
  wake_up();
}

void Runs::wake_up() const { [[maybe_unused]] const ssize_t written = ::write(wake_[1], "w", 1); }

std::optional<RunState> Runs::wait(std::int64_t run, std::uint64_t seen,
                                   std::chrono::milliseconds longest) {
  std::unique_lock lock(mutex_);
  const auto moved = [&] {
    const auto found = states_.find(run);
    return closed_ || found == states_.end() || found->second.ended() ||
           found->second.change > seen;
  };
  changed_.wait_for(lock, longest, moved);
  const auto found = states_.find(run);
  return found == states_.end() ? std::nullopt : std::optional(found->second);
}

RunState* Runs::current() { return running_ ? &states_[*running_] : nullptr; }

void Runs::forget_old() {
  while (states_.size() > most_kept) {
    const auto old = std::ranges::find_if(states_, [](const auto& s) { return s.second.ended(); });
    if (old == states_.end()) return;
    states_.erase(old);
  }
}

void Runs::end(RunState::Stage stage) {
  if (RunState* run = current()) {
    run->stage = stage;
    ++run->change;
  }
  running_.reset();
  cancelling_ = cancel_wanted_ = false;
  changed_.notify_all();
}

void Runs::hear(const std::string& frame) {
  RunState* run = current();
  if (run == nullptr || frame.empty()) return;
  const std::string text = frame.substr(1);
  switch (static_cast<PageNews>(frame.front())) {
    case PageNews::opened:
      run->opened = text;
      break;
    case PageNews::progress:
      read_number(text.data(), text.data() + text.size(), run->progress);
      break;
    case PageNews::note:
      run->note = text;
      break;
    case PageNews::document:
      run->document = text;
      return end(RunState::Stage::done);
    case PageNews::error:
      run->error = text;
      return end(RunState::Stage::failed);
    case PageNews::cancelled:
      return end(RunState::Stage::cancelled);
  }
  ++run->change;
  changed_.notify_all();
}

void Runs::process_died() {
  end_process();
  if (RunState* run = current(); run && !cancelling_) {
    run->error = failure_json("the process that simulates has died; try again");
  }
  end(cancelling_ ? RunState::Stage::cancelled : RunState::Stage::failed);
  start_process();
}

void Runs::take_frames() {
  if (!read_more(process_.out, process_.bytes)) return process_died();
  while (const auto frame = next_frame(process_.bytes)) hear(*frame);
}

void Runs::cancel_asked() {
  if (!running_) return;
  const auto now = std::chrono::steady_clock::now();
  if (cancel_wanted_ && !cancelling_) {
    cancelling_ = true;
    told_ = now;
  }
  if (!cancelling_) return;
  if (now - told_ > to_end) return process_died();
  ::kill(process_.id, SIGTERM);  // at every look: it passes over one before it has read its request
}

void Runs::hand_out() {
  if (running_ || queue_.empty()) return;
  const Waiting next = std::move(queue_.front());
  queue_.pop_front();
  running_ = next.run;
  states_[next.run].stage = RunState::Stage::running;
  ++states_[next.run].change;
  changed_.notify_all();
  if (!write_frame(process_.in, next.request)) process_died();
}

int Runs::work() {
  const StopSignals signals;
  while (signals.caught() == 0 && ::getppid() == parent_) {
    std::vector<pollfd> polled = {
        {signals.file(), POLLIN, 0}, {wake_[0], POLLIN, 0}, {process_.out, POLLIN, 0}};
    ::poll(polled.data(), polled.size(), static_cast<int>(parent_look.count()));
    char woken[64];
    while (::read(wake_[0], woken, sizeof woken) > 0) continue;
    const std::lock_guard guard(mutex_);
    if (polled[2].revents != 0) take_frames();
    cancel_asked();
    hand_out();
  }
  const std::lock_guard guard(mutex_);
  closed_ = true;
  changed_.notify_all();
  return signals.caught();
}

}  // namespace moesim
