// SPDX-License-Identifier: Apache-2.0
// HTTP on loopback, without the library that speaks it: that one is loaded when a page is served.
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

/// What a server asks; from several threads at a time.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  /// Whether a request is refused before its body is read: the body is empty here.
  virtual std::optional<HttpAnswer> refuse(const HttpRequest& request) = 0;
  virtual HttpAnswer answer(const HttpRequest& request) = 0;
};

/// Serves 127.0.0.1 only, one request per connection. Bodies that are longer than `most_bytes`,
/// compressed or without a length do not reach the handler.
class HttpServer {
 public:
  virtual ~HttpServer() = default;
  /// The port it took; 0 asks for any that is free. -1 if another program has it.
  virtual int bind(int port) = 0;
  /// Until stop().
  virtual void serve() = 0;
  virtual void stop() = 0;
};

/// A request's body is at most this long.
constexpr std::size_t most_body_bytes = 64 << 20;

/// Throws Error if the library is not there, with what to install. `handler` outlives the server.
std::unique_ptr<HttpServer> make_http_server(HttpHandler& handler);

/// Why a page cannot be served by this installation; empty if it can.
std::string why_no_http();

}  // namespace moesim
