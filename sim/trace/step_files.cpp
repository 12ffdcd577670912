// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/step_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "sim/base/processes.h"
#include "sim/trace/npy.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

Error cannot_write(const std::string& path) {
  return error_in(path, fmt::format("cannot be written: {}", std::strerror(errno)));
}

/// A new file. It is on the disk when done() returns, so that a rename after it cannot publish
/// something unwritten.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path)
      : path_(path), fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
    if (fd_ < 0) throw cannot_write(path_);
  }
  ~OutputFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, std::size_t size) {
    if (!write_all(fd_, {static_cast<const char*>(data), size})) throw cannot_write(path_);
  }
  void done() {
    if (::fsync(fd_) != 0) throw cannot_write(path_);
    const int fd = std::exchange(fd_, -1);
    if (::close(fd) != 0) throw cannot_write(path_);
  }

 private:
  std::string path_;
  int fd_;
};

/// Makes the names in a folder durable: fsync of a file leaves them out.
void sync_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw cannot_write(path);
  const bool synced = ::fsync(fd) == 0;
  ::close(fd);
  if (!synced) throw cannot_write(path);
}

/// The float16 that equals `value`, if there is a finite one.
std::optional<std::uint16_t> exact_half(float value) {
  if (!std::isfinite(value)) return std::nullopt;
  const float magnitude = std::fabs(value);
  const int sign = std::signbit(value) ? 0x8000 : 0;
  int bits = 0;
  if (magnitude != 0) {
    int exponent = 0;
    std::frexp(magnitude, &exponent);               // magnitude in [2^(exponent-1), 2^exponent)
    const int scale = std::max(exponent - 1, -14);  // exponent of the float16
    const float fraction = std::ldexp(magnitude, 10 - scale);  // 1024..2047, or less when subnormal
    if (exponent - 1 > 15 || fraction != std::floor(fraction)) return std::nullopt;
    bits = static_cast<int>(fraction) + ((scale + 14) << 10);
  }
  return static_cast<std::uint16_t>(bits | sign);
}

template <class T>
void write_array(const std::string& path, NpyType type, const std::vector<std::int64_t>& shape,
                 const std::vector<T>& values) {
  OutputFile file(path);
  const std::string header = npy_header(type, shape);
  file.write(header.data(), header.size());
  file.write(values.data(), values.size() * sizeof(T));
  file.done();
}

/// The arrays of one step, written into a folder.
class StepFiles {
 public:
  StepFiles(const TraceStep& step, const TraceInfo& info, const std::string& folder)
      : step_(step),
        folder_(folder),
        shape_{static_cast<std::int64_t>(info.layers.size()), step.tokens(), info.top_k} {}

  void write() const {
    write_ids();
    const auto lengths = step_.sequence_lengths();
    write_array(folder_ + "/sequence_lengths.npy", {'i', 4},
                {static_cast<std::int64_t>(lengths.size())},
                std::vector<std::int32_t>(lengths.begin(), lengths.end()));
    if (step_.has_source_ranks()) write_ranks();
    if (step_.has_weights()) write_weights();
    sync_folder(folder_);
  }

 private:
  void write_ids() const {
    OutputFile file(folder_ + "/ids.npy");
    const std::string header = npy_header({'u', step_.ids(0).width()}, shape_);
    file.write(header.data(), header.size());
    for (int layer = 0; layer < shape_[0]; ++layer) {
      const IdRows ids = step_.ids(layer);
      file.write(ids.data(), static_cast<std::size_t>(ids.tokens() * ids.top_k() * ids.width()));
    }
    file.done();
  }

  void write_ranks() const {
    std::vector<std::int32_t> ranks;
    for (std::int64_t t = 0; t < step_.tokens(); ++t) ranks.push_back(step_.source_rank(t));
    const std::string path = folder_ + "/source_ranks.npy";
    if (std::any_of(ranks.begin(), ranks.end(), [](int r) { return r > 0xffff; })) {
      write_array(path, {'i', 4}, {step_.tokens()}, ranks);
    } else {
      write_array(path, {'u', 2}, {step_.tokens()},
                  std::vector<std::uint16_t>(ranks.begin(), ranks.end()));
    }
  }

  /// Writes float16 if it is exact for every weight. Layer by layer, because the weights
  /// of a step may be all of memory.
  void write_weights() const {
    bool half = true;
    for (int layer = 0; half && layer < shape_[0]; ++layer) {
      for (const float w : weights_of(layer)) half = half && exact_half(w).has_value();
    }
    OutputFile file(folder_ + "/gate_weights.npy");
    const std::string header = npy_header({'f', half ? 2 : 4}, shape_);
    file.write(header.data(), header.size());
    for (int layer = 0; layer < shape_[0]; ++layer) {
      const std::vector<float> single = weights_of(layer);
      if (!half) {
        file.write(single.data(), single.size() * sizeof(float));
        continue;
      }
      std::vector<std::uint16_t> narrow;
      for (const float w : single) narrow.push_back(*exact_half(w));
      file.write(narrow.data(), narrow.size() * sizeof(std::uint16_t));
    }
    file.done();
  }

  std::vector<float> weights_of(int layer) const {
    std::vector<float> weights;
    weights.reserve(static_cast<std::size_t>(shape_[1] * shape_[2]));
    for (std::int64_t t = 0; t < shape_[1]; ++t) {
      for (int k = 0; k < shape_[2]; ++k) weights.push_back(step_.weight(layer, t, k));
    }
    return weights;
  }

  const TraceStep& step_;
  const std::string& folder_;
  std::vector<std::int64_t> shape_;
};

}  // namespace

void write_step_files(const TraceStep& step, const TraceInfo& info, const std::string& folder) {
  StepFiles(step, info, folder).write();
}

void make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) != 0) throw cannot_write(path);
}

void rename_folder(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) throw cannot_write(to);
  const auto parent = fs::path(to).parent_path();
  sync_folder(parent.empty() ? "." : parent.string());
}

}  // namespace moesim
