// SPDX-License-Identifier: Apache-2.0
// The server that the page is served by, with a handler that refuses nothing.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "sim/base/processes.h"
#include "sim/explore/http.h"

namespace moesim {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// Answers with what it was asked; throws for /throw.
class TellingHandler : public HttpHandler {
 public:
  std::optional<HttpAnswer> refuse(const HttpRequest& request) override {
    if (request.path != "/refused") return std::nullopt;
    return HttpAnswer{418, "text/plain", "no", {{"X-Why", "tea"}}};
  }
  HttpAnswer answer(const HttpRequest& request) override {
    ++answered;
    if (request.path == "/throw") throw std::runtime_error("a secret");
    const std::string body = request.method + " " + request.path + " " + request.parameter("a") +
                             " " + request.header("X-B").front() + " " + request.body;
    return {201, "text/plain", body, {{"X-C", "d"}}};
  }
  std::atomic<int> answered = 0;
};

class ServingHttp : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!why_no_http().empty()) GTEST_SKIP() << why_no_http();
    server_ = make_http_server(handler_);
    port_ = server_->bind(0);
    ASSERT_GT(port_, 0);
    serving_ = std::thread([&] { server_->serve(); });
  }
  void TearDown() override {
    if (!serving_.joinable()) return;
    server_->stop();
    serving_.join();
  }
  /// What comes back, to the end of the connection.
  std::string ask(const std::string& request) const {
    const int connection = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port_));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(connection, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    write_all(connection, request);  // what is refused need not be read to its end
    std::string answer;
    while (read_more(connection, answer)) continue;
    ::close(connection);
    return answer;
  }

  TellingHandler handler_;
  std::unique_ptr<HttpServer> server_;
  std::thread serving_;
  int port_ = 0;
};

TEST_F(ServingHttp, TellsTheHandlerWhatIsAskedAndAnswersOnce) {
  const std::string post =
      "POST /x?a=1&a=2 HTTP/1.1\r\nHost: h\r\nX-B: c\r\nContent-Length: 3\r\n\r\nabc";
  const std::string answer = ask(post + post);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 201 "));
  EXPECT_THAT(answer, HasSubstr("\r\nX-C: d\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Type: text/plain\r\n"));
  EXPECT_THAT(answer, ::testing::EndsWith("\r\n\r\nPOST /x 1 c abc"));
  EXPECT_EQ(handler_.answered, 1) << "a connection has one request";
}

TEST_F(ServingHttp, DoesNotAskForAnswersToWhatIsRefused) {
  const std::string answer = ask("GET /refused HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 418 "));
  EXPECT_THAT(answer, HasSubstr("\r\nX-Why: tea\r\n"));
  EXPECT_THAT(answer, ::testing::EndsWith("\r\n\r\nno"));
  EXPECT_EQ(handler_.answered, 0);
}

TEST_F(ServingHttp, HandsOutNoBodyThatIsTooLong) {
  const auto post = [](std::size_t bytes) {
    return "POST /x HTTP/1.1\r\nHost: h\r\nX-B: c\r\nContent-Length: " + std::to_string(bytes) +
           "\r\n\r\n" + std::string(bytes, 'a');
  };
  EXPECT_THAT(ask(post(most_body_bytes + 1)), StartsWith("HTTP/1.1 413 "));
  EXPECT_EQ(handler_.answered, 0);
  EXPECT_THAT(ask(post(1000)), StartsWith("HTTP/1.1 201 "));
}

TEST_F(ServingHttp, DoesNotTellWhyItFailed) {
  const std::string answer = ask("GET /throw HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(answer, Not(HasSubstr("secret")));
}

TEST(ServersThatNeverListened, MayBeStopped) {
  if (!why_no_http().empty()) GTEST_SKIP() << why_no_http();
  TellingHandler handler;
  const auto server = make_http_server(handler);
  server->serve();  // it is bound to no port
  server->stop();
  EXPECT_EQ(handler.answered, 0);
}

}  // namespace
}  // namespace moesim
