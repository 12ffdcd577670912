// SPDX-License-Identifier: Apache-2.0
#include "sim/base/file_claims.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/file_in_parts.h"
#include "sim/base/files.h"
#include "sim/base/regular_file.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

/// A file whatever its names are.
using FileId = std::pair<dev_t, ino_t>;

/// Claims of this process. A path says more only of files that are not there yet.
struct Claims {
  std::mutex mutex;
  std::set<FileId> read, written;
  std::set<std::string> written_paths, read_folders;
};

Claims& claims() {
  static Claims all;
  return all;
}

std::optional<FileId> id_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return FileId(status.st_dev, status.st_ino);
}

Error read_and_written(const std::string& path) {
  return error_in(path, "is both read and written by this command",
                  "give the output another name: nothing has been written");
}

bool is_inside(const std::string& path, const std::string& folder) {
  return path.starts_with(folder) && (folder.ends_with('/') || path[folder.size()] == '/');
}

Error written_inside(const std::string& path, const std::string& folder) {
  return error_in(path, fmt::format("is inside the folder '{}', which this command reads", folder),
                  "give the output a name outside of it: nothing has been written");
}

Error not_readable(const std::string& path) {
  return error_in(path, fmt::format("cannot be read: {}", std::strerror(errno)));
}

void note(const std::string& path, const struct stat& status) {
  if (!S_ISREG(status.st_mode)) throw error_in(path, "is not a regular file");
  const FileId id(status.st_dev, status.st_ino);
  const std::lock_guard guard(claims().mutex);
  if (claims().written.contains(id)) throw read_and_written(path);
  claims().read.insert(id);
}

/// Where it is written, by one name whatever links there are. Throws Error if it cannot be.
std::string target_of(const std::string& path) {
  try {
    check_writable(path);
    return fs::weakly_canonical(fs::absolute(output_target(path))).string();
  } catch (const fs::filesystem_error& e) {
    throw error_in(path, "cannot be written: " + e.code().message());
  }
}

enum class Reading { refused, meant };

void claim(const std::string& path, Reading reading) {
  if (is_standard_output(path)) {
    throw error_in(path, "is standard output, and this output needs a file of its own",
                   path == standard_output ? "./- is a file of this name" : "give it another name");
  }
  const std::string target = target_of(path);
  const std::optional<FileId> id = id_of(path);
  const std::lock_guard guard(claims().mutex);
  if (reading == Reading::refused && id && claims().read.contains(*id)) {
    throw read_and_written(path);
  }
  for (const std::string& folder : claims().read_folders) {
    if (is_inside(target, folder)) throw written_inside(path, folder);
  }
  const bool is_new = claims().written_paths.insert(target).second;
  if (!is_new || (id && claims().written.contains(*id))) {
    throw error_in(path, "is the name of two outputs of this command",
                   "give each a name of its own");
  }
  if (reading == Reading::refused && id) claims().written.insert(*id);
}

}  // namespace

bool is_standard_output(const std::string& path) {
  if (path == standard_output) return true;
  struct stat its {};
  struct stat out {};
  return ::stat(path.c_str(), &its) == 0 && ::fstat(STDOUT_FILENO, &out) == 0 &&
         its.st_dev == out.st_dev && its.st_ino == out.st_ino;
}

int open_input(const std::string& path) {
  check_regular_file(path);
  // O_NONBLOCK: should a FIFO take its place meanwhile, nobody waits for its writer.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  if (file < 0 || ::fstat(file, &status) != 0) throw not_readable(path);
  try {
    note(path, status);
  } catch (const Error&) {
    ::close(file);
    throw;
  }
  return file;
}

void note_input(const std::string& path) {
  check_regular_file(path);
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) throw not_readable(path);
  note(path, status);
}

void note_input_folder(const std::string& path) {
  std::error_code unresolved;
  const std::string folder = fs::weakly_canonical(fs::absolute(path), unresolved).string();
  if (unresolved) return;
  const std::lock_guard guard(claims().mutex);
  for (const std::string& written : claims().written_paths) {
    if (is_inside(written, folder)) throw written_inside(written, folder);
  }
  claims().read_folders.insert(folder);
}

void claim_output(const std::string& path) { claim(path, Reading::refused); }

void claim_rewritten(const std::string& path) { claim(path, Reading::meant); }

int rename_to_output(const std::string& from, const std::string& path) {
  const std::optional<FileId> replaced = id_of(path);
  const int failed = std::rename(from.c_str(), path.c_str());
  if (failed == 0 && replaced) {
    const std::lock_guard guard(claims().mutex);
    claims().written.erase(*replaced);
  }
  return failed;
}

void claim_standard_output() {
  const std::lock_guard guard(claims().mutex);
  if (claims().written_paths.insert(standard_output).second) return;
  throw Error("two documents of this command go to standard output",
              "give one of them the name of a file");
}

}  // namespace moesim
