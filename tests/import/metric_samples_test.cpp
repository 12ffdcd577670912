// SPDX-License-Identifier: Apache-2.0
// Metrics of Prometheus as tools print, cut and answer them.
#include <gmock/gmock.h>

#include "tests/import/told.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string metrics_told(const std::string& text) {
  return told_of("table", {{"a", text}}, [](ImportOptions& o) { o.top_k = 1, o.moe_layers = {1}; });
}

/// Counts of 1 and 2 of the experts 0 and 1.
const std::string counted = "top 1 [1, 1, 1] 1: 0 1 1";

TEST(MetricSamples, MayHavePrefixesAndBlanks) {
  for (const std::string text :
       {"t{layer=\"1\",expert=\"0\"} 1\r\nt{layer=\"1\",expert=\"1\"} 2\r\n",
        "\xef\xbb\xbft{layer=\"1\",expert=\"0\"} 1\nt{layer=\"1\",expert=\"1\"} 2\n",
        "web-0  | # TYPE t counter\nweb-0  | t{layer=\"1\",expert=\"0\"} 1\n"
        "web-0  | t{layer=\"1\",expert=\"1\"} 2\n",
        "t {layer=\"1\",expert=\"0\"} 1\nt\t{ layer = \"1\" , expert = \"1\" , }\t2 # {id=\"7\"} "
        "1\n",
        "t{layer='1',expert='0'} 1\nt{layer='1',expert='1'} 2.0e0\n",
        "t{a=\"x\\\"}\",layer=\"1\",expert=\"0\"} 1\nt{layer=\"1\",expert=\"1\"} 2\n"}) {
    EXPECT_EQ(metrics_told(text), counted) << text;
  }
}

TEST(MetricSamples, ThatCannotBeReadAreRefused) {
  const std::string first = "t{layer=\"1\",expert=\"0\"} 1\n";
  for (const char* const cut : {"t{layer=\"1\",expert=\"1\"}\n", "t{layer=\"1\",expert=\"1\"} x\n",
                                "t{layer=\"1\",expert=\"1"}) {
    EXPECT_THAT(metrics_told(first + cut),
                StartsWith("error: is cut or changed: a sample of an expert without"))
        << cut;
  }
  for (const char* const value : {"+Inf", "NaN", "1e400", "-Inf"}) {
    EXPECT_THAT(metrics_told(first + "t{layer=\"1\",expert=\"1\"} " + value + "\n"),
                testing::ContainsRegex("^error: field 'count' holds -?(inf|nan), not whole"))
        << value;
  }
  EXPECT_THAT(metrics_told("# TYPE t counter\nt{layer=\"1\"} 1\nlayer=1 expert=0\n"),
              StartsWith("error: has metrics, none with the label of an expert\n"));
}

TEST(MetricSamples, MayBeAnswersInJson) {
  const auto answer = [](const std::string& first, const std::string& second) {
    return R"({"status": "success", "data": {"resultType": "vector", "result": [)"
           R"({"metric": {"__name__": "t", "layer": "1", "expert": "0"}, )" +
           first + R"(}, {"metric": {"__name__": "t", "layer": "1", "expert": "1"}, )" + second +
           "}]}}";
  };
  EXPECT_EQ(metrics_told(answer(R"("value": [9.5, "1"])", R"("value": [9.5, "2"])")), counted);
  EXPECT_EQ(metrics_told(
                answer(R"("values": [[8, "0"], [9, "1"]])", R"("values": [[8, "1"], [9, "3"]])")),
            counted)
      << "no series falls: a counter, and the first sample begins the counting";
  EXPECT_EQ(metrics_told(
                answer(R"("values": [[8, "2"], [9, "1"]])", R"("values": [[8, "0"], [9, "2"]])")),
            "top 1 [1, 1] 1: 0 0 step 1 [1, 1, 1] 1: 0 1 1");
  const std::string lines =
      "{\"labels\": {\"layer\": 1, \"expert\": 0}, \"value\": 1}\n"
      "{\"labels\": {\"layer\": 1, \"expert\": 1}, \"value\": 2}\n";
  EXPECT_EQ(metrics_told(lines), counted);
  EXPECT_EQ(metrics_told(lines + "{\"labels\": {"),
            std::string(counted) + "\n1 row: of a line that is cut short\n");
  EXPECT_THAT(metrics_told("{\"labels\": {}, \"value\": 1}\n{\"labels\": {\n" + lines),
              HasSubstr("not JSON: the value that begins here does not end"));
}

TEST(MetricSamples, OfTheTimesAndSizesOfCountersAreNoCounts) {
  EXPECT_EQ(
      metrics_told("t_total{layer=\"1\",expert=\"0\"} 1\nt_total{layer=\"1\",expert=\"1\"} 2\n"
                   "# TYPE t_created gauge\nt_created{layer=\"1\",expert=\"0\"} 1.7e+09\n"),
      counted);
  EXPECT_THAT(metrics_told("t_bucket{layer=\"1\",expert=\"0\",le=\"1\"} 1\n"),
              StartsWith("error: 't_bucket' is a histogram"));
}

TEST(MetricSamples, HaveLabelsThatMapNames) {
  EXPECT_EQ(
      told_of("table", {{"a", "up{pid=\"7\"} 1\nt{il=\"1\",who=\"3\"} 2\n"}},
              [](ImportOptions& o) { o.top_k = 1, o.moe_layers = {1}, o.map = {"experts=who"}; }),
      "top 1 [1, 1] 1: 3 3");
}

}  // namespace
}  // namespace moesim
