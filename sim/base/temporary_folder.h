// SPDX-License-Identifier: Apache-2.0
// A folder for files of the moment.
#pragma once

#include <string>

namespace moesim {

/// A new folder that nobody could have foreseen, and that is gone when this is.
class TemporaryFolder {
 public:
  /// Next to `path`, so that what is made in it can be renamed to `path`; without one among the
  /// system's temporary files. Throws Error if it cannot be made.
  explicit TemporaryFolder(const std::string& path = "");
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace moesim
