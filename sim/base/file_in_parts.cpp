// SPDX-License-Identifier: Apache-2.0
#include "sim/base/file_in_parts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/processes.h"

namespace moesim {
namespace {

Error cannot_write(const std::string& path, int reason) {
  return error_in(path, fmt::format("cannot be written: {}", std::strerror(reason)));
}

}  // namespace

FileInParts::FileInParts(const std::string& path)
    : path_(path), temporary_(fmt::format("{}.tmp-{}", path, ::getpid())) {
  if (is_folder(path)) throw error_in(path, "is a folder, not a file");
  if (is_there(path) && !std::filesystem::is_regular_file(path)) {
    throw error_in(path, "is not a regular file, which alone can be replaced in one go");
  }
  file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) throw cannot_write(path_, errno);
}

FileInParts::~FileInParts() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(temporary_.c_str());
}

void FileInParts::fail(int reason) {
  if (file_ >= 0) ::close(file_);
  file_ = -1;
  ::unlink(temporary_.c_str());
  throw cannot_write(path_, reason);
}

void FileInParts::write(std::string_view bytes) {
  if (!write_all(file_, bytes)) fail(errno);
}

void FileInParts::finish() {
  if (::fsync(file_) != 0) fail(errno);
  const bool closed = ::close(std::exchange(file_, -1)) == 0;
  if (!closed || std::rename(temporary_.c_str(), path_.c_str()) != 0) fail(errno);
}

NamelessFile::NamelessFile(const std::string& path) : path_(path) {
  std::string name = path + ".tmp-XXXXXX";
  file_ = ::mkostemp(name.data(), O_CLOEXEC);
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
