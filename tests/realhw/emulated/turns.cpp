// SPDX-License-Identifier: Apache-2.0
#include "tests/realhw/emulated/turns.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "tests/realhw/emulated/runtime.h"

namespace moesim::emulated {
namespace {

Turns* current_turns = nullptr;
thread_local int host_of_thread = -1;
thread_local bool runs_stream_work = false;

/// Shorter than any sleep, even summed over hosts: polling must not delay streams.
constexpr auto time_of_call = std::chrono::nanoseconds(20);
constexpr auto time_of_work = std::chrono::microseconds(4);

}  // namespace

Turns::Turns(int hosts, std::uint64_t seed)
    : now_(std::chrono::seconds(1)),
      chance_(seed),
      order_(static_cast<Order>(seed % 6)),
      late_(chance_()) {
  for (int host = 0; host < hosts; ++host) {
    hosts_.push_back(std::make_unique<Host>());
    hosts_.back()->priority = chance_();
  }
  Runtime::get().locked([&] { current_turns = this; });
}

Turns::~Turns() {
  Runtime::get().locked([] { current_turns = nullptr; });
}

Turns* Turns::current() { return current_turns; }
int Turns::host() { return host_of_thread; }

void Turns::join(int host) {
  std::unique_lock lock(mutex_);
  host_of_thread = host;
  hosts_[static_cast<std::size_t>(host)]->joined = true;
  const bool all = std::ranges::all_of(hosts_, [](const auto& h) { return h->joined; });
  if (all) {
    turn_ = host;
    return hand_over(lock, true);
  }
  hosts_[static_cast<std::size_t>(host)]->turn.wait(lock, [&] { return turn_ == host; });
}

void Turns::leave() {
  std::unique_lock lock(mutex_);
  hosts_[static_cast<std::size_t>(host_of_thread)]->left = true;
  hand_over(lock, false);
  host_of_thread = -1;
}

void Turns::pass() {
  std::unique_lock lock(mutex_);
  hand_over(lock, true);
}

bool Turns::wait(std::function<bool()> until, const std::string& for_what, Time limit) {
  std::unique_lock lock(mutex_);
  Host& self = *hosts_[static_cast<std::size_t>(host_of_thread)];
  self.until = std::move(until);
  self.wake = now_ + limit;
  self.for_what = for_what;
  hand_over(lock, true);
  const auto condition = std::exchange(self.until, {});
  return condition();
}

void Turns::sleep(Time time) {
  const Time end = now_ + time;
  wait([this, end] { return now_ >= end; }, "", time);
}

bool Turns::can_run(const Host& host) const {
  return !host.left && (!host.until || stuck_ || host.wake <= now_ || host.until());
}

std::vector<Turns::Choice> Turns::candidates() {
  std::vector<Choice> all;
  for (std::size_t h = 0; h < hosts_.size(); ++h) {
    if (can_run(*hosts_[h])) all.push_back({static_cast<int>(h), nullptr, hosts_[h]->priority});
  }
  for (CUstream_st* stream : Runtime::get().ready_streams()) {
    if (stream->priority == 0) stream->priority = chance_() | 1;
    all.push_back({-1, stream, stream->priority});
  }
  return all;
}

/// The next host or stream: preferred by order_, else drawn.
Turns::Choice Turns::choose() {
  std::vector<Choice> all = candidates();
  if (all.size() < 2) return all.empty() ? Choice{} : all[0];
  ++decisions_;
  if (one_in(8)) return all[chance_() % all.size()];  // nobody waits for ever
  const auto prefer = [&](auto is_first) {
    if (std::ranges::any_of(all, is_first)) std::erase_if(all, std::not_fn(is_first));
  };
  const auto late_host = static_cast<int>(late_ % hosts_.size());
  switch (order_) {
    case Order::any:
      break;
    case Order::hosts_first:
      prefer([](const Choice& c) { return c.stream == nullptr; });
      break;
    case Order::streams_first:
      prefer([](const Choice& c) { return c.stream != nullptr; });
      break;
    case Order::priorities:
      change_priorities();
      return *std::ranges::max_element(all, {}, &Choice::priority);
    case Order::late_stream:
      prefer([&](const Choice& c) { return c.stream == nullptr || c.priority % 5 != late_ % 5; });
      break;
    case Order::late_host:
      prefer([&](const Choice& c) { return c.host != late_host; });
      break;
  }
  return all[chance_() % all.size()];
}

void Turns::change_priorities() {
  if (!one_in(50)) return;
  const auto streams = Runtime::get().ready_streams();
  const std::size_t place = chance_() % (hosts_.size() + streams.size());
  (place < hosts_.size() ? hosts_[place]->priority : streams[place - hosts_.size()]->priority) =
      chance_() | 1;
}

/// To the time at which the first sleeper wakes.
bool Turns::jump() {
  Time first = Time::max();
  for (const auto& host : hosts_) {
    if (!host->left && host->until) first = std::min(first, host->wake);
  }
  if (first == Time::max() || first > now_ + std::chrono::minutes(30)) return false;
  now_ = std::max(now_, first);
  return true;
}

/// The thread that has the turn runs the work of streams until a host's turn comes.
void Turns::hand_over(std::unique_lock<std::mutex>& lock, bool stays) {
  const int self = host_of_thread;
  now_ += time_of_call;
  while (true) {
    const bool all_left = std::ranges::all_of(hosts_, [](const auto& host) { return host->left; });
    if (all_left) return;
    const Choice choice = choose();
    if (choice.stream != nullptr) {
      runs_stream_work = true;
      Runtime::get().run_one(choice.stream);
      runs_stream_work = false;
      now_ += time_of_work;
    } else if (choice.host >= 0) {
      turn_ = choice.host;
      break;
    } else if (!jump()) {
      stuck_ = true;
      for (std::size_t h = 0; h < hosts_.size(); ++h) {
        if (hosts_[h]->left) continue;
        deadlock_ += fmt::format("rank {} waits for {}; ", h, hosts_[h]->for_what);
      }
    }
  }
  if (turn_ == self) return;
  hosts_[static_cast<std::size_t>(turn_)]->turn.notify_one();
  if (!stays) return;
  hosts_[static_cast<std::size_t>(self)]->turn.wait(lock, [&] { return turn_ == self; });
}

}  // namespace moesim::emulated

/// Replaces the library's clock: hosts read and sleep by virtual time.
std::chrono::steady_clock::time_point std::chrono::steady_clock::now() noexcept {
  using namespace moesim::emulated;
  if (Turns* turns = Turns::current(); turns != nullptr && Turns::host() >= 0) {
    return time_point(turns->now());
  }
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time_point(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

extern "C" int nanosleep(const timespec* wanted, timespec* left) {
  using namespace moesim::emulated;
  if (Turns* turns = Turns::current(); turns != nullptr && Turns::host() >= 0) {
    if (!runs_stream_work)
      turns->sleep(std::chrono::seconds(wanted->tv_sec) +
                   std::chrono::nanoseconds(wanted->tv_nsec));
    return 0;
  }
  return static_cast<int>(syscall(SYS_nanosleep, wanted, left));
}
