// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/import/zip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

namespace moesim {
namespace {

constexpr std::uint64_t kEndRecord = 0x06054b50;
constexpr std::uint64_t kEndRecord64 = 0x06064b50;
constexpr std::uint64_t kEndLocator64 = 0x07064b50;
constexpr std::uint64_t kDirectoryEntry = 0x02014b50;
constexpr std::uint64_t kLocalHeader = 0x04034b50;
constexpr std::uint64_t kIn64 = 0xffffffff;  // stands where the value is in the zip64 extra field

/// Deflate cannot pack better than 1 : 1032. A member that claims more is damaged.
constexpr std::uint64_t kMaxRatio = 1032;
/// A member above kAlwaysUnpacked that claims more than kLikelyRatio was made to fill the memory:
/// expert ids pack 1 : 20 at best.
constexpr std::uint64_t kLikelyRatio = 200, kAlwaysUnpacked = 32 << 20;

/// Inflates one raw deflate stream into `out`, which must be filled exactly.
bool inflate_all(std::span<const std::byte> packed, std::vector<std::byte>& out) {
  z_stream stream{};
  if (::inflateInit2(&stream, -MAX_WBITS) != Z_OK) return false;
  std::size_t in_at = 0, out_at = 0;
  int status = Z_OK;
  constexpr std::size_t most = 1U << 30;  // zlib counts in 32 bits
  while (status == Z_OK) {
    const std::size_t in = std::min(packed.size() - in_at, most);
    const std::size_t room = std::min(out.size() - out_at, most);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data() + in_at));
    stream.avail_in = static_cast<uInt>(in);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + out_at);
    stream.avail_out = static_cast<uInt>(room);
    status = ::inflate(&stream, Z_NO_FLUSH);
    in_at += in - stream.avail_in;
    out_at += room - stream.avail_out;
  }
  ::inflateEnd(&stream);
  return status == Z_STREAM_END && out_at == out.size();
}

}  // namespace

ZipArchive::ZipArchive(const std::string& path) : path_(path), file_(path) { read_directory(); }

Error ZipArchive::damaged(const std::string& what) const {
  return error_in(path_, "is not a sound zip archive: " + what);
}

std::uint64_t ZipArchive::number(std::uint64_t offset, int bytes) const {
  const auto content = file_.bytes();
  if (offset > content.size() || content.size() - offset < static_cast<std::uint64_t>(bytes))
    throw damaged("it ends too early");
  std::uint64_t value = 0;
  for (int i = bytes; i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(content[offset + static_cast<unsigned>(i)]);
  return value;
}

void ZipArchive::read_zip64(Member& member, std::uint64_t at, std::uint64_t end) const {
  while (at + 4 <= end) {
    const std::uint64_t id = number(at, 2);
    const std::uint64_t size = number(at + 2, 2);
    at += 4;
    if (id == 1) {
      for (std::uint64_t* field : {&member.size, &member.packed_size, &member.header})
        if (*field == kIn64) *field = number(at, 8), at += 8;
      return;
    }
    at += size;
  }
}

void ZipArchive::read_directory() {
  constexpr std::uint64_t end_size = 22;
  const std::uint64_t size = file_.bytes().size();
  if (size < end_size) throw damaged("it ends too early");
  const std::uint64_t lowest = size - std::min<std::uint64_t>(size, end_size + 0xffff);
  std::uint64_t end = size - end_size;
  while (number(end, 4) != kEndRecord) {
    if (end == lowest) throw damaged("it has no end record");
    --end;
  }
  std::uint64_t count = number(end + 10, 2);
  std::uint64_t at = number(end + 16, 4);
  if (end >= 20 && number(end - 20, 4) == kEndLocator64) {
    const std::uint64_t end64 = number(end - 12, 8);
    if (number(end64, 4) != kEndRecord64) throw damaged("its zip64 end record is missing");
    count = number(end64 + 32, 8);
    at = number(end64 + 48, 8);
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    if (number(at, 4) != kDirectoryEntry) throw damaged("its directory is cut short");
    Member member;
    const std::uint64_t flags = number(at + 8, 2);
    member.method = static_cast<int>(number(at + 10, 2));
    member.crc = static_cast<std::uint32_t>(number(at + 16, 4));
    member.packed_size = number(at + 20, 4);
    member.size = number(at + 24, 4);
    const std::uint64_t name = number(at + 28, 2);
    const std::uint64_t extra = number(at + 30, 2);
    const std::uint64_t comment = number(at + 32, 2);
    member.header = number(at + 42, 4);
    for (std::uint64_t c = 0; c < name; ++c)
      member.name += static_cast<char>(number(at + 46 + c, 1));
    if (flags & 1) throw damaged(fmt::format("'{}' is encrypted", member.name));
    read_zip64(member, at + 46 + name, at + 46 + name + extra);
    at += 46 + name + extra + comment;
    members_.push_back(std::move(member));
  }
}

std::vector<std::byte> ZipArchive::read(const Member& member) const {
  const auto bad = [&](const std::string& what) {
    return damaged(fmt::format("'{}' {}", member.name, what));
  };
  if (number(member.header, 4) != kLocalHeader) throw bad("has no local header");
  const std::uint64_t begin =
      member.header + 30 + number(member.header + 26, 2) + number(member.header + 28, 2);
  const auto content = file_.bytes();
  if (begin > content.size() || content.size() - begin < member.packed_size)
    throw bad("is cut short");
  const auto packed = content.subspan(begin, member.packed_size);
  if (member.size > (packed.size() + 1) * kMaxRatio) throw bad("claims an impossible size");
  if (member.size > kAlwaysUnpacked && member.size / kLikelyRatio > packed.size())
    throw bad(fmt::format("unpacks to more than {} times its size", kLikelyRatio));
  std::vector<std::byte> out(member.size);
  if (member.method == 0 && packed.size() == out.size())
    std::copy(packed.begin(), packed.end(), out.begin());
  else if (member.method != 0 && member.method != 8)
    throw bad(fmt::format("is packed by method {}; stored and deflated are read", member.method));
  else if (member.method == 0 || !inflate_all(packed, out))
    throw bad("does not unpack to its size");
  if (::crc32_z(0, reinterpret_cast<const Bytef*>(out.data()), out.size()) != member.crc)
    throw bad("fails its checksum");
  return out;
}

}  // namespace moesim
