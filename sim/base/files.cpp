// SPDX-License-Identifier: Apache-2.0
#include "sim/base/files.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/file_claims.h"
#include "sim/base/file_in_parts.h"
#include "sim/base/permitted_files.h"
#include "sim/base/text.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

constexpr int most_links = 40;  // as the kernel follows

Error no_regular_file(const std::string& path) {
  return error_in(path, "is not a regular file, and only these can be replaced in one go",
                  "- prints to standard output");
}

/// As Linux decides for opened files with fs.protected_symlinks.
void check_planted(const std::string& path, const std::string& link) {
  std::string folder = fs::path(link).parent_path().string();
  if (folder.empty()) folder = ".";
  struct stat its {};
  struct stat holder {};
  if (::lstat(link.c_str(), &its) != 0 || ::stat(folder.c_str(), &holder) != 0) return;
  const bool for_all = (holder.st_mode & S_ISVTX) != 0 && (holder.st_mode & S_IWOTH) != 0;
  if (!for_all || its.st_uid == ::geteuid() || its.st_uid == holder.st_uid) return;
  throw error_in(path, "is a link of another user in a folder where all may write",
                 "name the file itself");
}

}  // namespace

bool is_there(const std::string& path) {
  std::error_code failure;
  return is_permitted(path) && fs::exists(path, failure);
}

bool is_folder(const std::string& path) {
  std::error_code failure;
  return is_permitted(path) && fs::is_directory(path, failure);
}

bool is_regular_file(const std::string& path) {
  std::error_code failure;
  return is_permitted(path) && fs::is_regular_file(path, failure);
}

namespace {

/// Reads to the end and closes the file.
std::string read_opened(int file, const std::string& path) {
  std::string text;
  std::vector<char> part(1 << 16);
  ssize_t count = 0;
  do {
    count = ::read(file, part.data(), part.size());
    if (count > 0) text.append(part.data(), static_cast<std::size_t>(count));
  } while (count > 0 || (count < 0 && errno == EINTR));
  const int reason = errno;
  ::close(file);
  if (count < 0) throw error_in(path, fmt::format("cannot be read: {}", std::strerror(reason)));
  return text;
}

}  // namespace

std::string read_bytes(const std::string& path) { return read_opened(open_input(path), path); }

std::string read_file(const std::string& path) {
  return std::string(without_mark(read_bytes(path), path));
}

std::string read_file_or_input(const std::string& path) {
  if (path != "-") return read_file(path);
  return std::string(without_mark(read_opened(::dup(STDIN_FILENO), path), "standard input"));
}

void write_file(const std::string& path, std::string_view content) {
  FileInParts file(path);
  file.write(content);
  file.finish();
}

void write_files(const std::vector<NamedText>& files) {
  std::vector<FileInParts> parts;
  for (const NamedText& file : files) {
    parts.emplace_back(file.path).write(file.text);
    parts.back().prepare();
  }
  for (FileInParts& part : parts) part.finish();
}

std::string output_target(const std::string& path) {
  struct stat named {};
  struct stat found {};
  const bool there = ::stat(path.c_str(), &named) == 0;
  if (there && S_ISDIR(named.st_mode)) throw error_in(path, "is a folder, not a file");
  if (there && !S_ISREG(named.st_mode)) throw no_regular_file(path);
  fs::path target = path;
  std::error_code failure;
  for (int links = 0; fs::is_symlink(fs::symlink_status(target, failure)); ++links) {
    if (links == most_links)
      throw error_in(path, fmt::format("leads through more than {} links", most_links));
    check_planted(path, target.string());
    target = target.parent_path() / fs::read_symlink(target, failure);  // absolute ones replace all
    if (failure) throw error_in(path, fmt::format("cannot be written: {}", failure.message()));
  }
  // What a process has open may have another name now, or none.
  const bool same = ::stat(target.c_str(), &found) == 0 && found.st_dev == named.st_dev &&
                    found.st_ino == named.st_ino;
  if (there && !same) throw error_in(path, "is a link to an open file that was deleted or renamed");
  return target.string();
}

void check_writable(const std::string& path) {
  if (path.empty()) throw Error("the name of a file to write is empty");
  const std::string target = output_target(path);
  const fs::path parent = fs::absolute(target).parent_path();
  std::error_code failure;
  if (!fs::is_directory(parent, failure)) {
    throw error_in(path, fmt::format("there is no folder '{}'", parent.string()));
  }
  if (::access(parent.c_str(), W_OK) != 0) {
    throw error_in(path, fmt::format("cannot be written: {}", std::strerror(errno)));
  }
}

std::string hash_of(std::string_view content) {
  const XXH128_hash_t h = XXH3_128bits(content.data(), content.size());
  return fmt::format("{:016x}{:016x}", h.high64, h.low64);
}

}  // namespace moesim
