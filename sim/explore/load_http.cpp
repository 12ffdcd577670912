// SPDX-License-Identifier: Apache-2.0
// The library that speaks HTTP: loaded, linked in, or not there at all.
#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/explore/http.h"
#ifdef MOESIM_HTTP_LOADED
#include "sim/base/loaded_library.h"
#include "sim/explore/http_library.h"
#endif

#ifdef MOESIM_HTTP_LINKED
extern "C" moesim::HttpServer* moesim_make_http_server(moesim::HttpHandler* handler);
#endif

namespace moesim {
namespace {

using MakeServer = HttpServer*(HttpHandler* handler);

struct HttpLibrary {
  MakeServer* make = nullptr;
  std::string missing = {};  // why there is none
};

HttpLibrary find_http() {
#if defined(MOESIM_HTTP_LINKED)
  return {moesim_make_http_server};
#elif defined(MOESIM_HTTP_LOADED)
  const LoadedFunction loaded = load_function(built_http, "moesim_make_http_server");
  return {reinterpret_cast<MakeServer*>(loaded.function), loaded.missing};
#else
  return {nullptr, "moesim was built without it"};
#endif
}

const HttpLibrary& http_library() {
  static const HttpLibrary library = find_http();
  return library;
}

}  // namespace

std::string why_no_http() { return http_library().missing; }

std::unique_ptr<HttpServer> make_http_server(HttpHandler& handler) {
  if (http_library().make == nullptr) {
    throw Error(fmt::format("the page needs cpp-httplib: {}", why_no_http()),
                "install libcpp-httplib-dev (Debian) and build again, or use moesim compare "
                "--report FILE.html");
  }
  return std::unique_ptr<HttpServer>(http_library().make(&handler));
}

}  // namespace moesim
