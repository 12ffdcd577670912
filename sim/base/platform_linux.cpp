// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <sstream>
#include <system_error>

#include "sim/base/files.h"
#include "sim/base/platform.h"

namespace moesim {
namespace {

[[noreturn]] void throw_errno(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

std::filesystem::path own_program() {
  std::error_code unknown;
  return std::filesystem::read_symlink("/proc/self/exe", unknown);
}

std::vector<std::string> own_arguments() {
  std::vector<std::string> words;
  std::istringstream line(read_file("/proc/self/cmdline"));
  for (std::string word; std::getline(line, word, '\0');) words.push_back(word);
  return words;
}

void end_with(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it ended before the kernel knew
}

std::array<int, 2> make_pipe(bool waiting) {
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC | (waiting ? 0 : O_NONBLOCK)) != 0)
    throw_errno("cannot make a pipe");
  return ends;
}

std::array<int, 2> make_socket_pair() {
  std::array<int, 2> ends;
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw_errno("cannot make a pair of sockets");
  }
  return ends;
}

ssize_t send_now(int socket, std::string_view bytes) {
  return ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void draw_random(void* bytes, std::size_t count) {
  if (::getrandom(bytes, count, 0) != static_cast<ssize_t>(count)) throw_errno("cannot draw bytes");
}

int open_nameless(const std::string& folder, int access) {
  return ::open(folder.c_str(), O_TMPFILE | access | O_CLOEXEC, 0666);
}

std::string path_of_open(int file) { return fmt::format("/proc/self/fd/{}", file); }

bool swap_names(const std::string& a, const std::string& b) {
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}

void expect_large_pages(void* begin, std::size_t bytes) { ::madvise(begin, bytes, MADV_HUGEPAGE); }

void keep_freed_memory() {
#ifdef __GLIBC__
  ::mallopt(M_MMAP_MAX, 0);
  ::mallopt(M_TRIM_THRESHOLD, INT_MAX);
  ::mallopt(M_TOP_PAD, 64 << 20);
#endif
}

timespec written_at(const struct stat& status) { return status.st_mtim; }
timespec changed_at(const struct stat& status) { return status.st_ctim; }

}  // namespace moesim
