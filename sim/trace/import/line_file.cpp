// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/import/line_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "sim/base/error.h"

namespace moesim {
namespace {

/// A line that is much longer than what it was packed into was made to fill the memory.
constexpr std::size_t likely_packing = 200, any_packing = 32U << 20;

}  // namespace

LineFile::LineFile(const std::string& path)
    : path_(path), file_(::gzopen(path.c_str(), "rb")), block_(1U << 20) {
  if (file_ == nullptr) {
    throw error_in(path, fmt::format("cannot be read: {}", std::strerror(errno)));
  }
  std::error_code ignored;
  size_ = static_cast<double>(std::filesystem::file_size(path, ignored));
}

LineFile::~LineFile() { ::gzclose(file_); }

bool LineFile::fill() {
  const int count = ::gzread(file_, block_.data(), static_cast<unsigned>(block_.size()));
  int status = Z_OK;
  ::gzerror(file_, &status);
  if (count < 0 || (count == 0 && status != Z_OK && status != Z_STREAM_END)) {
    throw error_in(path_, "is cut short or damaged", "copy it again");
  }
  at_ = 0;
  end_ = static_cast<std::size_t>(count);
  return count > 0;
}

bool LineFile::next(std::string& line) {
  for (;;) {
    line.clear();
    bool ended = false;
    while (!ended) {
      if (at_ == end_ && !fill()) break;
      const char* const from = block_.data() + at_;
      const auto* const newline = static_cast<const char*>(std::memchr(from, '\n', end_ - at_));
      ended = newline != nullptr;
      const std::size_t size = ended ? static_cast<std::size_t>(newline - from) : end_ - at_;
      line.append(from, size);
      at_ += size + (ended ? 1 : 0);
      if (line.size() > any_packing &&
          line.size() / likely_packing > static_cast<std::size_t>(::gzoffset(file_))) {
        throw error_in(path_,
                       fmt::format("unpacks to more than {} times its size", likely_packing));
      }
    }
    if (line.empty() && !ended) return false;
    ++line_number_;
    if (line.find_first_not_of(" \t\r") != std::string::npos) return true;
  }
}

double LineFile::done() const {
  return size_ > 0 ? static_cast<double>(::gzoffset(file_)) / size_ : 1;
}

}  // namespace moesim
