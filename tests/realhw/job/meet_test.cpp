// SPDX-License-Identifier: Apache-2.0
// How ranks greet each other: what a knock holds, whom rank 0 takes in, and what it says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <thread>

#include "realhw/tcp/meet/host.h"
#include "realhw/tcp/meet/rendezvous.h"
#include "sim/base/error.h"
#include "tests/realhw/job/ends.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

TEST(MeetPlaces, NeedASecretBeyondLoopback) {
  TcpPlace place{3, 4, "10.0.0.1", 29500, "", 1s};
  EXPECT_EQ(place.str(), "10.0.0.1:29500");
  const auto refused = [&](const char* host) {
    return failure([&] { require_secret(place, resolve(host, 29500).at(0)); });
  };
  EXPECT_THAT(refused("10.0.0.1"),
              HasSubstr("rank 3: 10.0.0.1:29500 is not a loopback address, so it needs a secret"));
  EXPECT_EQ(refused("127.0.0.1"), "none");
  EXPECT_EQ(refused("::1"), "none");
  place.secret = "0123456789abcdef";
  EXPECT_EQ(refused("10.0.0.1"), "none");
  place.host = "localhost";
  EXPECT_EQ(addresses(place).at(0).str(), "127.0.0.1:29500") << "IPv4 comes first";
}

TEST(Verdicts, CarryACodeAndAReasonOfAtMost4096Bytes) {
  const auto [here, there] = joined();
  const auto deadline = Clock::now() + 60s;
  for (const std::size_t size : {0U, 7U, 4096U, 5000U}) {
    std::string reason(size, 'r');
    if (size > 0) reason[0] = 'R';
    write_verdict(there, {-3, reason}, deadline);
    const Verdict heard = read_verdict(here, deadline);
    EXPECT_EQ(heard.code, -3);
    EXPECT_EQ(heard.reason, reason.substr(0, 4096));
  }
}

/// A knock at rank 0 of a job without secret: rank 3 of 4.
class KnockTest : public testing::Test {
 protected:
  KnockTest() {
    hello_.rank = 3;
    hello_.ranks = 4;
  }
  std::optional<Hello> hear(const std::string& bytes) {
    write_all(guest_, bytes, Clock::now() + 60s);
    return knock_.listen(place_);
  }

  const TcpPlace place_{0, 4, "127.0.0.1", 29500, "", 1s};
  Hello hello_;
  std::pair<Socket, Socket> ends_ = joined();
  const Socket& guest_ = ends_.second;
  Knock knock_{std::move(ends_.first), resolve("10.0.0.9", 40000).at(0), Clock::now()};
};

TEST_F(KnockTest, IsHeardInPieces) {
  const std::string hello = bytes_of(hello_);
  for (const auto& [from, size] : {std::pair(0, 11), {11, 1}, {12, 20}, {32, 19}}) {
    EXPECT_FALSE(
        hear(hello.substr(static_cast<std::size_t>(from), static_cast<std::size_t>(size))));
    EXPECT_FALSE(knock_.has_said());
    EXPECT_EQ(knock_.who(), "10.0.0.9:40000");
  }
  EXPECT_FALSE(hear(hello.substr(51)));
  EXPECT_TRUE(knock_.has_said());
  EXPECT_EQ(knock_.who(), "rank 3 at 10.0.0.9:40000");
  EXPECT_EQ(knock_.host(), "10.0.0.9");
  const auto reply = read_words<Reply>(guest_, Clock::now() + 60s);
  EXPECT_TRUE(reply.greeting.ours());
  EXPECT_EQ(reply.greeting.version, 1U);
  EXPECT_NE(std::string(reply.nonce, nonce_size), std::string(nonce_size, '\0'));
  EXPECT_EQ(read_all(guest_, proof_size, Clock::now() + 60s), std::string(32, '\0'));
  EXPECT_FALSE(hear(std::string(31, '\0')));
  const auto joins = hear(std::string(1, '\0'));
  ASSERT_TRUE(joins);
  EXPECT_EQ(joins->rank, 3U);
  EXPECT_EQ(joins->ranks, 4U);
}

