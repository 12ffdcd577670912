// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/synth/drawn_trace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "sim/base/files.h"
#include "sim/base/platform.h"
#include "sim/base/wire.h"
#include "sim/trace/synth/synth.h"
#include "sim/trace/synth/synth_reader.h"
#include "sim/trace/verify.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

/// Raise it whenever the same options draw different choices, so that kept traces are not reused.
constexpr int drawing_version = 1;

/// Holds a lock on a file. The system releases the lock if the process ends.
class DrawingLock {
 public:
  explicit DrawingLock(const std::string& path)
      : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) {
    if (file_ < 0 || ::flock(file_, LOCK_EX) != 0) {
      if (file_ >= 0) ::close(file_);
      throw error_in(path, "cannot be locked");
    }
  }
  ~DrawingLock() { ::close(file_); }
  DrawingLock(const DrawingLock&) = delete;
  DrawingLock& operator=(const DrawingLock&) = delete;

 private:
  int file_;
};

/// The files of a trace, their sizes, and when they were last changed. That is the ctime, because
/// programs cannot set it back.
std::string state_of(const std::string& path) {
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(path)) files.insert(entry.path());
  std::string state;
  for (const std::string& file : files) {
    struct stat status {};
    if (::stat(file.c_str(), &status) != 0) throw error_in(file, "cannot be read");
    const timespec changed = changed_at(status);
    state += fmt::format("{} {} {} {} {}\n", file, status.st_ino, status.st_size, changed.tv_sec,
                         changed.tv_nsec);
  }
  return state;
}

/// The file with the state_of a trace that was found sound, so that its ids are checked only once.
std::string state_file(const std::string& path) { return path + ".sound"; }

bool is_sound(const std::string& path) {
  const std::string state = state_of(path);
  if (is_there(state_file(path)) && read_file(state_file(path)) == state) return true;
  if (!verify_trace(path).empty()) return false;
  write_file(state_file(path), state);
  return true;
}

/// Returns the trace at `path` if it is sound, else removes it.
std::optional<RoutingTrace> kept(const std::string& path, const SynthOptions& options) {
  if (!is_folder(path)) return std::nullopt;
  try {
    RoutingTrace trace = RoutingTrace::open(path);
    const bool whole = trace.info().name == options.name && trace.step_count() == options.steps;
    if (whole && is_sound(path)) return trace;
  } catch (const Error&) {
    // It is damaged: removed below, then drawn again.
  }
  fs::remove_all(path);
  return std::nullopt;
}

/// Returns nothing if the folder cannot be written or its disk is full.
std::optional<RoutingTrace> kept_or_drawn(const SynthOptions& options) {
  const std::string folder = drawn_folder();
  if (folder.empty()) return std::nullopt;
  try {
    fs::create_directories(folder);
    const std::string path = folder + "/" + drawn_name(options);
    const DrawingLock lock(path + ".lock");
    if (auto trace = kept(path, options)) return trace;
    write_synthetic_trace(path, options);
    return kept(path, options);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

RoutingTrace drawn_in_memory(const SynthOptions& options) {
  Synthesis synthesis(options);
  std::vector<std::shared_ptr<const TraceStep>> steps;
  for (int s = 0; s < options.steps; ++s) steps.push_back(synthesis.next_step());
  return {synthesis.info(), std::move(steps)};
}

}  // namespace

std::string drawn_name(const SynthOptions& options) {
  constexpr std::size_t digits = 16;
  return fmt::format("drawn{}-{}", drawing_version, hash_of(to_bytes(options)).substr(0, digits));
}

std::string drawn_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::string(cache) + "/moesim/traces";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home != '/') return "";
  return std::string(home) + "/.cache/moesim/traces";
}

RoutingTrace drawn_trace(const SynthOptions& options) {
  SynthOptions named = options;
  named.name = synth_title(options);
  // Throws for impossible options. kept_or_drawn would take that for a folder it cannot write.
  const Synthesis check(named);
  if (auto trace = kept_or_drawn(named)) return *trace;
  return drawn_in_memory(named);
}

}  // namespace moesim
