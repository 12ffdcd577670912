// SPDX-License-Identifier: Apache-2.0
// Small profiles that tests write.
#pragma once

#include <fmt/format.h>
#include <zlib.h>

#include <fstream>
#include <string>

#include "sim/base/error.h"
#include "sim/base/temporary_folder.h"
#include "sim/profile/read_profile.h"
#include "tests/error_of.h"

namespace moesim {

inline constexpr ProfileTicks us = 1'000'000;

/// A folder with files of tests.
class ProfileFiles {
 public:
  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  std::string write_packed(const std::string& name, const std::string& text) const {
    return pack(name, text, "wb");
  }
  /// Another member of the gzip file, as `cat` joins them.
  std::string append_packed(const std::string& name, const std::string& text) const {
    return pack(name, text, "ab");
  }

 private:
  std::string pack(const std::string& name, const std::string& text, const char* mode) const {
    const std::string path = folder_.path() + "/" + name;
    const gzFile file = ::gzopen(path.c_str(), mode);
    ::gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    ::gzclose(file);
    return path;
  }

  TemporaryFolder folder_;
};

inline ReadProfile read_files(const std::vector<std::string>& files) {
  return read_profile(files, kernel_table({}), [](double) {});
}

/// The message of the Error that reading some files throws; empty if it throws none.
inline std::string error_of_files(const std::vector<std::string>& files) {
  return error_of([&] { read_files(files); });
}

/// One GPU kernel of a trace of PyTorch's profiler, in microseconds.
inline std::string kineto_kernel(const std::string& name, int stream, double begin, double length,
                                 const std::string& more = "") {
  return fmt::format(
      "{{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"{}\", \"pid\": 0, \"tid\": {}, \"ts\": "
      "{:.3f}, \"dur\": {:.3f}, \"args\": {{\"device\": 0, \"stream\": {}{}}}}}",
      name, stream, begin, length, stream, more);
}

/// A trace of a rank with these events.
inline std::string kineto_trace(int rank, const std::vector<std::string>& events) {
  std::string text = fmt::format(
      "{{\"schemaVersion\": 1, \"deviceProperties\": [{{\"id\": 0, \"name\": \"NVIDIA H100\"}}], "
      "\"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": {}, \"world_size\": 2}}, "
      "\"traceEvents\": [",
      rank);
  for (std::size_t i = 0; i < events.size(); ++i) text += (i == 0 ? "\n" : ",\n") + events[i];
  return text + "\n], \"traceName\": \"/home/someone/on-host7/trace.json\"}\n";
}

/// Metadata of an all-to-all over ranks 0 and 1 with so many BF16 elements out and in.
inline std::string all_to_all_facts(std::int64_t elements, int sequence) {
  return fmt::format(
      ", \"Collective name\": \"all_to_allv\", \"In msg nelems\": {0}, \"Out msg nelems\": {0}, "
      "\"Group size\": 2, \"dtype\": \"BFloat16\", \"Process Group Name\": \"3\", "
      "\"Process Group Description\": \"EP_GROUP\", \"Process Group Ranks\": \"[0, 1]\", "
      "\"Seq\": {1}",
      elements, sequence);
}

}  // namespace moesim
