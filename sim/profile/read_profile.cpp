// SPDX-License-Identifier: Apache-2.0
#include "sim/profile/read_profile.h"

#include "sim/base/error.h"
#include "sim/import/file_content.h"
#include "sim/profile/kineto.h"

namespace moesim {
namespace {

void read_file(const std::string& path, const KernelTable& table,
               const std::function<void(double)>& progress, Profile& profile) {
  if (path != "-") {
    switch (form_of(path)) {
      case FileForm::pickle:
      case FileForm::zip:
        throw error_in(path, "is a pickle, which can run code and is not read",
                       "write the flight recorder's dump as JSON");
      case FileForm::empty:
        throw error_in(path, "is empty");
      case FileForm::json:
        break;
      default:
        throw error_in(path, "is of no profiler whose files are read",
                       "traces of PyTorch's profiler are");
    }
  }
  read_kineto(path, table, progress, profile);
}

}  // namespace

ReadProfile read_profile(const std::vector<std::string>& files, const KernelTable& table,
                         const std::function<void(double)>& progress) {
  ReadProfile read;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto part = [&](double done) {
      progress((static_cast<double>(i) + done) / static_cast<double>(files.size()));
    };
    read_file(files[i], table, part, read.profile);
  }
  read.clocks = align_clocks(read.profile);
  return read;
}

}  // namespace moesim
