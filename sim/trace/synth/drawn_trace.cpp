// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/synth/drawn_trace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "sim/base/files.h"
#include "sim/base/wire.h"
#include "sim/trace/synth/synth.h"
#include "sim/trace/synth/synth_reader.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

/// To be raised whenever the same options draw other choices: traces that were kept go stale.
constexpr int drawing_version = 1;

/// Holds a file's lock, which the system releases with the process that has it.
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

/// The trace that was kept, if it is as it was written.
std::optional<RoutingTrace> kept(const std::string& path, const SynthOptions& options) {
  if (!is_folder(path)) return std::nullopt;
  try {
    RoutingTrace trace = RoutingTrace::open(path);
    if (trace.info().name == options.name && trace.step_count() == options.steps) return trace;
  } catch (const Error&) {
    // Draws it again below.
  }
  fs::remove_all(path);
  return std::nullopt;
}

/// Nothing if the folder cannot be written, or its disk is full.
std::optional<RoutingTrace> kept_or_drawn(const SynthOptions& options) {
  const std::string folder = drawn_folder();
  if (folder.empty()) return std::nullopt;
  try {
    fs::create_directories(folder);
    const std::string path = folder + "/" + drawn_name(options);
    const DrawingLock lock(path + ".lock");
    if (auto trace = kept(path, options)) return trace;
    write_synthetic_trace(path, options);
    return RoutingTrace::open(path);
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
  const Synthesis check(named);  // What cannot be is an error, not a folder that cannot be written.
  if (auto trace = kept_or_drawn(named)) return *trace;
  return drawn_in_memory(named);
}

}  // namespace moesim
