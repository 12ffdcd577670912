// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/cut_short.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

namespace moesim {

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

}  // namespace moesim
