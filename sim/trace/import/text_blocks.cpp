// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/import/text_blocks.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "sim/base/error.h"

namespace moesim {
namespace {

/// A line that is much longer than what it was packed into was made to fill the memory.
constexpr std::size_t likely_packing = 200, any_packing = 32U << 20;

}  // namespace

TextBlocks::TextBlocks(const std::string& path, std::size_t block)
    : path_(path), file_(::gzopen(path.c_str(), "rb")), block_(block) {
  if (file_ == nullptr) {
    throw error_in(path, fmt::format("cannot be read: {}", std::strerror(errno)));
  }
  std::error_code ignored;
  size_ = static_cast<double>(std::filesystem::file_size(path, ignored));
}

TextBlocks::~TextBlocks() { ::gzclose(file_); }

std::string_view TextBlocks::next() {
  const int count = ::gzread(file_, block_.data(), static_cast<unsigned>(block_.size()));
  int status = Z_OK;
  ::gzerror(file_, &status);
  if (count < 0 || (count == 0 && status != Z_OK && status != Z_STREAM_END)) {
    throw error_in(path_, "is cut short or damaged", "copy it again");
  }
  return {block_.data(), static_cast<std::size_t>(count)};
}

void TextBlocks::check_packing(std::size_t unpacked) const {
  if (unpacked > any_packing &&
      unpacked / likely_packing > static_cast<std::size_t>(::gzoffset(file_))) {
    throw error_in(path_, fmt::format("unpacks to more than {} times its size", likely_packing));
  }
}

double TextBlocks::done() const {
  return size_ > 0 ? static_cast<double>(::gzoffset(file_)) / size_ : 1;
}

}  // namespace moesim
