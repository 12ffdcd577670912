// SPDX-License-Identifier: Apache-2.0
// Who may write to a sweep's file. SQLite's own locks are not used for that: a network file system
// may take two kinds of locks of one file for each other.
#pragma once

#include <string>

namespace moesim {

/// The file that whoever writes to `file` holds a lock of.
std::string lock_file(const std::string& file);

/// Whether somebody holds it.
bool is_being_written(const std::string& file);

/// The right to write to `file` while this lives. The lock's file is gone after it.
class SweepLock {
 public:
  /// Throws Error if another one lives, in this process or any other.
  explicit SweepLock(const std::string& file);
  ~SweepLock();
  SweepLock(const SweepLock&) = delete;
  SweepLock& operator=(const SweepLock&) = delete;

 private:
  std::string path_;
  int opened_ = -1;
};

}  // namespace moesim
