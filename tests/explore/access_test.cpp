// SPDX-License-Identifier: Apache-2.0
// Who may ask the page's server.
#include "sim/explore/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moesim {
namespace {

using testing::HasSubstr;

const std::string token(32, 'a');
const Access access_of_8642(token, 8642);

/// A request that passes.
HttpRequest good_request(const std::string& method = "GET") {
  HttpRequest request{method, "/api/run", {}, {{"Host", "127.0.0.1:8642"}}};
  request.headers.emplace_back("X-Moesim-Token", token);
  if (method == "POST") request.headers.emplace_back("Content-Length", "2");
  return request;
}

/// The status that a request is refused with, 200 for one that passes.
int status_of(const HttpRequest& request) {
  const auto refused = access_of_8642.check(request);
  return refused ? refused->status : 200;
}

HttpRequest with(HttpRequest request, const std::string& name, const std::string& value) {
  std::erase_if(request.headers, [&](const auto& header) { return header.first == name; });
  request.headers.emplace_back(name, value);
  return request;
}

TEST(Access, PassesWhatHasTheToken) {
  EXPECT_EQ(status_of(good_request()), 200);
  EXPECT_EQ(status_of(good_request("POST")), 200);
  EXPECT_EQ(status_of(with(good_request(), "Host", "localhost:8642")), 200);
  EXPECT_EQ(status_of(with(good_request(), "Origin", "http://127.0.0.1:8642")), 200);
}

TEST(Access, NamesOfHeadersHaveNoCase) {
  HttpRequest request{
      "GET", "/api/run", {}, {{"HOST", "127.0.0.1:8642"}, {"x-moesim-TOKEN", token}}};
  EXPECT_EQ(status_of(request), 200);
}

TEST(Access, RefusesWrongTokens) {
  for (const std::string& wrong :
       {std::string(), std::string(31, 'a'), std::string(33, 'a'), std::string(32, 'b')}) {
    EXPECT_EQ(status_of(with(good_request(), "X-Moesim-Token", wrong)), 401) << wrong;
  }
  HttpRequest twice = good_request();
  twice.headers.emplace_back("X-Moesim-Token", token);
  EXPECT_EQ(status_of(twice), 401);
}

TEST(Access, OnlyThePageTakesTheTokenFromItsAddress) {
  HttpRequest page{"GET", "/", {{"token", token}}, {{"Host", "127.0.0.1:8642"}}};
  EXPECT_EQ(status_of(page), 200);
  page.path = "/api/run";
  EXPECT_EQ(status_of(page), 401);
  page.path = "/";
  page.query = {};
  EXPECT_THAT(access_of_8642.check(page)->body, HasSubstr("needs its token"));
}

TEST(Access, RefusesOtherNamesOfThisAddress) {
  for (const char* host : {"evil.example", "evil.example:8642", "127.0.0.1", "127.0.0.1:8643",
                           "127.0.0.1:8642.evil.example", ""}) {
    EXPECT_EQ(status_of(with(good_request(), "Host", host)), 403) << host;
  }
  HttpRequest twice = good_request();
  twice.headers.emplace_back("Host", "127.0.0.1:8642");
  EXPECT_EQ(status_of(twice), 403);
}

TEST(Access, RefusesOtherSites) {
  for (const char* origin : {"null", "http://evil.example", "https://127.0.0.1:8642",
                             "http://127.0.0.1", "http://127.0.0.1:8642/"}) {
    EXPECT_EQ(status_of(with(good_request("POST"), "Origin", origin)), 403) << origin;
  }
  EXPECT_EQ(status_of(with(good_request(), "Sec-Fetch-Site", "cross-site")), 403);
  HttpRequest sites = with(good_request(), "Sec-Fetch-Site", "same-origin");
  EXPECT_EQ(status_of(sites), 200);
  sites.headers.emplace_back("Sec-Fetch-Site", "cross-site");
  EXPECT_EQ(status_of(sites), 403) << "each of them counts";
  EXPECT_EQ(status_of(with(good_request(), "Sec-Fetch-Site", "none")), 200) << "typed by hand";
  HttpRequest page = with(good_request(), "Sec-Fetch-Site", "cross-site");
  page.path = "/";
  EXPECT_EQ(status_of(page), 200) << "a link to the page may stand anywhere";
  page.method = "POST";
  EXPECT_EQ(status_of(page), 403);
}

TEST(Access, BoundsBodies) {
  const HttpRequest post = good_request("POST");
  EXPECT_EQ(status_of(with(post, "Content-Length", std::to_string(5 << 20))), 413);
  EXPECT_EQ(status_of(with(post, "Content-Length", std::to_string(4 << 20))), 200);
  HttpRequest drop = post;
  drop.path = "/api/drop";
  EXPECT_EQ(status_of(with(drop, "Content-Length", std::to_string(5 << 20))), 200);
  EXPECT_EQ(status_of(with(drop, "Content-Length", std::to_string(64 << 20))), 200);
  EXPECT_EQ(status_of(with(drop, "Content-Length", std::to_string((64 << 20) + 1))), 413);
  drop.path = "/api/report";
  EXPECT_EQ(status_of(with(drop, "Content-Length", std::to_string(64 << 20))), 200);
  for (const char* length : {"", "-1", "2x", "99999999999999999999999"}) {
    EXPECT_EQ(status_of(with(post, "Content-Length", length)), 400) << length;
  }
  EXPECT_EQ(status_of(with(post, "Content-Encoding", "gzip")), 400);
  EXPECT_EQ(status_of(with(post, "Transfer-Encoding", "chunked")), 400);
  EXPECT_EQ(status_of(with(good_request(), "Content-Length", "3")), 400);
  EXPECT_EQ(status_of(with(good_request(), "Content-Length", "0")), 200);
  EXPECT_EQ(status_of(good_request("PUT")), 405);
}

TEST(Access, TokensAreLongAndNew) {
  const std::string one = random_token(), other = random_token();
  EXPECT_EQ(one.size(), 32u);
  EXPECT_NE(one, other);
  EXPECT_EQ(one.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_TRUE(equal_secrets(one, one));
  EXPECT_FALSE(equal_secrets(one, other));
  EXPECT_FALSE(equal_secrets(one, one.substr(1)));
  EXPECT_FALSE(equal_secrets("abc", "xbc")) << "the first letter";
  EXPECT_FALSE(equal_secrets("abc", "abx")) << "the last letter";
}

}  // namespace
}  // namespace moesim
