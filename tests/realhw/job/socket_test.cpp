// SPDX-License-Identifier: Apache-2.0
#include "realhw/tcp/socket.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "sim/base/error.h"
#include "tests/realhw/job/ends.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using namespace std::chrono_literals;

TEST(Sockets, ReadMessagesThatComeInPieces) {
  const auto [here, there] = joined();
  const auto deadline = Clock::now() + 60s;
  write_all(there, "abc", deadline);
  std::thread later([&, &from = there] {
    std::this_thread::sleep_for(50ms);
    write_all(from, "de", deadline);
    std::this_thread::sleep_for(50ms);
    write_all(from, "fgh", deadline);
  });
  EXPECT_EQ(read_all(here, 7, deadline), "abcdefg");
  later.join();
  std::string bytes = "x";
  read_some(here, 10, bytes);
  EXPECT_EQ(bytes, "xh");
  read_some(here, 10, bytes);
  EXPECT_EQ(bytes, "xh") << "nothing has come";
  write_all(there, "y", deadline);
  errno = 0;
  read_some(here, 0, bytes);
  EXPECT_EQ(bytes, "xh") << "nothing is wanted";
  EXPECT_EQ(read_all(here, 1, Clock::now() + 5s), "y");
}

TEST(Sockets, WriteWhatDoesNotFitAtOnce) {
  const auto [here, there] = joined();
  const auto deadline = Clock::now() + 60s;
  std::string much(4 << 20, ' ');
  for (std::size_t i = 0; i < much.size(); ++i) much[i] = static_cast<char>(i * 31 + i / 257);
  std::thread writer([&, &to = there] { write_all(to, much, deadline); });
  EXPECT_TRUE(read_all(here, much.size(), deadline) == much);
  writer.join();
}

TEST(Sockets, GiveUpAtTheDeadlineAndWhenTheOtherEndIsGone) {
  auto [here, there] = joined();
  const auto began = Clock::now();
  EXPECT_THAT(failure([&, &from = here] { read_all(from, 1, began + 200ms); }),
              HasSubstr("the peer says nothing"));
  EXPECT_GE(Clock::now() - began, 200ms);
  there = Socket();
  EXPECT_THAT(failure([&, &from = here] { read_all(from, 1, Clock::now() + 60s); }),
              HasSubstr("the connection was closed"));
  std::string bytes;
  EXPECT_THAT(failure([&, &from = here] { read_some(from, 1, bytes); }),
              HasSubstr("the connection was closed"));
}

TEST(Sockets, SayHowWritingEnds) {
  auto [here, there] = joined();
  const auto write = [&, &to = here](std::size_t size, std::chrono::milliseconds patience) {
    return failure([&] { write_all(to, std::string(size, 'x'), Clock::now() + patience); });
  };
  EXPECT_THAT(write(4 << 20, 200ms), HasSubstr("the peer takes no bytes"));
  there = Socket();
  EXPECT_THAT(write(1, 60s), HasSubstr("the connection broke"));
}

/// An end that is gone with bytes that it has not read breaks the connection.
TEST(Sockets, SayThatTheConnectionBrokeWhileReading) {
  std::string bytes;
  for (const bool some : {true, false}) {
    auto [here, there] = joined();
    write_all(here, "x", Clock::now() + 60s);
    there = Socket();
    EXPECT_THAT(failure([&, &from = here] {
                  some ? read_some(from, 1, bytes) : void(read_all(from, 1, Clock::now() + 60s));
                }),
                HasSubstr("the connection broke"));
  }
}

TEST(Sockets, SendSmallMessagesAtOnce) {
  const Socket listener = listen_at(resolve("127.0.0.1", 0).at(0));
  EXPECT_FALSE(accept_now(listener)) << "nobody waits";
  const Address at = own_address(listener);
  EXPECT_TRUE(at.loopback());
  const Socket guest = connect_to(at, Clock::now() + 60s);
  auto taken = accept_now(listener);
  while (!taken) taken = accept_now(listener);
  EXPECT_EQ(taken->second.host(), "127.0.0.1");
  for (const Socket* one : {&guest, static_cast<const Socket*>(&taken->first)}) {
    int is_set = 0;
    socklen_t length = sizeof is_set;
    ASSERT_EQ(getsockopt(one->fd(), IPPROTO_TCP, TCP_NODELAY, &is_set, &length), 0);
    EXPECT_EQ(is_set, 1);
    EXPECT_NE(fcntl(one->fd(), F_GETFL) & O_NONBLOCK, 0);
    EXPECT_NE(fcntl(one->fd(), F_GETFD) & FD_CLOEXEC, 0);
  }
}

TEST(Addresses, AreNumbersWithPorts) {
  struct Case {
    const char *host, *text;
    bool loopback;
  };
  for (const auto& [host, text, loopback] : std::initializer_list<Case>{
           {"127.0.0.1", "127.0.0.1:29500", true},
           {"127.255.3.4", "127.255.3.4:29500", true},
           {"126.0.0.1", "126.0.0.1:29500", false},
           {"10.1.2.3", "10.1.2.3:29500", false},
           {"::1", "[::1]:29500", true},
           {"::2", "[::2]:29500", false},
       }) {
    const auto found = resolve(host, 29500);
    ASSERT_EQ(found.size(), 1U) << host;
    EXPECT_EQ(found[0].host(), host);
    EXPECT_EQ(found[0].str(), text);
    EXPECT_EQ(found[0].loopback(), loopback) << host;
  }
  EXPECT_THAT(failure([] { resolve("1:2", 1); }), StartsWith("cannot resolve '1:2': "));
}

TEST(Sockets, SayWhyTheyCannotListenOrConnect) {
  const auto refused = [](const Address& at) { return failure([&] { listen_at(at); }); };
  Address at;
  {
    const Socket listener = listen_at(resolve("127.0.0.1", 0).at(0));
    at = own_address(listener);
    EXPECT_THAT(refused(at),
                HasSubstr("rank 0 cannot listen at " + at.str() + ": the port is in use"));
  }
  EXPECT_THAT(refused(resolve("198.51.100.7", 1234).at(0)),
              HasSubstr("rank 0 cannot listen at 198.51.100.7:1234: no address of this host"));
  EXPECT_EQ(failure([&] { connect_to(at, Clock::now() + 60s); }),
            "cannot connect to " + at.str() + ": Connection refused");
}

/// Who listens but takes nobody in answers only as many as wait.
TEST(Sockets, GiveUpWhereNobodyAnswers) {
  const Socket listener = listen_at(resolve("127.0.0.1", 0).at(0));
  ASSERT_EQ(listen(listener.fd(), 0), 0);
  const Address at = own_address(listener);
  std::vector<Socket> waiting;
  EXPECT_EQ(failure([&] {
              for (int i = 0; i < 8; ++i) waiting.push_back(connect_to(at, Clock::now() + 50ms));
            }),
            at.str() + " does not answer");
}

}  // namespace
}  // namespace moesim
