// SPDX-License-Identifier: Apache-2.0
// Files that appear whole or not at all, and files without a name.
#include "sim/base/file_in_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/temporary_folder.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

std::string content_of(const NamelessFile& file) {
  std::string all;
  file.read([&](std::string_view part) { all += part; });
  return all;
}

TEST(NamelessFiles, AreReadAsTheyWereWritten) {
  const TemporaryFolder folder;
  NamelessFile file(folder.path() + "/parts");
  EXPECT_EQ(content_of(file), "");
  std::string all;
  for (int i = 0; i < 300000; ++i) all += std::to_string(i) + '\n';  // over one part of a read
  file.append(std::string_view(all).substr(0, 5));
  file.append(std::string_view(all).substr(5));
  EXPECT_EQ(content_of(file), all);
  EXPECT_EQ(content_of(file), all) << "read again";
  EXPECT_TRUE(fs::is_empty(folder.path()));
  const NamelessFile moved(std::move(file));
  EXPECT_EQ(content_of(moved), all);
}

TEST(NamelessFiles, NeedAFolder) { EXPECT_THROW(NamelessFile("/no/such/folder/file"), Error); }

TEST(FilesInParts, AppearWhenTheyAreFinished) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/out";
  FileInParts file(path);
  file.write("a");
  file.write("bc");
  EXPECT_FALSE(fs::exists(path));
  file.finish();
  EXPECT_EQ(read_file(path), "abc");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(FilesInParts, LeaveNothingWhenTheyAreGivenUp) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/out";
  write_file(path, "old");
  {
    FileInParts file(path);
    file.write("new");
    file.prepare();
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace moesim
