// SPDX-License-Identifier: Apache-2.0
#include "sim/export/goal.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "sim/export/message_steps.h"
#include "tests/export/fixtures.h"
#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

using test::exchange;
using test::gpus;
using test::kernels;
using test::matrix;
using test::reads;

/// What a schedule says, by a reader that knows only the format.
struct Schedule {
  using Message = std::tuple<int, int, int, std::int64_t>;  // from, to, tag, bytes
  int ranks = 0;
  std::multiset<Message> sent, received;
  std::map<int, std::int64_t> computed;  // [rank] ns
  bool forward = true;                   // whether every line requires only earlier ones
};

Schedule read(const std::string& text) {
  Schedule schedule;
  std::istringstream lines(text);
  int rank = -1, labels = 0;
  for (std::string line; std::getline(lines, line);) {
    int label = 0, other = 0, peer = 0, tag = 0;
    long long amount = 0;
    if (std::sscanf(line.c_str(), "num_ranks %d", &schedule.ranks) == 1) continue;
    if (std::sscanf(line.c_str(), "rank %d {", &rank) == 1) {
      labels = 0;
    } else if (std::sscanf(line.c_str(), "l%d requires l%d", &label, &other) == 2) {
      schedule.forward = schedule.forward && label == labels && other < label;
    } else if (std::sscanf(line.c_str(), "l%d: calc %lld", &label, &amount) == 2) {
      schedule.computed[rank] += amount;
    } else if (std::sscanf(line.c_str(), "l%d: send %lldb to %d tag %d", &label, &amount, &peer,
                           &tag) == 4) {
      schedule.sent.emplace(rank, peer, tag, amount);
    } else if (std::sscanf(line.c_str(), "l%d: recv %lldb from %d tag %d", &label, &amount, &peer,
                           &tag) == 4) {
      schedule.received.emplace(peer, rank, tag, amount);
    } else {
      EXPECT_EQ(line, "}");
    }
    if (line.find(": ") != std::string::npos) {
      EXPECT_EQ(label, ++labels);
    }
  }
  return schedule;
}

/// Three GPUs: one computes for 3 us, two for 5 us, then 0 -> 1, 2 -> 1 and 1 -> 1 exchange.
Plan small_plan() {
  Plan plan;
  plan.gpus = 3;
  const std::vector<Kernel> each = {reads(3000), reads(5000), reads(5000)};
  plan.add(kernels("permute", {0, 1, 2}, {}, Kernels(each)));
  plan.add(exchange("dispatch", {0, 1, 2}, matrix(3, 100, {{0, 1, 7}, {1, 1, 9}, {2, 1, 4}}), {0}));
  plan.add(kernels("sort", {1}, {1}, Kernels(reads(2000))));
  return plan;
}

TEST(Goal, HasEveryMessageOnceOnEachSide) {
  const Schedule schedule = read(to_goal(small_plan(), gpus(3)));
  EXPECT_EQ(schedule.ranks, 3);
  EXPECT_TRUE(schedule.forward);
  EXPECT_EQ(schedule.sent, schedule.received);
  EXPECT_EQ(schedule.sent, (std::multiset<Schedule::Message>{{0, 1, 1, 700}, {2, 1, 1, 400}}));
  EXPECT_EQ(schedule.computed, (std::map<int, std::int64_t>{{0, 3000}, {1, 7000}, {2, 5000}}));
}

TEST(Goal, WhatTurnsGoesBack) {
  Plan plan = small_plan();
  std::get<Exchange>(plan.ops[1].work).transposed = true;
  const Schedule schedule = read(to_goal(plan, gpus(3)));
  EXPECT_EQ(schedule.sent, (std::multiset<Schedule::Message>{{1, 0, 1, 700}, {1, 2, 1, 400}}));
  EXPECT_EQ(schedule.sent, schedule.received);
}

TEST(Goal, WaitsForTheExchangeAsAWhole) {
  EXPECT_EQ(to_goal(small_plan(), gpus(3)).substr(0, 103),
            "num_ranks 3\n"
            "rank 0 {\n"
            "l1: calc 3000\n"
            "l2: send 700b to 1 tag 1\n"
            "l2 requires l1\n"
            "l3: calc 0\n"
            "l3 requires l2\n"
            "}\n");
}

/// A copy to the memory of a host is no message; how much is left out can be said.
TEST(Goal, LeavesOutCopiesToHosts) {
  Plan plan = small_plan();
  EXPECT_EQ(copied_with_hosts(plan), Bytes(0));
  plan.add(exchange("offload", {1}, matrix(1, 100, {{0, 0, 5}}), {2}));
  std::get<Exchange>(plan.ops.back().work).with_hosts = true;
  EXPECT_EQ(copied_with_hosts(plan), Bytes(500));
  EXPECT_EQ(read(to_goal(plan, gpus(3))).sent, read(to_goal(small_plan(), gpus(3))).sent);
}

}  // namespace
}  // namespace moesim
