// SPDX-License-Identifier: Apache-2.0
// Several files in one input, so that a fuzzer that knows nothing of checksums gets behind them: a
// zip archive stands as its unpacked members.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moesim::fuzz {

struct BundledFile {
  std::string name;
  std::string content;
};

/// The first line of a bundle, and its files: each begins with a line "=file= NAME", or, packed
/// into one archive, with "=zip= NAME" and "=member= NAME" for each member.
struct Bundle {
  std::string_view first_line;
  std::vector<BundledFile> files;
};

Bundle unbundled(std::string_view bytes);

/// The bundle of all files below a folder; names are relative to it.
std::string bundle_of(const std::string& first_line, const std::string& folder);

/// Writes the files into a folder of the scratch folder, which is emptied before; returns its path.
/// Names that lead out of it are left out: those of importers are the folder's own.
std::string scratch_bundle(const Bundle& bundle);

/// Members as a zip archive that packs nothing, with sound checksums.
std::string zipped(const std::vector<BundledFile>& members);

}  // namespace moesim::fuzz
