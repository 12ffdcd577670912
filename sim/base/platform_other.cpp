// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#ifdef __APPLE__
#include <crt_externs.h>
#include <mach-o/dyld.h>
#endif

#include "sim/base/platform.h"

namespace moesim {
namespace {

[[noreturn]] void throw_errno(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

void close_on_exec(const std::array<int, 2>& ends) {
  for (const int end : ends) ::fcntl(end, F_SETFD, FD_CLOEXEC);
}

}  // namespace

std::filesystem::path own_program() {
#ifdef __APPLE__
  std::uint32_t size = 0;
  ::_NSGetExecutablePath(nullptr, &size);
  std::string path(size, '\0');
  if (::_NSGetExecutablePath(path.data(), &size) != 0) return {};
  std::error_code unknown;
  return std::filesystem::canonical(path.c_str(), unknown);
#else
  return {};
#endif
}

std::vector<std::string> own_arguments() {
#ifdef __APPLE__
  return {*::_NSGetArgv(), *::_NSGetArgv() + *::_NSGetArgc()};
#else
  return {};
#endif
}

void end_with(pid_t parent) {
  if (::getppid() != parent) ::_exit(1);
}

std::array<int, 2> make_pipe(bool waiting) {
  std::array<int, 2> ends;
  if (::pipe(ends.data()) != 0) throw_errno("cannot make a pipe");
  close_on_exec(ends);
  if (!waiting) {
    for (const int end : ends) ::fcntl(end, F_SETFL, O_NONBLOCK);
  }
  return ends;
}

std::array<int, 2> make_socket_pair() {
  std::array<int, 2> ends;
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0) {
    throw_errno("cannot make a pair of sockets");
  }
  close_on_exec(ends);
#ifdef SO_NOSIGPIPE
  const int yes = 1;
  for (const int end : ends) ::setsockopt(end, SOL_SOCKET, SO_NOSIGPIPE, &yes, sizeof yes);
#endif
  return ends;
}

ssize_t send_now(int socket, std::string_view bytes) {
  return ::send(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
}

void draw_random(void* bytes, std::size_t count) { ::arc4random_buf(bytes, count); }

int open_nameless(const std::string&, int) { return -1; }

std::string path_of_open(int) { return {}; }

bool swap_names(const std::string& a, const std::string& b) {
#ifdef __APPLE__
  return ::renamex_np(a.c_str(), b.c_str(), RENAME_SWAP) == 0;
#else
  (void)a, (void)b;
  return false;
#endif
}

void expect_large_pages(void*, std::size_t) {}

void keep_freed_memory() {}

#ifdef __APPLE__
timespec written_at(const struct stat& status) { return status.st_mtimespec; }
timespec changed_at(const struct stat& status) { return status.st_ctimespec; }
#else
timespec written_at(const struct stat& status) { return status.st_mtim; }
timespec changed_at(const struct stat& status) { return status.st_ctim; }
#endif

}  // namespace moesim
