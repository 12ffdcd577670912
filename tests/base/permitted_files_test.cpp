// SPDX-License-Identifier: Apache-2.0
// A process that works for others reads only what it was given. Limits are for good, so that each
// test has a process of its own.
#include "sim/base/permitted_files.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <stdexcept>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/temporary_folder.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

/// Whether a file can be read, and whether it is said to be there: both or none.
bool is_open(const std::string& path) {
  bool read = true;
  try {
    read_file(path);
  } catch (const Error&) {
    read = false;
  }
  if (read != is_there(path)) throw std::logic_error("it is told that a file is there: " + path);
  return read;
}

void expect_in_child(const std::function<bool()>& holds) {
  EXPECT_EXIT(std::_Exit(holds() ? 0 : 1), testing::ExitedWithCode(0), "");
}

class PermittedFiles : public testing::Test {
 protected:
  PermittedFiles() {
    fs::create_directories(folder_.path() + "/in/below");
    fs::create_directories(folder_.path() + "/inner");
    for (const char* name : {"in/a", "in/below/b", "inner/c", "d"}) write_file(at(name), name);
    fs::create_symlink(at("d"), at("in/link"));
    fs::create_directory_symlink(folder_.path(), at("in/up"));
  }
  std::string at(const std::string& name) const { return folder_.path() + "/" + name; }

  TemporaryFolder folder_;
};

TEST_F(PermittedFiles, AllAreByDefault) { EXPECT_TRUE(is_open(at("d"))); }

TEST_F(PermittedFiles, OnlyWhatIsInTheFolders) {
  expect_in_child([&] {
    permit_only({at("in"), at("not-there")});
    return is_open(at("in/a")) && is_open(at("in/below/b")) && is_open(at("in/below/../a")) &&
           is_folder(at("in/below")) && !is_open(at("inner/c")) && !is_open(at("d")) &&
           !is_folder(at("inner")) && !is_open("/etc/passwd");
  });
}

TEST_F(PermittedFiles, NoWayLeadsOut) {
  expect_in_child([&] {
    permit_only({at("in")});
    return !is_open(at("in/../d")) && !is_open(at("in/link")) && !is_open(at("in/up/d")) &&
           !is_open(at("in/up/inner/c")) && is_open(at("in/up/in/a"));
  });
}

TEST_F(PermittedFiles, FilesThatWereReadStayOpen) {
  expect_in_child([&] {
    keep_read_files_permitted();
    read_file(at("d"));
    permit_only({});
    return is_open(at("d")) && !is_open(at("in/a"));
  });
}

TEST_F(PermittedFiles, AreLimitedOnce) {
  expect_in_child([&] {
    permit_only({at("in")});
    try {
      permit_only({"/"});
    } catch (const std::logic_error&) {
      return !is_open(at("d"));
    }
    return false;
  });
}

}  // namespace
}  // namespace moesim
