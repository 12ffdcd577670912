// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>

#include "sim/base/files.h"
#include "sim/import/zip.h"
#include "tests/fuzz/bundle.h"

namespace moesim::fuzz {

std::string bundle_of(const std::string& first_line, const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::string bundle = first_line;
  for (const std::filesystem::path& path : paths) {
    const std::string content = read_file(path.string()), name = path.lexically_relative(folder);
    if (!content.starts_with("PK\x03\x04")) {
      bundle += "\n=file= " + name + "\n" + content;
      continue;
    }
    bundle += "\n=zip= " + name + "\n";
    const ZipArchive archive(path.string());
    for (const ZipArchive::Member& member : archive.members()) {
      const auto bytes = archive.read(member);
      bundle += "\n=member= " + member.name + "\n" +
                std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
  }
  return bundle;
}

}  // namespace moesim::fuzz
