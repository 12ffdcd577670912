// SPDX-License-Identifier: Apache-2.0
#include "sim/import/zip.h"

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <utility>

#include "sim/base/text.h"
#include "sim/import/file_content.h"

namespace moesim {
namespace {

/// Ids are packed 20 times at most. If a large member claims to be packed more than 200 times, it
/// was made to fill the memory.
constexpr std::uint64_t likely_ratio = 200, always_unpacked = 32 << 20;

constexpr const char* no_end = "it has no end record";

/// What libzip reports. In our words if its own say too little, or depend on its version.
std::string words_of(zip_error_t* error) {
  const std::string words = zip_error_strerror(error);
  if (words.find("EOCD") != std::string::npos) return no_end;  // libzip 1.11 says: cut short
  switch (zip_error_code_zip(error)) {
    case ZIP_ER_NOZIP:
      return no_end;
    case ZIP_ER_CRC:
      return "fails its checksum";
    case ZIP_ER_NOPASSWD:
      return "is encrypted";
    case ZIP_ER_EOF:
      return "is cut short";
    default:
      return fmt::format("cannot be read ({})", words);
  }
}

}  // namespace

ZipArchive::ZipArchive(const std::string& path)
    : path_(path), file_(path), zip_(nullptr, &zip_discard) {
  if (file_.bytes().empty()) throw damaged("it is empty");  // libzip would accept it
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source =
      zip_source_buffer_create(file_.bytes().data(), file_.bytes().size(), 0, &error);
  if (source != nullptr) zip_.reset(zip_open_from_source(source, ZIP_RDONLY, &error));
  if (!zip_) {
    const std::string words = words_of(&error);
    zip_source_free(source);
    zip_error_fini(&error);
    check_form();
    throw damaged(words);
  }
  const auto count = static_cast<std::uint64_t>(zip_get_num_entries(zip_.get(), 0));
  for (std::uint64_t i = 0; i < count; ++i) {
    zip_stat_t about;
    if (zip_stat_index(zip_.get(), i, ZIP_FL_ENC_RAW, &about) != 0) {
      throw damaged(fmt::format("its entry {} {}", i, words_of(zip_get_error(zip_.get()))));
    }
    members_.push_back({about.name, i, about.comp_size, about.size});
  }
}

/// If the file is not an archive at all, the error says what it is instead.
void ZipArchive::check_form() const {
  const auto bytes = file_.bytes().first(std::min<std::size_t>(file_.bytes().size(), 4096));
  check_unpacked({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path_);
  const FileForm form = form_of(path_);
  if (form == FileForm::zip || form == FileForm::other || form == FileForm::empty) return;
  const bool rows = form == FileForm::json || form == FileForm::text;
  throw error_in(path_, content_of(path_) + ", not a .pt or .npz",
                 rows                       ? "kind 'table' reads JSON lines and CSV"
                 : form == FileForm::pickle ? "load it and torch.save() it again"
                                            : "");
}

Error ZipArchive::damaged(const std::string& what) const {
  return error_in(path_, "is not a sound zip archive: " + what);
}

std::vector<std::byte> ZipArchive::read(const Member& member) const {
  const auto bad = [&](const std::string& what) {
    return damaged(fmt::format("'{}' {}", member.name, what));
  };
  if (member.size > always_unpacked && member.size / likely_ratio > member.packed_size) {
    throw bad(fmt::format("unpacks to more than {} times its size", likely_ratio));
  }
  if (member.packed_size > file_.bytes().size()) throw bad("is cut short");
  const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file(
      zip_fopen_index(zip_.get(), member.index, 0), &zip_fclose);
  if (!file) throw bad(words_of(zip_get_error(zip_.get())));
  // One byte more, because libzip checks the sum only when it reads the end.
  std::vector<std::byte> bytes(member.size + 1);
  std::size_t at = 0;
  zip_int64_t got = 0;
  while ((got = zip_fread(file.get(), bytes.data() + at, bytes.size() - at)) > 0) {
    at += static_cast<std::size_t>(got);
  }
  if (got < 0) throw bad(words_of(zip_file_get_error(file.get())));
  if (at != member.size) throw bad("does not unpack to its size");
  bytes.pop_back();
  constexpr std::uint64_t large = 1U << 20;
  if (member.packed_size > large) file_.forget(file_.bytes());  // archives exceed memory
  return bytes;
}

}  // namespace moesim
