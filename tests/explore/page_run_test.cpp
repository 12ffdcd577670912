// SPDX-License-Identifier: Apache-2.0
// The documents that answer the page's requests, and how dropped files are recognized.
#include "sim/explore/page_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/files.h"
#include "sim/base/temporary_folder.h"
#include "sim/explore/dropped_kind.h"
#include "tests/error_of.h"
#include "tests/explore/small_run.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Json = nlohmann::ordered_json;

std::string document(const AskedRun& asked, std::string* opened = nullptr) {
  InputCache cache;
  PageRunOptions options{"1.2"};
  if (opened != nullptr) options.opened = [=](const std::string& json) { *opened = json; };
  return page_document(asked, {}, options, cache);
}

std::string complaint(const AskedRun& asked) {
  return error_of([&] { document(asked); });
}

TEST(PageDocument, IsAComparison) {
  std::string opened;
  AskedRun asked = small_run();
  Json pictured = Json::parse(document(asked, &opened));
  EXPECT_EQ(pictured["moesim"], "1.2");
  ASSERT_EQ(pictured["cases"].size(), 2U);
  EXPECT_EQ(pictured["cases"][1]["policy"], "dedup");
  EXPECT_EQ(pictured["cases"][0]["gpus"], 4);
  Json begun = Json::parse(opened);
  Json& cluster = begun["clusters"].front();
  EXPECT_EQ(cluster["gpus"], 4);
  EXPECT_EQ(cluster["hosts"], 2);
  EXPECT_EQ(cluster["keys"]["nodes"], 2);
  EXPECT_EQ(cluster["ep"], 4);
  EXPECT_EQ(begun["model"]["experts"], 32);
  EXPECT_EQ(begun["model"]["top_k"], 4);
  EXPECT_EQ(begun["recorded"], true);
  EXPECT_EQ(begun["scenario"]["tokens_per_rank"], 8);
  asked.pictures = false;
  EXPECT_LT(document(asked).size(), pictured.dump().size());
}

TEST(PageDocument, IsAnExplanationOfOneCase) {
  AskedRun asked = small_run();
  asked.kind = AskedRun::Kind::explain;
  EXPECT_THAT(complaint(asked), HasSubstr("of one topology and one policy"));
  asked.overrides.push_back({"policy", "dedup", "p"});
  EXPECT_THAT(Json::parse(document(asked))["text"].get<std::string>(),
              HasSubstr("forward: the layer in order"));
}

TEST(PageDocument, OfSeveralTopologiesAndPoliciesIsNotExplained) {
  AskedRun asked = small_run();
  asked.kind = AskedRun::Kind::explain;
  asked.overrides = {{"topology", "[hiermoe-a6000, h100-rail]", "t"},
                     {"set", "topology:hiermoe-a6000.nodes=1", "s"},
                     {"set", "topology:h100-rail.nodes=1", "s"}};
  EXPECT_THAT(complaint(asked), HasSubstr("of one topology and one policy")) << "two of each";
}

TEST(PageDocument, SaysWhetherItsRoutingWasRecorded) {
  AskedRun asked = small_run();
  const auto trace = asked.text.find("trace:");
  asked.text.replace(trace, asked.text.find('\n', trace) - trace,
                     "synth: {tokens: 64, sequences: 8}");
  std::string opened;
  document(asked, &opened);
  EXPECT_EQ(Json::parse(opened)["recorded"], false);
}

/// An iteration of a dense model, which plays no choices.
TEST(PageDocument, OfADenseModelHasNoRecordedRouting) {
  AskedRun asked;
  asked.text =
      "topology: hiermoe-a6000\nmodel: llama-3.1-8b\nparallel: {tp: 4}\n"
      "batch: {global: 4, sequence: 128}\n";
  asked.overrides = {{"set", "topology.nodes=1", "page"}};
  std::string opened;
  const Json said = Json::parse(document(asked, &opened));
  EXPECT_EQ(said["cases"].size(), 1U);
  EXPECT_EQ(Json::parse(opened)["recorded"], false);
  asked.kind = AskedRun::Kind::explain;
  EXPECT_THAT(Json::parse(document(asked))["text"].get<std::string>(),
              HasSubstr("parts of the mean GPU of each pipeline stage"));
}

TEST(PageDocument, OfAComparisonTellsThatItIsDone) {
  InputCache cache;
  PageRunOptions options{"1.2"};
  std::vector<double> told;
  options.heard.progress = [&](double done) { told.push_back(done); };
  page_document(small_run(), {}, options, cache);
  ASSERT_FALSE(told.empty());
  EXPECT_TRUE(std::ranges::is_sorted(told));
  EXPECT_EQ(told.back(), 1);
}

