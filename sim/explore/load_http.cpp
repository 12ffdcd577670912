// SPDX-License-Identifier: Apache-2.0
// The library that speaks HTTP is where moesim was installed or built.
#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

#include "sim/base/error.h"
#include "sim/explore/http.h"
#include "sim/explore/http_library.h"

namespace fs = std::filesystem;

namespace moesim {
namespace {

using MakeServer = HttpServer*(HttpHandler* handler);

struct HttpLibrary {
  MakeServer* make = nullptr;
  std::string missing = {};  // why there is none
};

/// In the build folder for programs that are in it, else where it is installed.
fs::path http_library_file() {
  std::error_code unknown;
  const fs::path folder = fs::read_symlink("/proc/self/exe", unknown).parent_path();
  const fs::path below = folder.lexically_relative(MOESIM_BUILD_FOLDER);
  if (!below.empty() && *below.begin() != "..") {
    return fs::path(MOESIM_BUILD_FOLDER) / built_http_library;
  }
  const fs::path name = fs::path(built_http_library).filename();
  return (folder / ".." / MOESIM_LIBRARIES / name).lexically_normal();
}

HttpLibrary load_http() {
  if (std::string(built_http_library).empty()) return {nullptr, "moesim was built without it"};
  const std::string file = http_library_file().string();
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {nullptr, dlerror()};
  void* const found = dlsym(library, "moesim_make_http_server");
  if (found == nullptr) return {nullptr, file + " is not of this moesim"};
  return {reinterpret_cast<MakeServer*>(found)};
}

const HttpLibrary& http_library() {
  static const HttpLibrary library = load_http();
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
