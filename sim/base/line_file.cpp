// SPDX-License-Identifier: Apache-2.0
#include "sim/base/line_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "sim/base/error.h"
#include "sim/base/file_claims.h"
#include "sim/base/text.h"

namespace moesim {
namespace {

/// A line that is much longer than what it was packed into was made to fill the memory.
constexpr std::size_t likely_packing = 200, any_packing = 32U << 20;
constexpr std::size_t least_block = 4096, most_block = 1U << 20;

std::size_t size_of_file(const std::string& path) {
  std::error_code none;
  const auto size = std::filesystem::file_size(path, none);
  return none ? 0 : static_cast<std::size_t>(size);
}

gzFile opened(const std::string& path) {
  return ::gzdopen(path == "-" ? ::dup(STDIN_FILENO) : open_input(path), "rb");
}

}  // namespace

TextBlocks::TextBlocks(const std::string& path)
    : path_(path),
      file_(opened(path)),
      size_(size_of_file(path)),
      block_(path == "-" ? most_block : std::clamp(size_, least_block, most_block)) {
  if (file_ == nullptr) {
    throw error_in(path, fmt::format("cannot be read: {}", std::strerror(errno)));
  }
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
  if (size_ == 0) return 1;
  return static_cast<double>(::gzoffset(file_)) / static_cast<double>(size_);
}

bool LineFile::next(std::string& line) {
  for (;;) {
    line.clear();
    bool ended = false;
    while (!ended) {
      if (rest_.empty()) {
        const std::string_view block = blocks_.next();
        rest_ = begun_ ? block : without_mark(block, path());
        begun_ = true;
        if (rest_.empty()) break;
      }
      const std::size_t newline = rest_.find('\n');
      ended = newline != std::string_view::npos;
      line.append(rest_.substr(0, newline));
      rest_.remove_prefix(ended ? newline + 1 : rest_.size());
      blocks_.check_packing(line.size());
    }
    if (line.empty() && !ended) return false;
    ++line_number_;
    if (line.find_first_not_of(" \t\r") != std::string::npos) return true;
  }
}

}  // namespace moesim