TEST(PageScenario, IsTheGivenOneWithItsChanges) {
  const TemporaryFolder folder;
  const GivenScenario given{folder.path() + "/s.yaml",
                            {{"ep", "2", "--ep"}, {"set", "topology.nodes=3", "--set"}}};
  write_file(given.file, small_run().text);
  AskedRun asked;
  asked.base = given_base;
  EXPECT_EQ(scenario_of(asked, given).ep, 2);
  asked.overrides = {{"ep", "4", "page"}, {"set", "topology.nodes=2", "page"}};
  const Scenario scenario = scenario_of(asked, given);
  EXPECT_EQ(scenario.ep, 4) << "the page's instead of the command line's";
  asked.overrides = {{"set", "topology.nodes=2", "page"}, {"ep", "4", "page"}};
  EXPECT_EQ(scenario_of(asked, given).ep, 4) << "in any order";
  GivenScenario unreadable = given;
  unreadable.overrides[0].value = "[";
  EXPECT_EQ(scenario_of(asked, unreadable).ep, 4) << "what it replaces is not read";
  EXPECT_EQ(scenario.overrides_of("topology", "hiermoe-a6000").size(), 2U) << "both";
  asked.text = small_run().text;
  EXPECT_TRUE(scenario_of(asked, given).overrides_of("topology", "hiermoe-a6000").size() == 1U);
}

std::string why_not(const std::string& path) {
  return error_of([&] { dropped_document(path, "1"); });
}

TEST(Dropped, IsOfTheKindThatItsContentHas) {
  const std::string root = MOESIM_ROOT;
  const auto dropped = [&](const std::string& path) {
    return Json::parse(dropped_document(path, "1"));
  };
  Json cluster = dropped(root + "/topologies/h100-rail.yaml");
  EXPECT_EQ(cluster["kind"], "topology");
  EXPECT_EQ(cluster["name"], "h100-rail");
  EXPECT_GT(cluster["gpus"], 1);
  EXPECT_EQ(cluster["path"], root + "/topologies/h100-rail.yaml");
  Json model = dropped(root + "/models/moe/olmoe.yaml");
  EXPECT_EQ(model["kind"], "model");
  EXPECT_EQ(model["experts"], 64);
  EXPECT_EQ(model["top_k"], 8);
  Json scenario = dropped(root + "/scenarios/quickstart.yaml");
  EXPECT_EQ(scenario["kind"], "scenario");
  EXPECT_EQ(scenario["name"], "quickstart");
  EXPECT_EQ(scenario["text"], read_file(root + "/scenarios/quickstart.yaml"));
  Json trace = dropped(root + "/traces/tiny-moe-train");
  EXPECT_EQ(trace["kind"], "trace");
  EXPECT_EQ(trace["experts"], 32);
  EXPECT_EQ(trace["top_k"], 4);
  Json profile = dropped(root + "/tests/fixtures/profiles/timeline.json");
  EXPECT_EQ(profile["kind"], "profile");
  EXPECT_EQ(profile["name"], "timeline.json");
  EXPECT_THAT(profile["text"].get<std::string>(), HasSubstr("recognized"));
}

TEST(Dropped, ResultsAreThoseOfCompare) {
  const TemporaryFolder folder;
  write_file(folder.path() + "/r.json", document(small_run()));
  Json result = Json::parse(dropped_document(folder.path() + "/r.json", "1"));
  EXPECT_EQ(result["kind"], "result");
  EXPECT_EQ(result["name"], "r.json");
}

TEST(Dropped, SaysWhyItIsOfNoKind) {
  const TemporaryFolder folder;
  write_file(folder.path() + "/x.yml", "a: 1\n");
  const std::string why = why_not(folder.path() + "/x.yml");
  for (const char* const kind : {"topology", "scenario", "model"}) {
    EXPECT_THAT(why, HasSubstr(std::string("not a ") + kind + ": "));
  }
  EXPECT_THAT(why, testing::Not(HasSubstr(folder.path())));
  for (const char* const name : {"x.json", "x.json.gz", "x.sqlite"}) {
    write_file(folder.path() + "/" + name, "{}");
    EXPECT_THAT(why_not(folder.path() + "/" + name),
                testing::AllOf(HasSubstr("not a result: "), HasSubstr("not a profile: ")))
        << name;
  }
  write_file(folder.path() + "/y.yaml", "a: 1\n");
  EXPECT_THAT(why_not(folder.path() + "/y.yaml"), HasSubstr("not a scenario: "));
  EXPECT_THAT(why_not(folder.path() + "/x.txt"), HasSubstr("x.txt: the page does not know such"));
}

}  // namespace
}  // namespace moesim
