// SPDX-License-Identifier: Apache-2.0
// Files that change while they are mapped: what was read mixes two states.
#pragma once

#include <sys/stat.h>

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

}  // namespace moesim
