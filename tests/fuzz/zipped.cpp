// SPDX-License-Identifier: Apache-2.0
// The least of a zip archive (APPNOTE.TXT 4.3): local headers with their bytes, the directory, its
// end.
#include <zlib.h>

#include <cstdint>

#include "tests/fuzz/bundle.h"

namespace moesim::fuzz {
namespace {

void add(std::string& out, int bytes, std::uint64_t value) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> 8 * i & 0xff);
}

/// What local headers and the directory have in common, from the version on.
void add_member(std::string& out, const BundledFile& member) {
  const auto* bytes = reinterpret_cast<const Bytef*>(member.content.data());
  add(out, 2, 20);  // version 2.0
  add(out, 2, 0);   // flags
  add(out, 2, 0);   // stored
  add(out, 4, 0);   // time
  add(out, 4, crc32(0, bytes, static_cast<uInt>(member.content.size())));
  add(out, 4, member.content.size());
  add(out, 4, member.content.size());
  add(out, 2, member.name.size());
  add(out, 2, 0);  // no extra field
}

}  // namespace

std::string zipped(const std::vector<BundledFile>& members) {
  std::string out, directory;
  for (const BundledFile& member : members) {
    directory += "PK\x01\x02";
    add(directory, 2, 20);
    add_member(directory, member);
    add(directory, 2, 0);  // no comment
    add(directory, 2, 0);  // disk
    add(directory, 2, 0);
    add(directory, 4, 0);  // attributes
    add(directory, 4, out.size());
    directory += member.name;
    out += "PK\x03\x04";
    add_member(out, member);
    out += member.name + member.content;
  }
  const std::size_t start = out.size();
  out += directory;
  out += "PK\x05\x06";
  add(out, 4, 0);  // disks
  add(out, 2, members.size());
  add(out, 2, members.size());
  add(out, 4, directory.size());
  add(out, 4, start);
  add(out, 2, 0);  // no comment
  return out;
}

}  // namespace moesim::fuzz
