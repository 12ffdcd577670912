// SPDX-License-Identifier: Apache-2.0
// Descriptions with what launchers, logs, mails, terminals and pages put around them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/pasted_text.h"
#include "sim/topology/import/import.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A description of each form.
const std::vector<std::string> bare_descriptions = {
    "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV18\tPIX\t0-47\t0\n"
    "GPU1\tNV18\t X \tNODE\t0-47\t0\nNIC0\tPIX\tNODE\t X \n\nLegend:\n\n  X    = Self\n",
    "<system version=\"1\">\n  <cpu numaid=\"0\">\n    <pci class=\"0x030200\">\n"
    "      <gpu dev=\"0\" sm=\"90\"/>\n    </pci>\n  </cpu>\n</system>\n",
    "# leaves\nSwitchName=l1 Nodes=n[1-4]\nSwitchName=l2 Nodes=n[5-8]\n\n"
    "SwitchName=s Switches=l[1-2]\n",
    "apiVersion: v1\nitems:\n- kind: Node\n  metadata:\n    labels:\n      nvidia.com/gpu.count: "
    "'8'\n"
    "      nvidia.com/gpu.product: NVIDIA-H200\n    name: a\nkind: List\n",
    "#\n# Topology file\n\nvendid=0x2c9\nswitchguid=0x1(1)\nSwitch\t64 \"S-1\"\t\t# \"leaf\" lid "
    "3\n"
    "[1]\t\"H-1\"[1](1) \t\t# \"a mlx5_0\" lid 10 4xNDR\n[2]\t\"H-2\"[1](2) \t\t# \"b mlx5_0\" lid "
    "11 "
    "4xNDR\n\nvendid=0x2c9\ncaguid=0x1\nCa\t1 \"H-1\"\t\t# \"a mlx5_0\"\n"};

using LineChange = std::function<std::string(const std::string& line, int number)>;

std::string with_lines(const std::string& text, const LineChange& change) {
  std::istringstream lines(text);
  std::string out;
  int number = 0;
  for (std::string line; std::getline(lines, line);) out += change(line, number++) + '\n';
  return out;
}

LineChange after(const std::string& beginning) {
  return [=](const std::string& line, int) { return beginning + line; };
}

std::string unwrapped_topology(const std::string& text) {
  try {
    return topology_text({parse_facts(text, "f")}, "");
  } catch (const Error& e) {
    return e.what();
  }
}

void expect_that_all_forms_survive(const std::function<std::string(const std::string&)>& wrap) {
  for (const std::string& text : bare_descriptions) {
    EXPECT_EQ(unwrapped_topology(wrap(text)), topology_text({parse_facts(text, "f")}, ""))
        << wrap(text);
  }
}

TEST(WrappedText, WhatIsBeforeEachLineIsTakenOff) {
  for (const char* beginning :
       {"    ", "\t", "gpu-01: ", "0: ", "[pod/a/b] ", "(worker-0) ", "node1  | ", "> ", ">> ",
        "2026-01-03T10:22:33.123456Z stdout F ", "[2026-01-03 10:22:33] ", "10:22:33,123 INFO ",
        "2026/01/03 10:22:33 ", "Jan  3 10:22:33 n1 run[12]: ", "> 2026-01-03 10:22:33+00:00 n1: ",
        "[1,0]<stdout>:", "\x1b[0m", "> > > "}) {
    SCOPED_TRACE(beginning);
    expect_that_all_forms_survive(
        [&](const std::string& text) { return with_lines(text, after(beginning)); });
  }
}

TEST(WrappedText, LevelsFollowTimes) {
  for (const char* level : {"INFO ", "[INFO] ", "INFO: ", "- root - INFO - ", "[main] WARNING: "}) {
    SCOPED_TRACE(level);
    expect_that_all_forms_survive([&](const std::string& text) {
      return with_lines(text, after(std::string("2026-01-03 10:22:33,123 ") + level));
    });
  }
}

TEST(WrappedText, LinesAreNumbered) {
  expect_that_all_forms_survive([&](const std::string& text) {
    return with_lines(text, [](const std::string& line, int number) {
      return fmt::format("{:6}\t{}", number + 1, line);
    });
  });
}

TEST(WrappedText, ContainersKeepLinesAsJson) {
  expect_that_all_forms_survive([&](const std::string& text) {
    return with_lines(text, [](const std::string& line, int) {
      return fmt::format(R"({{"log":{},"stream":"stdout"}})",
                         nlohmann::json("n1: " + line + "\n").dump());
    });
  });
}

TEST(WrappedText, TimesDiffer) {
  expect_that_all_forms_survive([&](const std::string& text) {
    return with_lines(text, [](const std::string& line, int number) {
      return fmt::format("Dec {:2} 10:22:{:02} {}", 1 + number, 2 * number, line);
    });
  });
}

