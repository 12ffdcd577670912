// SPDX-License-Identifier: Apache-2.0
#include "sim/base/file_in_parts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/file_claims.h"
#include "sim/base/files.h"
#include "sim/base/platform.h"
#include "sim/base/processes.h"

namespace moesim {
namespace {

Error cannot_write(const std::string& path, int reason) {
  return error_in(path, fmt::format("cannot be written: {}", std::strerror(reason)));
}

int open_nameless_beside(const std::string& path, int access) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return open_nameless(folder.empty() ? "." : folder, access);
}

/// A file that was not there: a link that somebody planted is not followed.
int open_new(const std::string& path, int access) {
  return ::open(path.c_str(), O_CREAT | O_EXCL | O_NOFOLLOW | access | O_CLOEXEC, 0666);
}

}  // namespace

std::string fresh_name_beside(const std::string& path) {
  std::uint64_t bits = 0;
  draw_random(&bits, sizeof bits);
  return fmt::format("{}.tmp-{:016x}", path, bits);
}

FileInParts::FileInParts(const std::string& path)
    : path_(output_target(path)), temporary_(fresh_name_beside(path_)) {
  file_ = open_nameless_beside(path_, O_WRONLY);
  nameless_ = file_ >= 0 && is_there(path_of_open(file_));
  if (nameless_) return;
  if (file_ >= 0) ::close(file_);
  file_ = open_new(temporary_, O_WRONLY);
  if (file_ < 0) throw cannot_write(path_, errno);
  named_ = true;
}

FileInParts::FileInParts(FileInParts&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      file_(std::exchange(other.file_, -1)),
      nameless_(other.nameless_),
      named_(std::exchange(other.named_, false)) {}

FileInParts::~FileInParts() { abandon(); }

void FileInParts::abandon() {
  if (file_ >= 0) ::close(std::exchange(file_, -1));
  if (std::exchange(named_, false)) ::unlink(temporary_.c_str());
}

void FileInParts::fail(int reason) {
  abandon();
  throw cannot_write(path_, reason);
}

void FileInParts::write(std::string_view bytes) {
  if (!write_all(file_, bytes)) fail(errno);
}

void FileInParts::prepare() {
  if (::fsync(file_) != 0) fail(errno);
  if (std::exchange(nameless_, false)) {
    const std::string link = path_of_open(file_);
    if (::linkat(AT_FDCWD, link.c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      fail(errno);
    }
    named_ = true;
  }
  ::close(std::exchange(file_, -1));  // sets may be larger than what a process may have open
}

void FileInParts::finish() {
  if (file_ >= 0) prepare();
  if (rename_to_output(temporary_, path_) != 0) fail(errno);
  named_ = false;
}

NamelessFile::NamelessFile(const std::string& path) : path_(path) {
  file_ = open_nameless_beside(path, O_RDWR);
  if (file_ >= 0) return;
  const std::string name = fresh_name_beside(path);
  file_ = open_new(name, O_RDWR);
  if (file_ < 0) throw cannot_write(path, errno);
  ::unlink(name.c_str());
}

NamelessFile::~NamelessFile() {
  if (file_ >= 0) ::close(file_);
}

NamelessFile::NamelessFile(NamelessFile&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)) {}

void NamelessFile::append(std::string_view bytes) const {
  if (!write_all(file_, bytes)) throw cannot_write(path_, errno);
}

void NamelessFile::read(const std::function<void(std::string_view)>& take) const {
  std::vector<char> part(1 << 20);
  for (off_t at = 0;;) {
    const ssize_t count = ::pread(file_, part.data(), part.size(), at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw cannot_write(path_, errno);
    if (count == 0) return;
    take({part.data(), static_cast<std::size_t>(count)});
    at += count;
  }
}

}  // namespace moesim
