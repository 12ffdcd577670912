// SPDX-License-Identifier: Apache-2.0
// Tables as the flags of a command ask for them.
#include "sim/flags/print_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "tests/flags/said_by.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// What is printed under the flags, what goes to standard error, and the mistake that is told.
struct Shown {
  std::string out, beside, mistake;
};

Shown shown(const std::vector<std::string>& words) {
  PrintFlags flags;
  CommandLine program("prog", "Prints");
  flags.add_to(program);
  Shown result;
  result.mistake = said_by(program, words);
  Table table("cases", 1, {"name", "n", "m"});
  table.rows = {{"b", "2", "5"}, {"a", "3", "4"}};
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  try {
    flags.print(Printout().add("# note\n").add(table));
  } catch (const Error& e) {
    result.mistake = e.diagnostics().front().message;
  }
  result.out = testing::internal::GetCapturedStdout();
  result.beside = testing::internal::GetCapturedStderr();
  return result;
}

TEST(FlagsOfTables, SayFormatColumnsAndOrder) {
  EXPECT_EQ(shown({"--format", "csv"}).out, "name,n,m\nb,2,5\na,3,4\n");
  EXPECT_EQ(shown({"--format", "csv", "--sort", "-n"}).out, "name,n,m\na,3,4\nb,2,5\n");
  EXPECT_EQ(shown({"--format", "csv", "--sort", "m"}).out, "name,n,m\na,3,4\nb,2,5\n");
  EXPECT_EQ(shown({"--format", "csv", "--columns", "name,m"}).out, "name,m\nb,5\na,4\n");
  EXPECT_EQ(shown({"--format", "csv"}).beside, "# note\n") << "no line of the format";
  EXPECT_THAT(shown({}).out, StartsWith("# note\n"));
  EXPECT_EQ(shown({}).beside, "");
}

/// Results of minutes are not lost.
TEST(FlagsOfTables, PrintAllIfAColumnIsUnknown) {
  const Shown wrong = shown({"--format", "csv", "--columns", "nme"});
  EXPECT_EQ(wrong.out, "name,n,m\nb,2,5\na,3,4\n");
  EXPECT_THAT(wrong.mistake, HasSubstr("nme"));
}

TEST(FlagsOfTables, NameTheFormatsThatThereAre) {
  EXPECT_EQ(shown({"--format", "cvs"}).mistake,
            "--format: 'cvs' is not known; did you mean 'csv'?");
}

TEST(FlagsOfTables, AreAGroupOfTheHelp) {
  PrintFlags flags;
  CommandLine program("prog", "Prints");
  flags.add_to(program);
  bool other = false;
  program.add_flag("--other", other, "more");
  const std::string help = said_by(program, {"--help"});
  const auto group = help.find("\nOutput:\n");
  ASSERT_NE(group, std::string::npos);
  EXPECT_GT(help.find("--quiet"), group);
  EXPECT_LT(help.find("--other"), group) << "it is among the options";
}

/// What a command with a document prints under the flags.
std::string results(const std::vector<std::string>& words) {
  ResultOutput output;
  CommandLine program("prog", "Has results");
  output.add_to(program, "the results");
  output.add_page(program, "--page", "a page",
                  [](const std::string& document) { return "page of " + document; });
  testing::internal::CaptureStdout();
  EXPECT_EQ(said_by(program, words), "");
  output.write([] { return "document"; }, Printout().add("table\n"));
  return testing::internal::GetCapturedStdout();
}

TEST(FlagsOfResults, PrintTheDocumentOnceInPlaceOfTheTable) {
  const std::string file = testing::TempDir() + "moesim-flags-test", page = file + "-page";
  EXPECT_EQ(results({}), "table\n");
  EXPECT_EQ(results({"--format", "json"}), "document");
  EXPECT_EQ(results({"--format", "json", "--json", file}), "document");
  EXPECT_EQ(results({"--page", page}), "table\n");
  EXPECT_EQ(read_file(file), "document");
  EXPECT_EQ(read_file(page), "page of document");
  std::remove(file.c_str());
  std::remove(page.c_str());
}

}  // namespace
}  // namespace moesim