TEST(WrappedText, EmptyLinesLackTheirBeginnings) {
  for (const char* beginning : {"> ", "n1: ", "10:22:33 "}) {
    expect_that_all_forms_survive([&](const std::string& text) {
      return with_lines(text, [&](const std::string& line, int) {
        return line.empty() ? line : beginning + line;
      });
    });
  }
}

TEST(WrappedText, PromptsAndFencesAreTakenOff) {
  const std::vector<std::pair<std::string, std::string>> around = {
      {"$ cat f\n", ""},
      {"root@n1:~# cat f\n", "root@n1:~# \n"},
      {"[root@n1 ~]# cat f\n", "[root@n1 ~]#\n"},
      {"(base) n1:~/a$ cat f\n", "(base) n1:~/a$ exit\n"},
      {"PS C:\\> cat f\n", "PS C:\\>\n"},
      {"C:\\Users\\a> type f\n", "C:\\Users\\a>\n"},
      {"+ cat f\n", "+ exit\n"},
      {"\xe2\x9e\x9c  ~ cat f\n", "\xe2\x9e\x9c\n"},
      {"---------------\nn1\n---------------\n", ""},
      {"```xml\n", "```\n"},
      {"```\n", ""},
      {"That is what it says:\n\n~~~\n", "~~~\nAny ideas?\n"},
      {"  ```console\n  $ cat f\n", "  ```\n"},
      {"> ```\n> n1:~$ cat f\n", "> ```\n"}};
  for (const auto& [before, behind] : around) {
    SCOPED_TRACE(before);
    const std::string inner = before.substr(0, before.find_first_not_of(" >"));
    expect_that_all_forms_survive(
        [&](const std::string& text) { return before + with_lines(text, after(inner)) + behind; });
  }
}

TEST(WrappedText, MailsHaveMoreThanTheirQuotes) {
  expect_that_all_forms_survive([](const std::string& text) {
    return "On Monday A wrote:\n" + with_lines(text, after("> ")) + "\nThanks: B\n";
  });
}

TEST(WrappedText, WordsBeforeXmlAndSlurmAreNone) {
  const std::string words = "Hi,\nthat is what <a> gives:\n";
  for (const std::string& text :
       {bare_descriptions[0], bare_descriptions[1], bare_descriptions[2], bare_descriptions[4]}) {
    EXPECT_EQ(unwrapped_topology(words + text), topology_text({parse_facts(text, "f")}, ""));
  }
  EXPECT_THAT(unwrapped_topology(words + "<system version=\"1\">\n<cpu numaid=\n"),
              HasSubstr("f:4: error: not XML"));
  EXPECT_THAT(unwrapped_topology("SwitchName=a Nodes=n1\nThanks\n"),
              HasSubstr("f:2: error: 'Thanks' is not KEY=VALUE"));
}

TEST(WrappedText, CommandsOfRootBeforeXmlAreTakenOff) {
  EXPECT_THAT(unwrapped_topology("# cat f\n" + bare_descriptions[1]), HasSubstr("gpus: 1"));
}

TEST(WrappedText, LinesKeepTheirNumbers) {
  EXPECT_THAT(unwrapped_topology("$ cat f\n> SwitchName=a Nodes=n1\n> SwitchName=b Nodes=n[1\n"),
              HasSubstr("f:3: error: 'n[1': brackets do not match"));
}

TEST(WrappedText, WhatIsOfTheTextStays) {
  for (const std::string text :
       {"[1]\t\"H\"\n[1]\t\"S\"\n", "SwitchName=a Nodes=b\nSwitchName=a Nodes=c\n",
        "key: value\nother: [a]\nthird: 3\n", "| a |\n| b |\n", "- a: b\n- a: c\n", "a\n",
        "1 a\n2 b\n", "18:00.0 NIC\n18:00.1 NIC\n", "2026-01-03 a\n2026-01-03 b\n",
        "[10:22:33 a\n[10:22:33 b\n", "GPU0 # 1\nGPU1 # 2\n", "[a b\n[a b\n",
        "Foo  1 10:00:00 a\nFoo  1 10:00:00 b\n", "@b> c\n\"a@b\": #\n", "(a b\n(a b\n"}) {
    EXPECT_EQ(as_printed(text), text);
  }
}

TEST(WrappedText, LinesOfSeveralMachinesAreRefusedWhereTheyDescribeOne) {
  std::string both;
  for (const char* name : {"n1: ", "n2: "}) {
    both += with_lines(bare_descriptions[1], after(name));
  }
  EXPECT_THAT(unwrapped_topology(both), HasSubstr("f: error: has lines of 2 machines\n"
                                                  "hint: those of one: grep '^n1:' f"));
  EXPECT_THAT(names_before_lines(both), ElementsAre("n1:", "n2:"));
  EXPECT_THAT(names_before_lines("a: 1\nb: 2\nc: 3\na: 4\n"), IsEmpty());
  EXPECT_THAT(names_before_lines("a: 1\na: 2\na: 3\n1\n2\n"), IsEmpty());
}

}  // namespace
}  // namespace moesim
