// SPDX-License-Identifier: Apache-2.0
// What a process says to its peers, frame by frame, and what it makes of theirs.
#include "realhw/tcp/control_plane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <ctime>
#include <thread>

#include "tests/realhw/job/ends.h"

namespace moesim {
namespace {

using testing::MatchesRegex;
using namespace std::chrono_literals;

enum Word : std::uint32_t { message, beat, failed, goodbye };

struct Said {
  std::uint32_t kind = 0;
  std::int32_t code = 0;
  std::string text;

  bool operator==(const Said&) const = default;
};

std::string head_of(std::uint32_t kind, std::uint64_t size, std::int32_t code = 0) {
  std::string bytes(16, '\0');
  std::memcpy(bytes.data(), &kind, 4);
  std::memcpy(bytes.data() + 4, &code, 4);
  std::memcpy(bytes.data() + 8, &size, 8);
  return bytes;
}

/// Rank 0 of three; the test is ranks 1 and 2, frame by frame.
class ControlPlaneTest : public testing::Test {
 protected:
  ControlPlaneTest() : rank_1_(joined()), rank_2_(joined()) {}

  void start(const Liveness& liveness) {
    std::vector<Socket> peers(3);
    peers[1] = std::move(rank_1_.first);
    peers[2] = std::move(rank_2_.first);
    plane_.emplace(0, std::move(peers), liveness);
  }
  /// Without beats.
  void start() { start({.beat = 60s, .silence = 600s, .grace = 600s, .farewell = 10ms}); }

  static void write(const Socket& socket, const std::string& bytes) {
    write_all(socket, bytes, Clock::now() + 60s);
  }
  static void say(const Socket& socket, Word kind, const std::string& text = "", int code = 0) {
    write(socket, head_of(kind, text.size(), code) + text);
  }
  static Said hear(const Socket& socket) {
    const std::string head = read_all(socket, 16, Clock::now() + 20s);
    Said said;
    std::uint64_t size = 0;
    std::memcpy(&said.kind, head.data(), 4);
    std::memcpy(&said.code, head.data() + 4, 4);
    std::memcpy(&size, head.data() + 8, 8);
    said.text = read_all(socket, size, Clock::now() + 20s);
    return said;
  }
  /// Nothing more comes.
  static std::string end_of(const Socket& socket) {
    return failure([&] { read_all(socket, 1, Clock::now() + 20s); });
  }
  /// What check() throws, once it does.
  std::string why_failed() {
    const auto deadline = Clock::now() + 20s;
    while (Clock::now() < deadline) {
      const std::string why = failure([&] { plane_->check(); });
      if (why != "none") return why;
      std::this_thread::sleep_for(1ms);
    }
    return "none";
  }

