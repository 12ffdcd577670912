// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <tuple>
#include <utility>

#include "sim/base/file_in_parts.h"
#include "sim/base/files.h"
#include "sim/trace/step_files.h"
#include "sim/trace/trace_json.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

/// What a trace that can be resumed is made of, in addition to its steps.
constexpr const char* key_file = "/.key";

std::string without_trailing_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

void check_free(const std::string& target) {
  if (!fs::exists(fs::symlink_status(target))) return;
  throw error_in(target, "exists already; a trace is never overwritten",
                 "give another name or remove it first");
}

/// The hidden name next to `target` that those of the folders in which it is made begin with.
std::string hidden_beside(const std::string& target) {
  const fs::path path(target);
  if (path.has_parent_path()) fs::create_directories(path.parent_path());
  return (path.parent_path() / ("." + path.filename().string())).string();
}

/// The folder, locked; -1 while another program has it or if it is gone.
int locked(const std::string& folder) {
  const int lock = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (lock < 0) return -1;
  if (::flock(lock, LOCK_EX | LOCK_NB) == 0 && is_folder(folder)) return lock;
  ::close(lock);
  return -1;
}

/// Removes what writers of the trace left behind that were killed.
void remove_leftovers(const std::string& hidden) {
  const fs::path path(hidden);
  const fs::path parent = path.has_parent_path() ? path.parent_path() : ".";
  const std::string start = path.filename().string() + ".tmp-";
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    if (!entry.path().filename().string().starts_with(start)) continue;
    const int lock = locked(entry.path().string());
    if (lock < 0) continue;
    fs::remove_all(entry.path(), ignored);
    ::close(lock);
  }
}

/// A new folder next to `hidden` and its lock, by which other writers know that it is not a
/// leftover.
std::pair<std::string, int> make_locked_folder(const std::string& hidden) {
  for (;;) {
    const std::string folder = fresh_name_beside(hidden);
    make_folder(folder);
    const int lock = locked(folder);
    if (lock >= 0) return {folder, lock};  // else taken for a leftover before it was locked
  }
}

std::string step_name(std::int64_t number) { return fmt::format("step-{:08}", number); }

/// Whether a folder is a trace, however much of it is there yet.
bool is_trace(const fs::path& folder) {
  constexpr std::size_t most = 4096;
  std::string start(most, '\0');
  std::ifstream info(folder / "trace.json", std::ios::binary);
  info.read(start.data(), most);
  return start.find(trace_format) != std::string::npos;
}

}  // namespace

void check_outside_traces(const std::string& path) {
  std::error_code unresolved;
  fs::path folder = fs::weakly_canonical(fs::absolute(path), unresolved);
  while (!unresolved && folder.has_relative_path()) {
    folder = folder.parent_path();
    if (!is_trace(folder)) continue;
    throw error_in(
        path,
        fmt::format("is inside the trace '{}', which other files would break", folder.string()),
        "give the output a name outside of it: nothing has been written");
  }
}

TraceWriter::TraceWriter(std::string target, std::string directory, TraceInfo info)
    : target_(std::move(target)), directory_(std::move(directory)), info_(std::move(info)) {}

TraceWriter::TraceWriter(TraceWriter&& other) noexcept
    : target_(std::move(other.target_)),
      directory_(std::move(other.directory_)),
      info_(std::move(other.info_)),
      last_number_(other.last_number_),
      lock_(std::exchange(other.lock_, -1)),
      resumable_(other.resumable_),
      key_(std::move(other.key_)),
      finished_(std::exchange(other.finished_, true)) {}

TraceWriter TraceWriter::create(const std::string& directory, const TraceInfo& info,
                                Publish publish) {
  const std::string target = without_trailing_slash(directory);
  check_outside_traces(target);
  check_free(target);
  std::string folder = target;
  int lock = -1;
  if (publish == Publish::each_step) {
    make_folder(folder);
  } else {
    const std::string hidden = hidden_beside(target);
    remove_leftovers(hidden);
    std::tie(folder, lock) = make_locked_folder(hidden);
  }
  TraceWriter writer(target, folder, info);
  writer.lock_ = lock;
  write_file(folder + "/trace.json", trace_json_text(info));
  return writer;
}

TraceWriter TraceWriter::resume(const std::string& directory, const std::string& key) {
  const std::string target = without_trailing_slash(directory);
  check_outside_traces(target);
  check_free(target);
  const std::string folder = hidden_beside(target) + ".part";
  if (!is_folder(folder)) make_folder(folder);
  TraceWriter writer(target, folder, {});
  writer.resumable_ = true;
  writer.lock_ = locked(folder);
  if (writer.lock_ < 0) {
    writer.finished_ = true;
    throw error_in(target, "is being written by another program");
  }
  const std::string key_path = folder + key_file;
  if (!is_there(key_path) || read_file(key_path) != key) {
    for (const auto& entry : fs::directory_iterator(folder)) fs::remove_all(entry.path());
    writer.key_ = key;
  }
  return writer;
}

TraceWriter::~TraceWriter() {
  if (!finished_ && (!resumable_ || !key_.empty())) abandon();
  if (lock_ >= 0) ::close(lock_);
}

void TraceWriter::abandon() {
  std::error_code ignored;
  if (directory_ != target_) fs::remove_all(directory_, ignored);
  finished_ = true;
}

bool TraceWriter::has_step(std::int64_t number) const {
  return is_folder(directory_ + "/" + step_name(number));
}

void TraceWriter::append_step(const TraceStep& step) {
  if (step.number() <= last_number_) {
    throw Error(fmt::format("step {} cannot follow step {}", step.number(), last_number_),
                "step numbers ascend");
  }
  last_number_ = step.number();
  if (has_step(step.number())) return;
  if (!key_.empty()) write_file(directory_ + key_file, std::exchange(key_, ""));
  const std::string name = step_name(step.number());
  const std::string temporary = directory_ + "/." + name + ".tmp";
  fs::remove_all(temporary);  // an interrupted recording may have left one
  make_folder(temporary);
  write_step_files(step, info_, temporary);
  rename_folder(temporary, directory_ + "/" + name);
}

void TraceWriter::finish() {
  if (directory_ != target_) {
    if (fs::exists(fs::symlink_status(target_))) {
      throw error_in(target_, "appeared meanwhile; a trace is never overwritten");
    }
    write_file(directory_ + "/trace.json", trace_json_text(info_));
    fs::remove(directory_ + key_file);
    rename_folder(directory_, target_);
  }
  finished_ = true;
}

}  // namespace moesim
