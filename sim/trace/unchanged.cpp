// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/unchanged.h"

#include <array>
#include <mutex>
#include <set>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/platform.h"

namespace moesim {
namespace {

struct Watching {
  std::mutex mutex;
  std::set<const WatchedFile*> files;
  std::string changed;  // the first that had changed when it was no longer watched
};

/// Lives as long as the process, as files may.
Watching& watching() {
  static auto* all = new Watching;
  return *all;
}

}  // namespace

WatchedFile::WatchedFile(const std::string& path, const struct stat& status)
    : path_(path), status_(status) {
  const std::lock_guard lock(watching().mutex);
  watching().files.insert(this);
}

WatchedFile::~WatchedFile() {
  if (path_.empty()) return;
  const bool has_changed = changed();
  const std::lock_guard lock(watching().mutex);
  watching().files.erase(this);
  if (has_changed && watching().changed.empty()) watching().changed = path_;
}

WatchedFile& WatchedFile::operator=(WatchedFile&& other) noexcept {
  const std::lock_guard lock(watching().mutex);
  std::swap(path_, other.path_);
  std::swap(status_, other.status_);
  auto& files = watching().files;
  for (const WatchedFile* file : std::array<const WatchedFile*, 2>{this, &other}) {
    files.erase(file);
    if (!file->path_.empty()) files.insert(file);
  }
  return *this;
}

bool WatchedFile::changed() const {
  struct stat now {};
  if (::stat(path_.c_str(), &now) != 0) return false;  // removed: what is mapped stays
  const auto differs = [](const timespec& a, const timespec& b) {
    return a.tv_sec != b.tv_sec || a.tv_nsec != b.tv_nsec;
  };
  // Who writes over a file may set its mtime back, as rsync --times does; the ctime stays.
  return now.st_dev == status_.st_dev && now.st_ino == status_.st_ino &&
         (now.st_size != status_.st_size || differs(written_at(now), written_at(status_)) ||
          differs(changed_at(now), changed_at(status_)));
}

void check_unchanged_files() {
  const std::lock_guard lock(watching().mutex);
  std::string changed = watching().changed;
  for (const WatchedFile* file : watching().files) {
    if (changed.empty() && file->changed()) changed = file->path();
  }
  if (changed.empty()) return;
  throw error_in(changed, "was changed while it was read",
                 "do not change a trace while it is replayed; a new recording needs a new name");
}

}  // namespace moesim