  std::pair<Socket, Socket> rank_1_, rank_2_;
  const Socket& to_1_ = rank_1_.second;
  const Socket& to_2_ = rank_2_.second;
  std::optional<ControlPlane> plane_;
};

TEST_F(ControlPlaneTest, MessagesKeepTheirOrderAndPeer) {
  start();
  plane_->send(1, "one", "send");
  plane_->send(2, "", "send");
  plane_->send(1, "two", "send");
  EXPECT_EQ(hear(to_1_), (Said{message, 0, "one"}));
  EXPECT_EQ(hear(to_1_), (Said{message, 0, "two"}));
  EXPECT_EQ(hear(to_2_), (Said{message, 0, ""}));
  write(to_2_, head_of(message, 1) + "a" + head_of(beat, 0) + head_of(message, 2) + "bc");
  say(to_1_, message, "d");
  EXPECT_EQ(plane_->receive(1, "receive"), "d");
  EXPECT_EQ(plane_->receive(2, "receive"), "a");
  EXPECT_EQ(plane_->receive(2, "receive"), "bc");
  plane_->send(1, "end", "send");
  EXPECT_EQ(hear(to_1_), (Said{message, 0, "end"})) << "no beat before its time";
}

/// What has woken the thread once does so no more.
TEST_F(ControlPlaneTest, WaitsWithoutWork) {
  start();
  const std::string much(4 << 20, 'x');
  plane_->send(1, much, "send");
  EXPECT_EQ(hear(to_1_).text.size(), much.size());
  say(to_2_, message, "x");
  EXPECT_EQ(plane_->receive(2, "receive"), "x");
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(200ms);
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 25);
}

TEST_F(ControlPlaneTest, MessagesArriveInParts) {
  start();
  const std::string bytes = head_of(message, 5) + "abcde" + head_of(message, 0);
  std::thread peer([&] {
    for (const auto& [from, size] : {std::pair(0, 7), {7, 9}, {16, 4}, {20, 1}, {21, 16}}) {
      std::this_thread::sleep_for(10ms);
      write(to_1_, bytes.substr(static_cast<std::size_t>(from), static_cast<std::size_t>(size)));
    }
  });
  EXPECT_EQ(plane_->receive(1, "receive"), "abcde");
  EXPECT_EQ(plane_->receive(1, "receive"), "");
  peer.join();
}

TEST_F(ControlPlaneTest, LeavesOnceAllIsSent) {
  start();
  const std::string much(4 << 20, 'x');
  plane_->send(1, much, "send");
  plane_->send(1, "last", "send");
  std::thread leaver([&] { plane_.reset(); });
  std::this_thread::sleep_for(50ms);  // longer than a farewell
  EXPECT_TRUE(hear(to_1_).text == much);
  EXPECT_EQ(hear(to_1_), (Said{message, 0, "last"}));
  EXPECT_EQ(hear(to_1_), (Said{goodbye, 0, ""}));
  EXPECT_EQ(end_of(to_1_), "the connection was closed");
  leaver.join();
  EXPECT_EQ(hear(to_2_), (Said{goodbye, 0, ""}));
}

TEST_F(ControlPlaneTest, LeavesThroughAConnectionThatIsFull) {
  const Socket same(dup(rank_1_.first.fd()));
  start();
  const std::string part(4096, 'x');
  std::size_t filled = 0;
  while (true) {
    const auto sent = ::send(same.fd(), part.data(), part.size(), MSG_DONTWAIT);
    if (sent < 0) break;
    filled += static_cast<std::size_t>(sent);
  }
  std::thread leaver([&] { plane_.reset(); });
  std::this_thread::sleep_for(50ms);
  read_all(to_1_, filled, Clock::now() + 20s);
  EXPECT_EQ(hear(to_1_), (Said{goodbye, 0, ""})) << "although nobody asked for more to be sent";
  leaver.join();
}

TEST_F(ControlPlaneTest, SaysGoodbyeAlsoWhenAnotherHasLeft) {
  start();
  say(to_1_, message, "before");
  say(to_1_, goodbye);
  EXPECT_EQ(plane_->receive(1, "gather"), "before") << "what came before is kept";
  EXPECT_EQ(failure([&] { plane_->receive(1, "gather"); }),
            "rank 0, gather: rank 1 has left the run");
  EXPECT_EQ(failure([&] { plane_->send(1, "x", "broadcast"); }),
            "rank 0, broadcast: rank 1 has left the run");
  rank_1_.second = Socket();
  std::this_thread::sleep_for(20ms);  // until its end is seen
  EXPECT_EQ(failure([&] { plane_->check(); }), "none");
  plane_.reset();
  EXPECT_EQ(hear(to_2_), (Said{goodbye, 0, ""}));
  EXPECT_EQ(end_of(to_2_), "the connection was closed");
}

TEST_F(ControlPlaneTest, LeavingWaitsForTheOthersButNotLong) {
  start({.beat = 60s, .silence = 600s, .grace = 600s, .farewell = 200ms});
  auto began = Clock::now();
  plane_.reset();
  EXPECT_GE(Clock::now() - began, 200ms);
  rank_1_ = joined();
  rank_2_ = joined();
  start({.beat = 60s, .silence = 600s, .grace = 600s, .farewell = 30s});
  rank_1_.second = Socket();
  rank_2_.second = Socket();
  began = Clock::now();
  plane_.reset();
  EXPECT_LT(Clock::now() - began, 20s);
}

TEST_F(ControlPlaneTest, WhoIsGoneFailsAllCalls) {
  start();
  say(to_2_, message, "unread");
  rank_1_.second = Socket();
  const std::string why = "rank 1 is gone: its connection was closed";
  EXPECT_EQ(failure([&] { plane_->receive(1, "gather"); }), "rank 0, gather: " + why);
  EXPECT_EQ(failure([&] { plane_->receive(2, "gather"); }), "rank 0, gather: " + why);
  EXPECT_EQ(failure([&] { plane_->send(2, "x", "send"); }), "rank 0, send: " + why);
  EXPECT_EQ(why_failed(), why);
  EXPECT_EQ(hear(to_2_), (Said{failed, 1, why}));
  EXPECT_EQ(end_of(to_2_), "the connection was closed") << "after a failure nothing is said";
}

/// A message that was begun is ended, those behind it are not sent; only the first failure counts.
TEST_F(ControlPlaneTest, FailuresAreToldBeforeWhatWaits) {
  start();
  const std::string much(4 << 20, 'x');
  plane_->send(1, much, "send");
  plane_->send(1, "dropped", "send");
  say(to_2_, failed, "rank 2 threw", 3);
  EXPECT_EQ(why_failed(), "rank 2 threw");
  say(to_2_, failed, "and once more", 4);
  EXPECT_EQ(hear(to_2_), (Said{failed, 3, "rank 2 threw"}));
  EXPECT_TRUE(hear(to_1_).text == much);
  EXPECT_EQ(hear(to_1_), (Said{failed, 3, "rank 2 threw"}));
  EXPECT_EQ(end_of(to_1_), "the connection was closed");
  EXPECT_EQ(why_failed(), "rank 2 threw");
}

TEST_F(ControlPlaneTest, FramesThatDoNotFitEndTheRun) {
  struct Case {
    std::string bytes, why;
  };
  const std::string reason(1 << 16, 'r'), gone = "rank 1 is gone: ";
  for (const auto& [bytes, why] : std::initializer_list<Case>{
           {head_of(message, (1ULL << 32) + 1),
            gone + "it announced 4294967297 bytes where 4294967296 fit"},
           {head_of(message, 1ULL << 32), gone + "its connection was closed"},
           {head_of(failed, reason.size(), 2) + reason, reason},
           {head_of(failed, 65537), gone + "it announced 65537 bytes where 65536 fit"},
           {head_of(beat, 1), gone + "it announced 1 bytes where 0 fit"},
           {head_of(goodbye, 1), gone + "it announced 1 bytes where 0 fit"},
           {head_of(4, 0), gone + "it sent a frame of unknown kind 4"},
       }) {
    rank_1_ = joined();
    rank_2_ = joined();
    start();
    write(to_1_, bytes);
    rank_1_.second = Socket();
    EXPECT_TRUE(why_failed() == why) << why.substr(0, 99);
  }
}

TEST_F(ControlPlaneTest, MessagesHaveALargestSize) {
  start();
  EXPECT_EQ(failure([&] {
              plane_->send(1, {"", (1ULL << 32) + 1}, "send");
            }),
            "rank 0, send: a message of 4294967297 bytes, where 4294967296 fit");
}

TEST_F(ControlPlaneTest, BeatsAndNoticesSilence) {
  const auto began = Clock::now();
  start({.beat = 40ms, .silence = 300ms, .grace = 600s, .farewell = 10ms});
  EXPECT_EQ(hear(to_1_), (Said{beat, 0, ""}));
  EXPECT_GE(Clock::now() - began, 40ms);
  while (failure([&] { plane_->check(); }) == "none") {
    failure([&] { say(to_1_, beat); });  // fails once rank 0 ends
    std::this_thread::sleep_for(5ms);
  }
  const auto took = Clock::now() - began;
  EXPECT_GE(took, 300ms);
  EXPECT_THAT(why_failed(),
              MatchesRegex("rank 2 is gone: nothing was heard of it for [0-9][.][0-9] s"));
  int beats = 1;
  Said said = hear(to_1_);
  for (; said.kind == beat; said = hear(to_1_)) ++beats;
  EXPECT_GE(beats, 2);
  EXPECT_LE(beats, took / 40ms) << "not more for what it hears";
  EXPECT_EQ(said.kind, failed);
}

using ControlPlaneDeathTest = ControlPlaneTest;

TEST_F(ControlPlaneDeathTest, AbortTellsAllAndEndsWithTheCode) {
  EXPECT_EXIT(
      {
        start();
        plane_->abort(5);
      },
      testing::ExitedWithCode(5), "");
  EXPECT_EQ(hear(to_1_), (Said{failed, 5, "rank 0 has ended the run"}));
  EXPECT_EQ(hear(to_2_), (Said{failed, 5, "rank 0 has ended the run"}));
}

TEST_F(ControlPlaneDeathTest, AbortEndsWithTheCodeOfTheFirstFailure) {
  EXPECT_EXIT(
      {
        start();
        say(to_1_, failed, "rank 1 threw", 7);
        why_failed();
        plane_->abort(5);
      },
      testing::ExitedWithCode(7), "");
}

TEST_F(ControlPlaneDeathTest, EndsAProcessThatHeedsNoFailure) {
  EXPECT_EXIT(
      {
        start({.beat = 10ms, .silence = 600s, .grace = 50ms, .farewell = 10ms});
        say(to_1_, failed, "rank 1 threw", 7);
        std::this_thread::sleep_for(10s);
      },
      testing::ExitedWithCode(7), "moesim-hw: the run failed: rank 0: rank 1 threw\n");
}

}  // namespace
}  // namespace moesim
