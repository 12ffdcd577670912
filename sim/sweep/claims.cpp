// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/claims.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace moesim {
namespace {

class OwnClaims : public Claims {
 public:
  explicit OwnClaims(std::int64_t count) : count_(count) {}
  std::optional<std::int64_t> next() override {
    if (next_ == count_) return std::nullopt;
    return next_++;
  }

 private:
  std::int64_t count_, next_ = 0;
};

class FileClaims : public Claims {
 public:
  FileClaims(std::int64_t count, std::string folder, std::int64_t chunk)
      : count_(count), folder_(std::move(folder)), chunk_(std::max<std::int64_t>(chunk, 1)) {}

  std::optional<std::int64_t> next() override {
    while (unit_ == end_) {
      if (file_ * chunk_ >= count_) return std::nullopt;
      const std::int64_t file = file_++;
      if (!create_alone(fmt::format("{}/{}", folder_, file))) continue;
      unit_ = file * chunk_;
      end_ = std::min(unit_ + chunk_, count_);
    }
    return unit_++;
  }

 private:
  std::int64_t count_;
  std::string folder_;
  std::int64_t chunk_, file_ = 0, unit_ = 0, end_ = 0;
};

}  // namespace

std::unique_ptr<Claims> own_claims(std::int64_t count) {
  return std::make_unique<OwnClaims>(count);
}

std::unique_ptr<Claims> file_claims(std::int64_t count, const std::string& folder,
                                    std::int64_t chunk) {
  return std::make_unique<FileClaims>(count, folder, chunk);
}

bool create_alone(const std::string& path) {
  const int file = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY, 0666);
  if (file >= 0) {
    ::close(file);
    return true;
  }
  if (errno == EEXIST) return false;
  throw std::system_error(errno, std::generic_category(), path);
}

}  // namespace moesim