TEST_F(KnockTest, WithAWrongProofIsRefusedAndHearsWhy) {
  EXPECT_FALSE(hear(bytes_of(hello_)));
  try {
    hear(std::string(31, '\0') + "x");
    FAIL() << "was taken in";
  } catch (const Refusal& e) {
    EXPECT_STREQ(e.what(), "another secret than rank 0's");
    EXPECT_EQ(e.heard(), "rank 0 at 127.0.0.1:29500 has another secret than this rank 3");
  }
}

TEST_F(KnockTest, OfAnotherVersionSeesThisOne) {
  hello_.greeting.version = 2;
  EXPECT_EQ(failure([&] { hear(bytes_of(hello_)); }),
            "it speaks version 2 of the rendezvous, rank 0 1");
  EXPECT_EQ(read_words<Greeting>(guest_, Clock::now() + 60s).version, 1U);
}

TEST_F(KnockTest, OfAStrangerIsRefused) {
  EXPECT_FALSE(hear("GET / HTTP/"));
  EXPECT_EQ(failure([&] { hear("1"); }), "it is not moesim-hw");
  ends_.second = Socket();
  EXPECT_EQ(failure([&] { knock_.listen(place_); }), "it is not moesim-hw")
      << "what has come is not forgotten";
}

TEST_F(KnockTest, ThatGoesAwayIsRefused) {
  ends_.second = Socket();
  EXPECT_EQ(failure([&] { knock_.listen(place_); }), "the connection was closed");
}

TEST_F(KnockTest, ThatDoesNotWaitForTheAnswerIsRefused) {
  write_all(guest_, bytes_of(hello_), Clock::now() + 60s);
  ends_.second = Socket();
  EXPECT_THROW(knock_.listen(place_), Refusal);
}

/// What rank 0 throws at last.
std::future<std::string> host(const TcpPlace& place) {
  return std::async(std::launch::async, [place] { return failure([&] { meet(place); }); });
}

TEST(MeetHosts, RefuseRanksThatCannotBe) {
  struct Case {
    std::uint32_t rank, ranks;
    const char* mistake;
  };
  for (const auto& [rank, ranks, mistake] : std::initializer_list<Case>{
           {0, 3, "FROM says to be rank 0"},
           {3, 3, "FROM says to be rank 3"},
           {1, 3, "two processes say to be rank 1, the second at FROM"},
           {2, 4, "rank 2 at FROM was started as one of 4 ranks, rank 0 as one of 3"},
       }) {
    const TcpPlace place = place_of_host(3, 30s);
    auto ended = host(place);
    const Socket first = greet_as(place, 1, 3);
    EXPECT_EQ(read_verdict(first, Clock::now() + 60s).code, 0);
    const Socket guest = greet_as(place, rank, ranks);
    std::string text = mistake;
    text.replace(text.find("FROM"), 4, own_address(guest).str());
    EXPECT_THAT(ended.get(), HasSubstr(text));
    for (const Socket* one : {&first, &guest}) {
      const Verdict heard = read_verdict(*one, Clock::now() + 60s);
      EXPECT_EQ(heard.code, 2);
      EXPECT_EQ(heard.reason, text);
    }
  }
}

TEST(MeetHosts, NameTheFirstEightThatDidNotCome) {
  for (const auto& [ranks, missing] : std::initializer_list<std::pair<int, const char*>>{
           {2, "rank 1"},
           {9, "ranks 1, 2, 3, 4, 5, 6, 7, 8"},
           {12, "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 3 more"}}) {
    const TcpPlace place = place_of_host(ranks, 20ms);
    EXPECT_EQ(host(place).get(),
              missing + (" did not come to rank 0 at " + place.str()) + " within 0.02 s");
  }
}

