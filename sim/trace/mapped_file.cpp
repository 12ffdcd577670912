// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/mapped_file.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/file_claims.h"
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

/// A mapping as the signal handler finds it. Entries are used again and never freed, so that the
/// handler can walk them at any time.
struct Entry {
  std::atomic<const std::byte*> begin = nullptr;  // set last; null while nobody uses the entry
  std::size_t size = 0;
  std::string path;
  Entry* next = nullptr;
};

namespace {

std::atomic<Entry*> all_entries = nullptr;
std::mutex changing;

void say(const char* text) { (void)!::write(STDERR_FILENO, text, std::strlen(text)); }

/// Calls nothing that is not async-signal-safe.
void on_bus_error(int signal, siginfo_t* info, void*) {
  const auto* at = static_cast<const std::byte*>(info->si_addr);
  for (const Entry* e = all_entries.load(); e != nullptr; e = e->next) {
    const std::byte* begin = e->begin.load();
    if (begin == nullptr || at < begin || at >= begin + e->size) continue;
    say(e->path.c_str());
    say(": error: was cut short or replaced while it was read, or its disk failed\n"
        "hint: do not change a trace while it is replayed; a new recording needs a new name\n");
    ::_exit(1);
  }
  ::signal(signal, SIG_DFL);  // not ours: the same use raises it again
}

void install_handler() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

/// Entries that nobody uses; `changing` is held. Lives as long as the process, as mappings may.
std::vector<Entry*>& free_entries() {
  static auto* entries = new std::vector<Entry*>;
  return *entries;
}

Entry* take_entry() {
  std::vector<Entry*>& free = free_entries();
  if (free.empty()) {
    auto* entry = new Entry;
    entry->next = all_entries.load();
    all_entries.store(entry);
    return entry;
  }
  Entry* entry = free.back();
  free.pop_back();
  return entry;
}

}  // namespace

GuardedMapping::GuardedMapping(std::span<const std::byte> bytes, const std::string& path) {
  static std::once_flag once;
  std::call_once(once, install_handler);
  const std::lock_guard lock(changing);
  entry_ = take_entry();
  entry_->size = bytes.size();
  entry_->path = path;
  entry_->begin.store(bytes.data());
}

GuardedMapping::~GuardedMapping() {
  if (entry_ == nullptr) return;
  const std::lock_guard lock(changing);
  entry_->begin.store(nullptr);
  free_entries().push_back(entry_);
}

GuardedMapping& GuardedMapping::operator=(GuardedMapping&& other) noexcept {
  std::swap(entry_, other.entry_);
  return *this;
}

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
