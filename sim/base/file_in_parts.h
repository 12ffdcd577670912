// SPDX-License-Identifier: Apache-2.0
// Files that are too large to be held: written bit by bit, and yet whole or not there.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace moesim {

/// Writes to a temporary name beside `path`; finish() renames it, else nothing stays. All throw
/// Error where that fails.
class FileInParts {
 public:
  explicit FileInParts(const std::string& path);
  ~FileInParts();
  FileInParts(const FileInParts&) = delete;
  FileInParts& operator=(const FileInParts&) = delete;

  void write(std::string_view bytes);
  void finish();

 private:
  [[noreturn]] void fail(int reason);

  std::string path_, temporary_;
  int file_ = -1;
};

/// A file without a name in the folder of `path`, for a child process to write and its parent to
/// read: whatever ends them, nothing stays. Throws Error.
class NamelessFile {
 public:
  explicit NamelessFile(const std::string& path);
  ~NamelessFile();
  NamelessFile(NamelessFile&& other) noexcept;
  NamelessFile& operator=(NamelessFile&&) = delete;

  void append(std::string_view bytes) const;
  /// Calls take() with all that was appended, part by part.
  void read(const std::function<void(std::string_view)>& take) const;

 private:
  std::string path_;
  int file_ = -1;
};

}  // namespace moesim
