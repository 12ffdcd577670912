// SPDX-License-Identifier: Apache-2.0
// A file mapped into memory, read-only. If it loses bytes meanwhile, the kernel raises SIGBUS at
// their first use; if it changes, what was read mixes two states.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <span>
#include <string>

namespace moesim {

/// Watches one file as long as it lives. A replaced file has not changed: its mapping
/// stays.
class WatchedFile {
 public:
  WatchedFile() = default;
  /// `status` is the file's, as it is opened.
  WatchedFile(const std::string& path, const struct stat& status);
  ~WatchedFile();
  WatchedFile(const WatchedFile&) = delete;
  WatchedFile& operator=(WatchedFile&& other) noexcept;

  bool changed() const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;  // empty: none
  struct stat status_ {};
};

/// Throws Error that names a file which was changed while this process (or before its fork, the
/// parent) watched it.
void check_unchanged_files();

/// While it lives, a use of bytes that the file no longer has ends the process with exit code 1 and
/// a message that names the file, in place of a bare signal. What is mapped stays that; SIGBUS from
/// elsewhere does what it did.
class GuardedMapping {
 public:
  GuardedMapping() = default;
  GuardedMapping(std::span<const std::byte> bytes, const std::string& path);
  ~GuardedMapping();
  GuardedMapping(const GuardedMapping&) = delete;
  GuardedMapping& operator=(GuardedMapping&& other) noexcept;

 private:
  struct Entry* entry_ = nullptr;
};

class MappedFile {
 public:
  /// Maps the whole file (an empty file gives an empty span). Throws Error when it cannot.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  /// Gives the whole pages of `part` back to the system, so that a layer which is counted leaves
  /// memory. They are read again when they are used again.
  void forget(std::span<const std::byte> part) const;

 private:
  std::span<const std::byte> bytes_;
  GuardedMapping guard_;
  WatchedFile watched_;
};

}  // namespace moesim
