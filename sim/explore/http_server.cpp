// SPDX-License-Identifier: Apache-2.0
// The library that moesim loads for its page: HTTP by cpp-httplib.
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "sim/explore/http.h"

namespace moesim {
namespace {

constexpr int threads = 32;  // one that waits for a run takes one of them
constexpr int patience_s = 5;

HttpRequest request_of(const httplib::Request& given) {
  HttpRequest request{given.method, given.path, {}, {}};
  for (const auto& [key, value] : given.params) request.query.emplace_back(key, value);
  for (const auto& [name, value] : given.headers) request.headers.emplace_back(name, value);
  request.body = given.body;
  return request;
}

void write_to(httplib::Response& response, const HttpAnswer& answer) {
  response.status = answer.status;
  for (const auto& [name, value] : answer.headers) response.set_header(name, value);
  response.set_content(answer.body, answer.type);
}

/// A second program must not share the port, which SO_REUSEPORT would allow.
void reuse_only_left_addresses(socket_t socket) {
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
}

class LoopbackServer : public HttpServer {
 public:
  explicit LoopbackServer(HttpHandler& handler) {
    server_.new_task_queue = [] { return new httplib::ThreadPool(threads); };
    // What a refused request has left unread must not be taken for the next one.
    server_.set_keep_alive_max_count(1);
    server_.set_payload_max_length(most_body_bytes);
    server_.set_read_timeout(patience_s);
    server_.set_write_timeout(patience_s);
    server_.set_tcp_nodelay(true);
    server_.set_socket_options(reuse_only_left_addresses);
    server_.set_pre_routing_handler(
        [&handler](const httplib::Request& request, httplib::Response& response) {
          const auto refusal = handler.refuse(request_of(request));
          if (!refusal) return httplib::Server::HandlerResponse::Unhandled;
          write_to(response, *refusal);
          return httplib::Server::HandlerResponse::Handled;
        });
    const auto answer = [&handler](const httplib::Request& request, httplib::Response& response) {
      write_to(response, handler.answer(request_of(request)));
    };
    server_.Get("/.*", answer);
    server_.Post("/.*", answer);
    server_.set_exception_handler([](const httplib::Request&, httplib::Response& response,
                                     std::exception_ptr) { response.status = 500; });
  }

  int bind(int port) override {
    if (port == 0) return server_.bind_to_any_port("127.0.0.1");
    return server_.bind_to_port("127.0.0.1", port) ? port : -1;
  }
  void serve() override {
    server_.listen_after_bind();
    ended_ = true;
  }
  void stop() override {
    // One that has not begun would not hear of it.
    while (!server_.is_running() && !ended_) std::this_thread::yield();
    server_.stop();
  }

 private:
  httplib::Server server_;
  std::atomic<bool> ended_ = false;
};

}  // namespace
}  // namespace moesim

extern "C" moesim::HttpServer* moesim_make_http_server(moesim::HttpHandler* handler) {
  return new moesim::LoopbackServer(*handler);
}
