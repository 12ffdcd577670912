// SPDX-License-Identifier: Apache-2.0
#include "sim/base/exported_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/error_of.h"

namespace moesim {
namespace {

using testing::Eq;
using testing::HasSubstr;
using testing::Optional;

const std::vector<std::string> printed = {"# size time", "  64, 1.5", "  128 2.5", "# end"};

std::string all_printed() { return fmt::format("{}\n", fmt::join(printed, "\n")); }

std::optional<std::string> lines_of(const std::string& text) { return exported_lines(text, "f"); }

/// Every line in `form`: %t, %n and %m are its time as a date, in ns and in ms, %s is the line.
std::vector<std::string> entries(const std::string& form, bool newest_first = false) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < printed.size(); ++i) {
    std::string entry = form;
    const auto put = [&](const char* mark, const std::string& value) {
      for (auto at = entry.find(mark); at != std::string::npos; at = entry.find(mark)) {
        entry.replace(at, 2, value);
      }
    };
    put("%t", fmt::format("2026-11-20T10:00:00.{:03}Z", 9 + i));
    put("%n", fmt::format("17951688000{:08}", i));
    put("%m", fmt::format("{:03}", 9 + i));
    put("%s", printed[i]);
    all.push_back(std::move(entry));
  }
  if (newest_first) std::ranges::reverse(all);
  return all;
}

std::string list_of(const std::vector<std::string>& all) {
  return fmt::format("[{}]", fmt::join(all, ",\n"));
}

TEST(ExportedLog, IsADocumentOfAnyCollector) {
  for (const bool newest_first : {false, true}) {
    const auto in = [&](const std::string& form) { return list_of(entries(form, newest_first)); };
    for (
        const std::string& document :
        {in(R"({"line": "%s", "timestamp": "%n", "fields": {}})"),
         R"({"status": "success", "data": {"result": [{"stream": {}, "values": )" +
             in(R"(["%n", "%s"])") + "}]}}",
         R"({"hits": {"total": 4, "hits": )" +
             in(R"({"_id": "a", "_source": {"@timestamp": "%t", "message": "%s"}})") + "}}",
         R"({"hits": {"hits": )" + in(R"({"fields": {"@timestamp": ["%t"], "message": ["%s"]}})") +
             "}}",
         R"({"events": )" + in(R"({"timestamp": %n, "message": "%s"})") + "}",
         R"({"results": )" +
             in(R"([{"field": "@timestamp", "value": "%t"}, {"field": "@message", "value": "%s"}])") +
             "}",
         in(R"({"insertId": "1", "textPayload": "%s", "timestamp": "%t"})"),
         in(R"({"jsonPayload": {"message": "%s"}, "timestamp": "%t"})"),
         R"({"data": )" + in(R"({"attributes": {"timestamp": "%t", "message": "%s"}})") + "}",
         R"({"resourceLogs": [{"scopeLogs": [{"logRecords": )" +
             in(R"({"timeUnixNano": "%n", "body": {"stringValue": "%s"}})") + "}]}]}"}) {
      EXPECT_THAT(lines_of(document), Optional(Eq(all_printed()))) << document;
    }
  }
}

TEST(ExportedLog, IsOneValueInEachLine) {
  for (const char* form : {R"({"log": "%s\n", "stream": "stdout", "time": "%t"})",
                           R"({"date": 1763632800.%m, "log": "%s"})",
                           R"({"__REALTIME_TIMESTAMP": "%n", "MESSAGE": "%s"})",
                           R"({"level": "info", "ts": %n, "msg": "%s"})",
                           R"({"preview": false, "result": {"_raw": "%s", "_time": "%t"}})"}) {
    for (const bool newest_first : {false, true}) {
      const std::string text = fmt::format("{}\n", fmt::join(entries(form, newest_first), "\n"));
      EXPECT_THAT(lines_of(text), Optional(Eq(all_printed()))) << text;
    }
  }
  EXPECT_THAT(error_of([] { lines_of("{\"log\": \"a\"}\n{\"log\": \n"); }), HasSubstr("f:2"));
}

TEST(ExportedLog, HasPiecesOfLinesThatDockerHasCut) {
  EXPECT_THAT(lines_of("{\"log\": \"a\"}\n{\"log\": \"b\\n\"}\n{\"log\": \"c\\n\"}\n"),
              Optional(Eq("ab\nc\n")));
}

TEST(ExportedLog, HasBytesWhereJournaldFindsNoText) {
  EXPECT_THAT(lines_of("{\"MESSAGE\": [27, 91, 48, 109, 97]}\n"), Optional(Eq("\x1b[0ma\n")));
}

/// Pods that print by turns are streams by themselves, each with its newest line first.
TEST(ExportedLog, HasStreamsByTheirTimes) {
  std::vector<std::string> streams[2];
  const auto all = entries(R"(["%n", "%s"])", true);
  for (std::size_t i = 0; i < all.size(); ++i) streams[i % 2].push_back(all[i]);
  EXPECT_THAT(
      lines_of(fmt::format(R"({{"data": {{"result": [{{"values": {}}}, {{"values": {}}}]}}}})",
                           list_of(streams[0]), list_of(streams[1]))),
      Optional(Eq(all_printed())));
}

TEST(ExportedLog, IsATableWithAMessageAndATime) {
  for (const auto& [names, form] : std::vector<std::pair<std::string, std::string>>{
           {"@timestamp,@message", "%t,\"%s\""},
           {"Date;Host;Message", "%t;h;%s"},
           {"_raw,_time", "\"%s\",%t"},
           {"\"TimeGenerated [UTC]\",LogMessage", "\"11/20/2026, 10:00:00.%n AM\",\"%s\""}}) {
    for (const bool newest_first : {false, true}) {
      const std::string text =
          fmt::format("{}\r\n{}\r\n", names, fmt::join(entries(form, newest_first), "\r\n"));
      EXPECT_THAT(lines_of(text), Optional(Eq(all_printed()))) << text;
    }
  }
  EXPECT_THAT(lines_of(fmt::format("Date,Message\n2026-11-20,\"{}\"\n", fmt::join(printed, "\n"))),
              Optional(Eq(all_printed())));
}

TEST(ExportedLog, IsANotebook) {
  EXPECT_THAT(lines_of(R"({"cells": [{"source": ["!run"], "outputs": [{"output_type": "stream",
                           "text": ["a\n", "b\n"]}]}], "nbformat": 4})"),
              Optional(Eq("a\nb\n")));
}

TEST(ExportedLog, IsNothingElse) {
  for (const char* text :
       {"", "# size time\n  64 1.5\n", "size,time\n64,1.5\n", "{\"log\": \"info\",\n\"port\": 80}",
        "{\"results\": [{\"size\": 64, \"time\": 1.5}]}", "[[1, 2], [3, 4]]",
        "message,other\na,b\n", "{'log': 'a'}"}) {
    EXPECT_EQ(lines_of(text), std::nullopt) << text;
  }
  EXPECT_EQ(lines_of(std::string(200000, '[') + std::string(200000, ']')), std::nullopt);
}

}  // namespace
}  // namespace moesim
