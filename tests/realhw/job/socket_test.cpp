// SPDX-License-Identifier: Apache-2.0
#include "realhw/tcp/socket.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <thread>

namespace moesim {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

std::pair<Socket, Socket> joined() {
  std::array<int, 2> ends{};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
  return {Socket(ends[0]), Socket(ends[1])};
}

template <class Action>
std::string failure(Action action) {
  try {
    action();
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "none";
}

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
  sockaddr_storage bytes{};
  socklen_t size = sizeof bytes;
  ASSERT_EQ(getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&bytes), &size), 0);
  EXPECT_FALSE(accept_now(listener)) << "nobody waits";
  Address at;
  at.bytes = bytes;
  at.size = size;
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

}  // namespace
}  // namespace moesim
