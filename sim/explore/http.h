// SPDX-License-Identifier: Apache-2.0
// An HTTP server on loopback. The library that implements it is loaded when a page is served.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace moesim {

struct HttpRequest {
  std::string method, path;
  std::vector<std::pair<std::string, std::string>> query, headers;
  std::string body = {};

  /// All values of a header, whatever the case of its name.
  std::vector<std::string> header(const std::string& name) const;
  /// The first value of a key of the query; empty if it is not there.
  std::string parameter(const std::string& key) const;
};

struct HttpAnswer {
  int status = 200;
  std::string type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
};

/// Answers the requests of a server, which calls it from several threads at once.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  /// Called before the body is read, so `request` has none. Returns the answer that refuses the
  /// request; nothing if it is not refused.
  virtual std::optional<HttpAnswer> refuse(const HttpRequest& request) = 0;
  virtual HttpAnswer answer(const HttpRequest& request) = 0;
};

/// Serves 127.0.0.1 only, one request per connection. Bodies that are longer than
/// most_body_bytes, compressed or without a length do not reach the handler.
class HttpServer {
 public:
  virtual ~HttpServer() = default;
  /// Returns the port that it listens on, or -1 if another program has it. `port` 0: any free one.
  virtual int bind(int port) = 0;
  /// Serves until stop() is called.
  virtual void serve() = 0;
  virtual void stop() = 0;
};

/// A request's body is at most this long.
constexpr std::size_t most_body_bytes = 64 << 20;

/// Throws Error, which says what to install, if the library is missing. `handler` must outlive the
/// server.
std::unique_ptr<HttpServer> make_http_server(HttpHandler& handler);

/// Why a page cannot be served by this installation; empty if it can.
std::string why_no_http();

}  // namespace moesim
