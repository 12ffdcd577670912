// SPDX-License-Identifier: Apache-2.0
#include "sim/explore/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/base/platform.h"
#include "sim/base/read_number.h"
#include "sim/html/explore_page.h"

namespace moesim {
namespace {

constexpr std::size_t most_request_bytes = 4 << 20;  // of all bodies but those of dropped files

bool same_letters(const std::string& a, const std::string& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

/// Why a body is not read; nothing if it is.
std::optional<HttpAnswer> check_body(const HttpRequest& request) {
  if (!request.header("Transfer-Encoding").empty() || !request.header("Content-Encoding").empty()) {
    return refusal(400, "a body is sent as it is, with its length");
  }
  const auto given = request.header("Content-Length");
  if (request.method == "GET") {
    return given.empty() || given.front() == "0" ? std::nullopt
                                                 : std::optional(refusal(400, "GET has no body"));
  }
  if (given.size() != 1) return refusal(411, "a body needs its length, once");
  const auto length = parse_integer<std::size_t>(given.front());
  if (!length) return refusal(400, "the length of the body is not a number");
  const bool is_file = request.path == "/api/drop" || request.path == "/api/report";
  if (*length > (is_file ? most_body_bytes : most_request_bytes)) {
    return refusal(413, "the body is too long");
  }
  return std::nullopt;
}

}  // namespace

std::string random_token() {
  std::array<unsigned char, 16> bytes;
  draw_random(bytes.data(), bytes.size());
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

bool equal_secrets(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return false;
  volatile unsigned char differs = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    differs = static_cast<unsigned char>(differs | (a[i] ^ b[i]));
  }
  return differs == 0;
}

std::vector<std::string> HttpRequest::header(const std::string& name) const {
  std::vector<std::string> values;
  for (const auto& [key, value] : headers) {
    if (same_letters(key, name)) values.push_back(value);
  }
  return values;
}

std::string HttpRequest::parameter(const std::string& key) const {
  const auto found = std::ranges::find(query, key, &std::pair<std::string, std::string>::first);
  return found == query.end() ? "" : found->second;
}

Access::Access(std::string token, int port)
    : token_(std::move(token)), port_(std::to_string(port)) {}

bool Access::is_here(const std::string& host) const {
  return host == "127.0.0.1:" + port_ || host == "localhost:" + port_;
}

bool Access::has_token(const HttpRequest& request) const {
  const auto given = request.header("X-Moesim-Token");
  if (!given.empty()) return given.size() == 1 && equal_secrets(given.front(), token_);
  return request.path == "/" && equal_secrets(request.parameter("token"), token_);
}

std::optional<HttpAnswer> Access::check(const HttpRequest& request) const {
  if (request.method != "GET" && request.method != "POST") {
    return refusal(405, "only GET and POST are answered");
  }
  const auto hosts = request.header("Host");
  if (hosts.size() != 1 || !is_here(hosts.front())) {
    return refusal(403, "this address is of another site");
  }
  for (const std::string& origin : request.header("Origin")) {
    if (!origin.starts_with("http://") || !is_here(origin.substr(7))) {
      return refusal(403, "other sites may not ask");
    }
  }
  // A link to the page may stand anywhere: it needs the token, too.
  const bool is_page = request.method == "GET" && request.path == "/";
  for (const std::string& site : request.header("Sec-Fetch-Site")) {
    if (is_page || site == "same-origin" || site == "none") continue;
    return refusal(403, "other sites may not ask");
  }
  if (!has_token(request)) {
    if (is_page) {
      return HttpAnswer{401, "text/html; charset=utf-8", std::string(door_page), page_headers()};
    }
    return refusal(401, "the token is missing or wrong", "open the address that moesim printed");
  }
  return check_body(request);
}

HttpAnswer refusal(int status, const std::string& error, const std::string& hint) {
  const nlohmann::ordered_json said = {{"error", error}, {"hint", hint}};
  using Json = nlohmann::ordered_json;
  return {status, "application/json", said.dump(-1, ' ', false, Json::error_handler_t::replace),
          page_headers()};
}

std::vector<std::pair<std::string, std::string>> page_headers() {
  return {{"Cache-Control", "no-store"},
          {"X-Content-Type-Options", "nosniff"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Resource-Policy", "same-origin"},
          {"Cross-Origin-Opener-Policy", "same-origin"},
          {"X-Frame-Options", "DENY"},
          {"Content-Security-Policy",
           "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
           "img-src data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
           "frame-ancestors 'none'"}};
}

}  // namespace moesim
