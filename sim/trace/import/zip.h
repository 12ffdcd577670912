// SPDX-License-Identifier: Apache-2.0
// Members of a zip archive (such as .npz), stored or deflated, zip64 included; and gzip files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/trace/mapped_file.h"

namespace moesim {

class ZipArchive {
 public:
  struct Member {
    std::string name;
    int method = 0;  // 0 stored, 8 deflated
    std::uint32_t crc = 0;
    std::uint64_t packed_size = 0;
    std::uint64_t size = 0;
    std::uint64_t header = 0;  // offset of the local header
  };

  /// Reads the central directory. Throws Error when it is damaged or of an unsupported kind.
  explicit ZipArchive(const std::string& path);

  const std::vector<Member>& members() const { return members_; }
  /// Unpacks a member and checks its size and CRC-32. Throws Error.
  std::vector<std::byte> read(const Member& member) const;

 private:
  void read_directory();
  Error damaged(const std::string& what) const;
  std::uint64_t number(std::uint64_t offset, int bytes) const;
  void read_zip64(Member& member, std::uint64_t at, std::uint64_t end) const;

  std::string path_;
  MappedFile file_;
  std::vector<Member> members_;
};

}  // namespace moesim