TEST(MeetHosts, TellWhoHasComeWhoIsMissing) {
  const TcpPlace place = place_of_host(4, 500ms);
  auto ended = host(place);
  const Socket guest = greet_as(place, 2, 4);
  std::string refused;
  for (int i = 0; i < 8; ++i) {  // all of them are named
    const Socket stranger = connect_to(addresses(place).at(0), Clock::now() + 60s);
    write_all(stranger, "GET / HTTP/1", Clock::now() + 60s);
    EXPECT_NE(failure([&] { read_all(stranger, 1, Clock::now() + 60s); }), "none");
    refused += "; refused " + own_address(stranger).str() + ": it is not moesim-hw";
  }
  EXPECT_EQ(read_verdict(guest, Clock::now() + 60s).code, 0);
  const Verdict heard = read_verdict(guest, Clock::now() + 60s);
  EXPECT_EQ(heard.code, 1);
  EXPECT_EQ(heard.reason,
            "ranks 1, 3 did not come to rank 0 at " + place.str() + " within 0.5 s" + refused);
  EXPECT_EQ(ended.get(), heard.reason);
}

TEST(MeetHosts, HaveConnectionsByRank) {
  EXPECT_EQ(meet({0, 1, "", 0, "", 1s}).size(), 1U) << "one rank meets nobody";
  TcpPlace place = place_of_host(3, 30s);
  auto met = std::async(std::launch::async, [place] { return meet(place); });
  const Socket second = greet_as(place, 2, 3);
  place.rank = 1;
  const auto of_1 = meet(place);
  const auto of_0 = met.get();
  ASSERT_EQ(of_0.size(), 3U);
  ASSERT_EQ(of_1.size(), 3U);
  EXPECT_FALSE(of_0[0].open());
  EXPECT_TRUE(of_1[0].open());
  EXPECT_FALSE(of_1[1].open() || of_1[2].open());
  write_all(of_0[2], "to 2", Clock::now() + 60s);
  EXPECT_EQ(read_all(second, 16 + 4, Clock::now() + 60s).substr(16), "to 2") << "after verdicts";
  write_all(of_1[0], "of 1", Clock::now() + 60s);
  EXPECT_EQ(read_all(of_0[1], 4, Clock::now() + 60s), "of 1");
}

/// Rank 1 of two; the test is rank 0, which says these bytes once greeted.
std::string said_to_guest(const std::string& bytes, std::string& from) {
  TcpPlace place = place_of_host(2, 30s);
  place.rank = 1;
  from = place.str();
  const Socket listener = listen_at(addresses(place).at(0));
  auto ended = host(place);
  auto guest = accept_now(listener);
  while (!guest) guest = accept_now(listener);
  const auto hello = read_words<Hello>(guest->first, Clock::now() + 60s);
  EXPECT_TRUE(hello.greeting.ours());
  EXPECT_EQ(hello.greeting.version, 1U);
  EXPECT_EQ(hello.rank, 1U);
  EXPECT_EQ(hello.ranks, 2U);
  write_all(guest->first, bytes, Clock::now() + 60s);
  return ended.get();
}

TEST(MeetGuests, SayWhatIsWrongWithRank0) {
  const auto verdict = [](std::int32_t code, const std::string& reason) {
    const auto size = static_cast<std::uint32_t>(reason.size());
    return bytes_of(code) + bytes_of(size) + reason;
  };
  Reply of_version_2;
  of_version_2.greeting.version = 2;
  const std::string known = bytes_of(Reply()) + std::string(proof_size, '\0');
  const std::string certain = "rank 1, rendezvous with rank 0 at FROM: ";
  for (const auto& [bytes, why] : std::initializer_list<std::pair<std::string, std::string>>{
           {"SSH-2.0-some", certain + "what listens at FROM is not moesim-hw"},
           {bytes_of(of_version_2),
            certain + "rank 0 speaks version 2 of the rendezvous, this rank 1"},
           {bytes_of(Reply()) + std::string(proof_size, 'x'),
            "rank 0 at FROM has another secret than this rank 1"},
           {known + verdict(1, "no room"), certain + "no room"},
           {known + verdict(2, "bad rank"), "bad rank"},
           {known + verdict(0, "") + verdict(3, "too late"), certain + "too late"},
       }) {
    std::string from, text = why;
    const std::string heard = said_to_guest(bytes, from);
    for (auto at = text.find("FROM"); at != std::string::npos; at = text.find("FROM")) {
      text.replace(at, 4, from);
    }
    EXPECT_THAT(heard, HasSubstr(text));
    EXPECT_EQ(heard.find(certain.substr(0, 8)) == 0, why.find(certain) == 0) << heard;
  }
}

}  // namespace
}  // namespace moesim
