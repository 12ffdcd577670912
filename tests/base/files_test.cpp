// SPDX-License-Identifier: Apache-2.0
#include "sim/base/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "sim/base/error.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

TEST(Files, WriteThenReadLeavesNoTemporaryBehind) {
  const fs::path folder = fs::path(testing::TempDir()) / "moesim_files_test";
  fs::remove_all(folder);
  fs::create_directories(folder);
  write_file((folder / "a").string(), "first");
  write_file((folder / "a").string(), "second");
  EXPECT_EQ(read_file((folder / "a").string()), "second");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
}

TEST(Files, SaysWhyAFileCannotBeReadOrWritten) {
  EXPECT_THROW(read_file("/nonexistent/x"), Error);
  try {
    write_file("/nonexistent/x", "");
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "/nonexistent/x: error: cannot be written: No such file or directory\n");
  }
}

TEST(Files, OnlyRegularFilesAreReplaced) {
  const fs::path pipe = fs::path(testing::TempDir()) / "moesim_files_test_pipe";
  fs::remove(pipe);
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0666), 0);
  EXPECT_THROW(write_file(pipe.string(), "x"), Error);
  EXPECT_TRUE(fs::is_fifo(pipe));
  fs::remove(pipe);
  EXPECT_THROW(write_file(testing::TempDir(), "x"), Error);
}

TEST(Files, HashIsXxh3) {
  // xxhsum -H2 of an empty file.
  EXPECT_EQ(hash_of(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_NE(hash_of("a"), hash_of("b"));
}

}  // namespace
}  // namespace moesim
