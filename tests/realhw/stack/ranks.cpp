// SPDX-License-Identifier: Apache-2.0
#include "tests/realhw/stack/ranks.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <deque>
#include <map>
#include <stdexcept>
#include <thread>

#include "tests/realhw/emulated/calls.h"
#include "tests/realhw/emulated/emulated.h"
#include "tests/realhw/emulated/fabric_state.h"
#include "tests/realhw/emulated/runtime.h"

namespace moesim {
namespace {

using emulated::Calls;
using emulated::Runtime;
using emulated::Turns;

/// What the ranks of a job share. Only who has the turn touches it.
struct Meeting {
  explicit Meeting(int ranks) : given(static_cast<std::size_t>(ranks)), gone(given.size()) {}
  std::vector<std::string> given;
  std::vector<bool> gone;  // died, or ended by an error
  std::size_t arrived = 0;
  int generation = 0;
  std::map<std::pair<int, int>, std::deque<std::string>> messages;
};

class TurnsJob : public Job {
 public:
  TurnsJob(Meeting& meeting, int rank) : meeting_(meeting), rank_(rank) {}

  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(meeting_.given.size()); }
  std::string launcher() const override { return "turns"; }
  std::vector<std::string> gather(const std::string& mine) override {
    meeting_.given[static_cast<std::size_t>(rank_)] = mine;
    barrier();
    const auto all = rank_ == 0 ? meeting_.given : std::vector<std::string>{};
    barrier();
    return all;
  }
  std::string broadcast(const std::string& of_first) override {
    if (rank_ == 0) meeting_.given[0] = of_first;
    barrier();
    const std::string text = meeting_.given[0];
    barrier();
    return text;
  }
  void barrier() override {
    const int generation = meeting_.generation;
    if (++meeting_.arrived == meeting_.given.size()) {
      meeting_.arrived = 0;
      ++meeting_.generation;
      return Turns::current()->pass();
    }
    wait([&, generation] { return meeting_.generation != generation; }, "a barrier");
  }
  void send(int to, const std::string& message) override {
    meeting_.messages[{rank_, to}].push_back(message);
    Turns::current()->pass();
  }
  std::string receive(int from) override {
    auto& waiting = meeting_.messages[{from, rank_}];
    wait([&] { return !waiting.empty(); }, "a message");
    std::string message = std::move(waiting.front());
    waiting.pop_front();
    return message;
  }
  void check_peers() override {
    for (std::size_t rank = 0; rank < meeting_.gone.size(); ++rank) {
      if (meeting_.gone[rank]) throw std::runtime_error(fmt::format("rank {} is gone", rank));
    }
  }
  [[noreturn]] void abort(int) override { std::abort(); }

 private:
  void wait(const std::function<bool()>& until, const char* for_what) {
    const auto gone = [this] { return std::ranges::count(meeting_.gone, true) > 0; };
    Turns::current()->wait([&] { return until() || gone(); }, for_what);
    if (until()) return;
    check_peers();
    throw std::runtime_error(fmt::format("{} that never comes", for_what));
  }

  Meeting& meeting_;
  int rank_;
};

double seconds(const Turns& turns) { return static_cast<double>(turns.now().count()) * 1e-9; }

struct Shared {
  Turns& turns;
  Meeting& meeting;
  RunEnd& end;
  const std::function<void(Job&)>& body;
};

void note_end(const Shared& shared, int rank, bool badly) {
  RunEnd& end = shared.end;
  end.last_end_s = seconds(shared.turns);
  if (!badly) return;
  shared.meeting.gone[static_cast<std::size_t>(rank)] = true;
  if (end.first_end_s == 0) end.first_end_s = end.last_end_s;
}

/// A rank that dies leaves by a jump: what it holds stays as it is, as with a process.
void be_rank(const Shared& shared, int rank) {
  jmp_buf death;
  Calls::death() = &death;
  shared.turns.join(rank);
  if (_setjmp(death) == 0) {
    TurnsJob job(shared.meeting, rank);
    try {
      shared.body(job);
      note_end(shared, rank, false);
    } catch (const std::exception& e) {
      shared.end.thrown[static_cast<std::size_t>(rank)] = e.what();
      note_end(shared, rank, true);
    }
  } else {
    shared.end.died[static_cast<std::size_t>(rank)] = true;
    note_end(shared, rank, true);
  }
  shared.turns.leave();
}

void forget_all(int ranks) {
  for (int device = 0; device < ranks; ++device) Runtime::get().drop_work(device);
  emulated::forget_fabric();
}

/// Ranks take turns: on one core a turn is handed on without waking another.
void stay_on_one_core() {
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(sched_getcpu(), &core);
  sched_setaffinity(0, sizeof core, &core);
}

}  // namespace

bool RunEnd::all_ended_well() const {
  return text().empty() && std::ranges::count(died, true) == 0;
}

std::string RunEnd::text() const {
  std::string all;
  for (const std::string& what : thrown) all += what.empty() ? "" : what + "\n";
  return all + text_of_state();
}

std::string RunEnd::text_of_state() const {
  std::string all;
  for (const std::string& fault : faults) all += fault + "\n";
  if (!deadlock.empty()) all += "deadlock: " + deadlock + "\n";
  const bool dead = std::ranges::count(died, true) > 0;  // which gives nothing back
  const std::size_t left = allocations + streams + events + static_cast<std::size_t>(communicators);
  if (!dead && left > 0) {
    all += fmt::format("{} allocations, {} streams, {} events, {} communicators are left\n",
                       allocations, streams, events, communicators);
  }
  if (hung > 0) all += fmt::format("{} aborts hang\n", hung);
  if (misused > 0) all += fmt::format("NCCL was misused {} times\n", misused);
  return all;
}

RunEnd run_ranks(int ranks, std::uint64_t seed, const std::function<void(Job&)>& body) {
  stay_on_one_core();
  RunEnd end;
  end.thrown.resize(static_cast<std::size_t>(ranks));
  end.died.resize(static_cast<std::size_t>(ranks));
  emulated::take_faults();
  emulated::set_block_seed(seed);
  Calls::get().begin();
  const std::size_t streams = Runtime::get().streams_made(), events = Runtime::get().events_made();
  {
    Turns turns(ranks, seed);
    Meeting meeting(ranks);
    const Shared shared{turns, meeting, end, body};
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] { be_rank(shared, rank); });
    for (std::thread& thread : threads) thread.join();
    end.deadlock = turns.deadlock();
    end.decisions = turns.decisions();
  }
  const emulated::FabricState& fabric = emulated::fabric_state();
  end.communicators = fabric.live;
  end.hung = fabric.hung;
  end.misused = fabric.destroyed_early + fabric.put_before_ready + fabric.captured_by_one;
  for (const emulated::Fault& fault : emulated::take_faults()) {
    end.faults.push_back(fmt::format("{}: {}", emulated::name_of(fault.kind), fault.text));
  }
  forget_all(ranks);
  emulated::set_block_seed(0);
  emulated::forget_shared_memory();
  end.allocations = emulated::forget_allocations();
  end.streams = Runtime::get().streams_made() - streams;
  end.events = Runtime::get().events_made() - events;
  return end;
}

}  // namespace moesim
