// SPDX-License-Identifier: Apache-2.0
// Members of a zip archive such as .npz.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/trace/mapped_file.h"

struct zip;

namespace moesim {

/// What libzip reads of a file, with limits on what it unpacks to.
class ZipArchive {
 public:
  struct Member {
    std::string name;
    std::uint64_t index = 0, packed_size = 0, size = 0;
  };

  /// Reads the directory. Throws Error when it is damaged.
  explicit ZipArchive(const std::string& path);

  const std::vector<Member>& members() const { return members_; }
  /// Unpacks a member and checks its size and CRC-32. Throws Error.
  std::vector<std::byte> read(const Member& member) const;

 private:
  Error damaged(const std::string& what) const;
  void check_form() const;

  std::string path_;
  MappedFile file_;
  std::unique_ptr<zip, void (*)(zip*)> zip_;
  std::vector<Member> members_;
};

}  // namespace moesim
