// SPDX-License-Identifier: Apache-2.0
// The least of a zip archive (APPNOTE.TXT 4.3): local headers with their bytes, the directory, its
// end.
#include <zlib.h>

#include "tests/fuzz/bundle.h"
#include "tests/fuzz/little_endian.h"

namespace moesim::fuzz {
namespace {

/// What local headers and the directory have in common, from the version on.
void add_member(std::string& out, const BundledFile& member) {
  const auto* bytes = reinterpret_cast<const Bytef*>(member.content.data());
  add_number(out, 2, 20);  // version 2.0
  add_number(out, 2, 0);   // flags
  add_number(out, 2, 0);   // stored
  add_number(out, 4, 0);   // time
  add_number(out, 4, crc32(0, bytes, static_cast<uInt>(member.content.size())));
  add_number(out, 4, member.content.size());
  add_number(out, 4, member.content.size());
  add_number(out, 2, member.name.size());
  add_number(out, 2, 0);  // no extra field
}

}  // namespace

std::string zipped(const std::vector<BundledFile>& members) {
  std::string out, directory;
  for (const BundledFile& member : members) {
    directory += "PK\x01\x02";
    add_number(directory, 2, 20);
    add_member(directory, member);
    add_number(directory, 2, 0);  // no comment
    add_number(directory, 2, 0);  // disk
    add_number(directory, 2, 0);
    add_number(directory, 4, 0);  // attributes
    add_number(directory, 4, out.size());
    directory += member.name;
    out += "PK\x03\x04";
    add_member(out, member);
    out += member.name + member.content;
  }
  const std::size_t start = out.size();
  out += directory;
  out += "PK\x05\x06";
  add_number(out, 4, 0);  // disks
  add_number(out, 2, members.size());
  add_number(out, 2, members.size());
  add_number(out, 4, directory.size());
  add_number(out, 4, start);
  add_number(out, 2, 0);  // no comment
  return out;
}

}  // namespace moesim::fuzz
