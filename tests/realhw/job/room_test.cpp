// SPDX-License-Identifier: Apache-2.0
// Who leaves when more knock at rank 0 than it hears at once.
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "realhw/tcp/meet/host.h"
#include "tests/realhw/job/ends.h"

namespace moesim {
namespace {

using namespace std::chrono_literals;

/// Whether rank 0 has ended the connection.
bool has_left(const Socket& guest) {
  return failure([&] { read_all(guest, 1, Clock::now()); }) != "the peer says nothing";
}

/// Three are heard at once; 127.0.0.1 holds two places of them, which all have had their time.
void expect_to_leave(bool second_says, bool first_leaves, bool second_leaves) {
  const TcpPlace place = place_of_host(2, 30s);
  RendezvousHost host(place, 3);
  auto met = std::async(std::launch::async, [&] { return host.take_in(); });
  const Socket elsewhere = connect_from("127.0.0.2", place);
  const Socket first = hello_as(place, 1, 2);
  const Socket second = second_says ? hello_as(place, 1, 2) : connect_from("127.0.0.1", place);
  std::this_thread::sleep_for(250ms);
  const Socket guest = greet_as(place, 1, 2);
  EXPECT_EQ(met.get().size(), 2U);
  EXPECT_EQ(read_verdict(guest, Clock::now() + 60s).code, 0);
  EXPECT_FALSE(has_left(elsewhere)) << "who holds fewer places stays";
  EXPECT_EQ(has_left(first), first_leaves);
  EXPECT_EQ(has_left(second), second_leaves);
}

TEST(MeetRoom, IsMadeByWhoHasNotSaidWhoItIs) { expect_to_leave(false, false, true); }

TEST(MeetRoom, IsMadeByTheFirstIfAllHaveSaid) { expect_to_leave(true, true, false); }

/// Nobody leaves before 100 ms have passed, however many wait.
TEST(MeetRoom, IsNotMadeAtOnce) {
  const TcpPlace place = place_of_host(2, 30s);
  RendezvousHost host(place, 1);
  auto met = std::async(std::launch::async, [&] { return host.take_in(); });
  const auto began = Clock::now();
  const Socket silent = connect_from("127.0.0.1", place);
  const Socket guest = greet_as(place, 1, 2);
  EXPECT_GE(Clock::now() - began, 100ms);
  EXPECT_LT(Clock::now() - began, 3s) << "when nobody makes room a knock lasts 5 s";
  EXPECT_EQ(met.get().size(), 2U);
  EXPECT_TRUE(has_left(silent));
}

TEST(MeetRoom, WhoMadeItIsNamed) {
  const TcpPlace place = place_of_host(2, 500ms);
  RendezvousHost host(place, 1);
  auto met = std::async(std::launch::async, [&] { return host.take_in(); });
  const Socket first = connect_from("127.0.0.2", place);
  const Socket second = connect_from("127.0.0.3", place);
  const std::string why = failure([&] { met.get(); });
  EXPECT_NE(why.find("; refused 127.0.0.2"), std::string::npos) << why;
  EXPECT_NE(why.find(": it made room for others"), std::string::npos) << why;
}

}  // namespace
}  // namespace moesim
