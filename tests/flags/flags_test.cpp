// SPDX-License-Identifier: Apache-2.0
// Times on a command line, how the help is wrapped, what is said of wrong words, and manual pages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/flags/command_info.h"
#include "sim/flags/shared_flags.h"
#include "tests/flags/said_by.h"

namespace moesim {
namespace {

using testing::HasSubstr;

TEST(TimeFlag, HasUnitsUpToDays) {
  EXPECT_EQ(time_of_flag("--t", "90s", false), Seconds(90));
  EXPECT_EQ(time_of_flag("--t", "0.5 s", false), Seconds(0.5));
  EXPECT_EQ(time_of_flag("--t", "250 ms", false), Seconds(0.25));
  EXPECT_EQ(time_of_flag("--t", "2min", false), Seconds(120));
  EXPECT_EQ(time_of_flag("--t", "1.5h", false), Seconds(5400));
  EXPECT_EQ(time_of_flag("--t", "2d", false), Seconds(172800));
  EXPECT_EQ(time_of_flag("--t", "0s", true), Seconds(0));
}

TEST(TimeFlag, IsAboveZeroAndHasAUnit) {
  for (const char* text : {"0s", "-1s", "5", "5 miles", "s", ""}) {
    EXPECT_THROW(time_of_flag("--t", text, false), Error) << text;
  }
  EXPECT_THROW(time_of_flag("--t", "1 mile", true), Error);
  EXPECT_THROW(time_of_flag("--t", "-1s", true), Error);
}

/// The help with standard output in a file, so as wide as it may be.
std::string help_of(const std::function<void(CommandLine&)>& add) {
  testing::internal::CaptureStdout();
  CommandLine program("prog", "Does it");
  add(program);
  const std::string help = said_by(program, {"--help"});
  testing::internal::GetCapturedStdout();
  return help;
}

const std::string column(30, ' ');

TEST(HelpOfAProgram, NamesUpTo28ColumnsAreFollowedByTheDescription) {
  bool value = false;
  const std::string fits(24, 'n'), longer(25, 'm');
  const std::string help = help_of([&](CommandLine& program) {
    program.add_flag("--" + fits, value, "first");
    program.add_flag("--" + longer, value, "second");
  });
  EXPECT_THAT(help, HasSubstr("\n  --" + fits + "  first\n"));
  EXPECT_THAT(help, HasSubstr("\n  --" + longer + "\n" + column + "second\n"));
}

TEST(HelpOfAProgram, DescriptionsEndAtColumn100) {
  bool value = false;
  const std::string half(34, 'a'), rest(35, 'b');
  const std::string help = help_of([&](CommandLine& program) {
    program.add_flag("--fits", value, half + " " + rest);
    program.add_flag("--wraps", value, half + " " + rest + "b c");
  });
  EXPECT_THAT(help, HasSubstr("\n  --fits" + column.substr(8) + half + " " + rest + "\n"));
  EXPECT_THAT(help,
              HasSubstr("\n  --wraps" + column.substr(9) + half + "\n" + column + rest + "b c\n"));
}

TEST(HelpOfAProgram, NamesAndTypesEndAtColumn100) {
  const auto of_size = [](std::size_t size, std::string& value) {
    return help_of([&, size](CommandLine& program) {
      program.add_option("--f", value, "what").one_of({std::string(size, 'v')}).required();
    });
  };
  std::string value;
  const std::string fits = "  --f TEXT:{" + std::string(78, 'v') + "} REQUIRED";
  ASSERT_EQ(fits.size(), 100U);
  EXPECT_THAT(of_size(78, value), HasSubstr("\n" + fits + "\n" + column + "what\n"));
  EXPECT_THAT(of_size(79, value), HasSubstr("vv}\n      REQUIRED\n" + column + "what\n"));
}

TEST(WrongWords, AreToldByTheCommandThatTheyAreWrongIn) {
  CommandLine program("prog", "Does it");
  CommandLine outer = program.add_subcommand("outer", "Has two");
  CommandLine inner = outer.add_subcommand("inner", "Is one");
  outer.add_subcommand("other", "Is one");
  outer.require_subcommand();
  int count = 0;
  inner.add_option("--count", count, "a number").required().range(2, 9);
  int free = 0;
  inner.add_option("--free", free, "any number");
  EXPECT_EQ(said_by(program, {"outer"}), "prog outer needs a command; one of inner, other");
  EXPECT_EQ(said_by(program, {"outer", "innre"}),
            "prog outer has no command 'innre'; did you mean 'inner'?");
  const std::string help = "; prog outer inner --help tells more";
  EXPECT_EQ(said_by(program, {"outer", "inner", "--zzz=1"}),
            "prog outer inner has no flag '--zzz'" + help);
  EXPECT_EQ(said_by(program, {"outer", "inner", "--count", "1"}),
            "prog outer inner: --count: Value 1 not in range 2 to 9" + help);
  EXPECT_EQ(said_by(program, {"outer", "inner", "--count"}),
            "prog outer inner: --count needs a value" + help);
  EXPECT_EQ(said_by(program, {"outer", "inner", "--count", "2", "--count", "3"}),
            "prog outer inner: --count is there more than once" + help);
  EXPECT_EQ(said_by(program, {"outer", "inner", "--free", "0:9"}),
            "prog outer inner: --free: '0:9' is not a whole number" + help);
  EXPECT_EQ(said_by(program, {"outer", "inner", "--count", "002"}), "");
  EXPECT_EQ(count, 2);
  EXPECT_EQ(said_by(program, {"x", "--y", "outer", "inner", "--count", "2"}),
            "'--y' stands before the command; flags follow it: prog outer inner --flag value");
}

TEST(WordsOfAProgram, WholeNumbersAreDecimal) {
  for (const auto& [text, value] : std::vector<std::pair<std::string, int>>{{"0", 0},
                                                                            {"00", 0},
                                                                            {"010", 10},
                                                                            {"+010", 10},
                                                                            {"-010", -10},
                                                                            {"-0", 0},
                                                                            {"100", 100}}) {
    CommandLine program("prog", "Counts");
    int count = 77;
    program.add_option("--count", count, "a number");
    EXPECT_EQ(said_by(program, {"--count=" + text}), "") << text;
    EXPECT_EQ(count, value) << text;
  }
  for (const char* none : {"+", "-", "x", "0x"}) {
    CommandLine program("prog", "Counts");
    int count = 0;
    program.add_option("--count", count, "a number");
    EXPECT_THAT(said_by(program, {std::string("--count=") + none}), HasSubstr("--count")) << none;
  }
}

TEST(WordsOfAProgram, ThatItDoesNotKnowMayBePassedOver) {
  CommandLine program("prog", "Does it");
  bool all = false;
  program.add_flag("--all", all, "of it");
  EXPECT_EQ(program.flags().size(), 1U) << "--help is not among them";
  program.pass_over_others();
  EXPECT_EQ(said_by(program, {"x", "--help", "--all", "--more=2"}), "");
  EXPECT_TRUE(all);
  EXPECT_TRUE(program.flag("--all").given());
  EXPECT_TRUE(program.flags().at(0).given());
}

TEST(WordsOfAProgram, HelpOfACommandIsItsHelp) {
  CommandLine program("prog", "Does it");
  program.add_subcommand("outer", "Is one of two");
  const std::string help = said_by(program, {"help", "outer"});
  EXPECT_THAT(help, HasSubstr("Is one of two"));
  EXPECT_EQ(help, said_by(program, {"outer", "--help"}));
}

TEST(ManPageOfAProgram, IsAllThatItsCommandsAre) {
  const CommandInfo program{"prog",
                            "One\nand two-three",
                            ".tail",
                            {{{"-o", "--out"}, "writes C:\\x", false, true}},
                            {{"outer",
                              "'Quoted'",
                              "",
                              {{{"FILE"}, "what", true, true}, {{"--all"}, "of it", false, false}},
                              {{"inner", "Is one", "", {}, {}}}}}};
  EXPECT_EQ(man_page(program, "v1"),
            ".TH PROG 1 \"\" \"prog v1\" \"User Commands\"\n"
            ".SH NAME\nprog \\- One and two\\-three\n"
            ".SH SYNOPSIS\n\\fBprog\\fR \\fICOMMAND\\fR [\\fIFLAG\\fR ...]\n"
            ".SH OPTIONS\n.TP\n\\fB\\-o, \\-\\-out\\fR \\fIVALUE\\fR\nwrites C:\\ex\n"
            ".SH COMMANDS\n.SS prog outer\n\\&'Quoted'\n"
            ".TP\n\\fBFILE\\fR\nwhat\n.TP\n\\fB\\-\\-all\\fR\nof it\n"
            ".SS prog outer inner\nIs one\n"
            ".SH EXIT STATUS\n\\&.tail\n");
}

}  // namespace
}  // namespace moesim
