// SPDX-License-Identifier: Apache-2.0
// One rank of a job that does what its first argument says; tcp_test.py starts several.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>
#include <thread>

#include "realhw/job/local_rank.h"
#include "realhw/launch/launch.h"
#include "sim/base/error.h"

namespace moesim {
namespace {

using namespace std::chrono_literals;

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

std::string text_of(int rank, int bytes) {
  std::string text(static_cast<std::size_t>(bytes), '\0');
  for (std::size_t i = 0; i < text.size(); ++i) {
    text[i] = static_cast<char>(i * 131 + i / 251 + static_cast<std::size_t>(rank) * 7);
  }
  return text;
}

void say(const Job& job, const std::string& what) {
  fmt::print("rank {} {}\n", job.rank(), what);
  std::fflush(stdout);
}

/// Every call once, and messages of `bytes` and some more.
void exchange(Job& job, int bytes) {
  const auto all = job.gather(text_of(job.rank(), bytes + job.rank()));
  require(all.size() == (job.rank() == 0 ? static_cast<std::size_t>(job.ranks()) : 0), "gather");
  for (int r = 0; job.rank() == 0 && r < job.ranks(); ++r) {
    require(all[static_cast<std::size_t>(r)] == text_of(r, bytes + r), "gathered");
  }
  require(job.broadcast(job.rank() == 0 ? text_of(9, bytes) : "x") == text_of(9, bytes),
          "broadcast");
  job.barrier();
  for (int peer = 1; peer < job.ranks(); ++peer) {
    for (int round = 0; round < 3; ++round) {
      if (job.rank() == 0) {
        job.send(peer, text_of(round, bytes));
        require(job.receive(peer) == text_of(round + peer, bytes + 1), "received by rank 0");
      } else if (job.rank() == peer) {
        require(job.receive(0) == text_of(round, bytes), "received");
        job.send(0, text_of(round + peer, bytes + 1));
      }
    }
  }
  job.check_peers();
  const auto squares = sums_over_ranks(job, {job.rank(), 1});
  require(squares[1] == job.ranks() && squares[0] == job.ranks() * (job.ranks() - 1) / 2, "sums");
  say(job, "has all");
}

/// Rank `lost` waits to be killed while the others do `action`.
void without(Job& job, int lost, const std::function<void()>& action) {
  job.barrier();
  say(job, "waits");
  if (job.rank() != lost) return action();
  while (true) pause();
}

void poll_peers(Job& job) {
  while (true) {
    job.check_peers();
    std::this_thread::sleep_for(10ms);
  }
}

void run(Job& job, const std::string& action, int number) {
  const std::map<std::string, std::function<void()>> actions = {
      {"exchange", [&] { exchange(job, number); }},
      {"gather",
       [&] { without(job, number, [&] { all_gather(job, std::string(1 << 24, 'x')); }); }},
      {"poll", [&] { without(job, number, [&] { poll_peers(job); }); }},
      {"sleep",
       [&] {
         without(job, number, [] {
           while (true) pause();
         });
       }},
      {"leave",
       [&] {
         if (job.rank() != number) job.barrier();
       }},
      {"throw",
       [&] {
         if (job.rank() == number) throw std::runtime_error("rank threw");
         job.barrier();
       }},
      {"abort",
       [&] {
         if (job.rank() == 1) job.abort(number);
         job.barrier();
       }},
      {"local", [&] { say(job, fmt::format("is local {}", local_rank(job))); }},
  };
  actions.at(action)();
}

}  // namespace
}  // namespace moesim

int main(int argc, char** argv) {
  std::unique_ptr<moesim::Job> job;
  int code = 1;
  try {
    job = moesim::launch(argc, argv);
    moesim::run(*job, argv[1], std::atoi(argv[2]));
    return 0;
  } catch (const moesim::Error& e) {
    fmt::print(stderr, "{}", e.what());
    code = 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "job-ranks: the run failed: {}\n", e.what());
  }
  if (job) job->abort(code);
  return code;
}
