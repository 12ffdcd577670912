// SPDX-License-Identifier: Apache-2.0
// Files that are too large to be held: written bit by bit, and yet whole or not there.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace moesim {

/// `path` with an ending that nobody can foresee, for what is to be renamed to `path` when it is
/// whole. Open it with O_EXCL, so that a name which is taken is never written through.
std::string fresh_name_beside(const std::string& path);

/// The file that is replaced if `path` is written: links are followed, so that they stay. Throws
/// Error for what is not a regular file, which cannot be replaced in one go, and for links that
/// somebody else may have planted in a folder for all.
std::string output_target(const std::string& path);

/// Writes a file that has no name until finish() gives it a fresh one and renames that to `path`:
/// even SIGKILL leaves nothing behind. If a file system has no such files (NFS), the fresh name is
/// there from the start. All throw Error if that fails.
class FileInParts {
 public:
  explicit FileInParts(const std::string& path);
  ~FileInParts();
  FileInParts(FileInParts&& other) noexcept;
  FileInParts& operator=(FileInParts&&) = delete;

  void write(std::string_view bytes);
  /// All but the last rename, which hardly fails: for files that replace others together.
  void prepare();
  void finish();

 private:
  void abandon();
  [[noreturn]] void fail(int reason);

  std::string path_, temporary_;
  int file_ = -1;
  bool nameless_ = false;
  bool named_ = false;  // `temporary_` is there
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
