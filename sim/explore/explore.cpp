// SPDX-License-Identifier: Apache-2.0
#include "sim/explore/explore.h"

#include <fmt/format.h>

#include <optional>
#include <thread>

#include "sim/base/error.h"
#include "sim/base/stop_signals.h"
#include "sim/base/temporary_folder.h"
#include "sim/explore/routes.h"

namespace moesim {
namespace {

/// The port is known only once it is bound, and the checks need it.
class LateHandler : public HttpHandler {
 public:
  void take(HttpHandler& handler) { handler_ = &handler; }
  std::optional<HttpAnswer> refuse(const HttpRequest& request) override {
    return handler_->refuse(request);
  }
  HttpAnswer answer(const HttpRequest& request) override { return handler_->answer(request); }

 private:
  HttpHandler* handler_ = nullptr;
};

/// Serves in a thread of its own while it lives.
class Serving {
 public:
  explicit Serving(HttpServer& server) : server_(server), thread_([&server] { server.serve(); }) {}
  ~Serving() {
    server_.stop();
    thread_.join();
  }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

 private:
  HttpServer& server_;
  std::thread thread_;
};

int bound(HttpServer& server, int asked) {
  const int port = server.bind(asked);
  if (port != -1) return port;
  throw Error(fmt::format("port {} is taken", asked),
              "--port N chooses another one, --port 0 any that is free");
}

}  // namespace

void explore(const ExploreOptions& options) {
  const TemporaryFolder drops;
  // Its process is made before there are threads and sockets, which it would inherit.
  Runs runs({options.version, options.given, drops.path(), options.workers});
  const StopSignals from_here_on;  // who knows the address may end it
  LateHandler handler;
  const auto server = make_http_server(handler);
  const int port = bound(*server, options.port);
  const std::string token = random_token();
  PageRoutes routes(Access(token, port), {options.version, drops.path(), options.choices}, runs);
  handler.take(routes);
  const int signal = [&] {
    const Serving serving(*server);
    options.ready(fmt::format("http://127.0.0.1:{}/?token={}", port, token));
    return runs.work();
  }();
  if (signal != 0) throw Interrupted(signal, "the page is closed");
}

}  // namespace moesim
