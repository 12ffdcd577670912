// SPDX-License-Identifier: Apache-2.0
// Names in what is imported lead nowhere: importers write only their trace, and links end.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "sim/base/error.h"
#include "sim/import/importer.h"
#include "tests/fuzz/bundle.h"
#include "tests/fuzz/scratch_file.h"
#include "tests/fuzz/seeds.h"
#include "tests/fuzz/target.h"

namespace moesim::fuzz {
namespace {

namespace fs = std::filesystem;

const std::string member_mark = "\n=member= ";

/// Of the scratch folder, without the inputs of importers.
std::set<std::string> files_beside_inputs() {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(scratch_folder())) {
    const std::string name = entry.path().lexically_relative(scratch_folder());
    if (name != "in" && !name.starts_with("in/")) names.insert(name);
  }
  return names;
}

std::string with_members_in(const std::string& folder, std::string bundle) {
  for (std::size_t at = 0; (at = bundle.find(member_mark, at)) != std::string::npos;) {
    at += member_mark.size();
    bundle.insert(at, folder);
  }
  return bundle;
}

TEST(EscapeTest, MembersOfArchivesBecomeNoFiles) {
  int imported = 0;
  const auto before = files_beside_inputs();
  for (const std::string& seed : seeds_of("imports")) {
    if (seed.find(member_mark) == std::string::npos) continue;
    for (const std::string& folder :
         {std::string("../../"), std::string("a/../../../"), scratch_folder() + "/"}) {
      try {
        imports_target.read(with_members_in(folder, seed));
        ++imported;
      } catch (const Error&) {
        // A format whose arrays have names.
      }
      EXPECT_EQ(files_beside_inputs(), before) << seed.substr(0, seed.find('\n'));
    }
  }
  EXPECT_GT(imported, 0);
}

TEST(EscapeTest, LinksToFoldersAreNotWalked) {
  for (const std::string& seed : seeds_of("imports")) {
    if (!seed.starts_with("trace-v1 ")) continue;
    ImportOptions options;
    options.inputs = {scratch_bundle(unbundled(seed))};
    options.output = scratch_folder() + "/out";
    fs::create_directory_symlink(".", options.inputs.front() + "/loop");
    EXPECT_NO_THROW(import_trace("trace-v1", options));
    EXPECT_EQ(fs::remove_all(options.output) > 0, true);
    fs::remove_all(options.inputs.front());
    return;
  }
  FAIL() << "no seed of trace-v1";
}

}  // namespace
}  // namespace moesim::fuzz
