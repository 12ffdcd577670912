// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/sweep_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/base/error.h"

namespace moesim {
namespace {

/// Whether the name is still that of the opened file: another one may have removed it since.
bool is_named(int opened, const std::string& path) {
  struct stat own {
  }, there{};
  return ::fstat(opened, &own) == 0 && ::stat(path.c_str(), &there) == 0 &&
         own.st_dev == there.st_dev && own.st_ino == there.st_ino;
}

}  // namespace

std::string lock_file(const std::string& file) { return file + "-lock"; }

bool is_being_written(const std::string& file) {
  const int opened = ::open(lock_file(file).c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0) return false;
  const bool locked = ::flock(opened, LOCK_EX | LOCK_NB) != 0;
  ::close(opened);
  return locked;
}

SweepLock::SweepLock(const std::string& file) : path_(lock_file(file)) {
  for (;;) {
    opened_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (opened_ < 0) throw error_in(file, "cannot write to this file");
    const bool locked = ::flock(opened_, LOCK_EX | LOCK_NB) == 0;
    if (locked && is_named(opened_, path_)) return;
    ::close(opened_);
    if (!locked) throw error_in(file, "another sweep writes to this file", "-o names another one");
  }
}

SweepLock::~SweepLock() {
  ::unlink(path_.c_str());
  ::close(opened_);
}

}  // namespace moesim
