// SPDX-License-Identifier: Apache-2.0
// What each system does in its own way: platform_linux.cpp, and platform_other.cpp for macOS, which
// clang compiles with libc++ and which was never run there.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace moesim {

/// The running program, links followed; empty if the system does not say.
std::filesystem::path own_program();

/// The words that the program was called with.
std::vector<std::string> own_arguments();

/// Call in a new child: it ends when `parent` does. Other systems check only now; the child's next
/// write fails.
void end_with(pid_t parent);

/// {to read, to write}, closed when another program is run. Reads and writes of a pipe that is not
/// `waiting` never block.
/// @throws std::system_error
std::array<int, 2> make_pipe(bool waiting = true);

/// Two ends of a stream, closed when another program is run.
/// @throws std::system_error
std::array<int, 2> make_socket_pair();

/// As ::send(), into a socket, without waiting and without a signal if nobody reads.
ssize_t send_now(int socket, std::string_view bytes);

/// Bytes that nobody can guess.
/// @throws std::system_error
void draw_random(void* bytes, std::size_t count);

/// Opens an unnamed file in a folder (`access`: O_WRONLY or O_RDWR); -1 if unsupported.
int open_nameless(const std::string& folder, int access);

/// A path to an open file, nameless or not, that linkat() follows.
std::string path_of_open(int file);

/// Gives two files or folders each other's name in one go; false if the file system cannot.
bool swap_names(const std::string& a, const std::string& b);

/// A hint that some memory is about to be filled.
void expect_large_pages(void* begin, std::size_t bytes);

/// Makes malloc reuse freed memory, not return it; for processes that end with their job.
void keep_freed_memory();

/// When a file's content, and when anything of it, was changed.
timespec written_at(const struct stat& status);
timespec changed_at(const struct stat& status);

}  // namespace moesim
