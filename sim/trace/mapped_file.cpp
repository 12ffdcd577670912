// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/mapped_file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "sim/base/error.h"
#include "sim/base/file_claims.h"

namespace moesim {

MappedFile::MappedFile(const std::string& path) {
  const auto refuse = [&](int reason) {
    return error_in(path, fmt::format("cannot be read: {}", std::strerror(reason)));
  };
  const int fd = open_input(path);
  struct stat status {};
  if (::fstat(fd, &status) != 0) {
    const int reason = errno;
    ::close(fd);
    throw refuse(reason);
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size > 0) {
    void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    const int reason = errno;  // before close() replaces it
    ::close(fd);               // the mapping stays
    if (data == MAP_FAILED) throw refuse(reason);
    bytes_ = {static_cast<const std::byte*>(data), size};
    guard_ = GuardedMapping(bytes_, path);
    watched_ = WatchedFile(path, status);
  } else {
    ::close(fd);
  }
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::forget(std::span<const std::byte> part) const {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto offset = static_cast<std::size_t>(part.data() - bytes_.data());
  const std::size_t first = (offset + page - 1) / page * page;
  const std::size_t last = (offset + part.size()) / page * page;
  if (first >= last) return;
  // Only memory is at stake: a system that cannot do it keeps the pages.
  (void)::madvise(const_cast<std::byte*>(bytes_.data()) + first, last - first, MADV_DONTNEED);
}

}  // namespace moesim
