// SPDX-License-Identifier: Apache-2.0
// What the page's addresses answer while runs are simulated by the process that they have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "sim/base/files.h"
#include "sim/base/temporary_folder.h"
#include "sim/explore/explore.h"
#include "tests/explore/small_run.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

/// As the page asks for the small run.
Json asked_json(const char* policy = "alltoall") {
  const AskedRun run = small_run();
  return {{"text", run.text},
          {"flags", {{"policy", policy}}},
          {"set", {run.overrides[0].value, run.overrides[1].value}}};
}

/// Minutes of work.
std::string long_json() {
  return Json{{"base", "iteration"},
              {"flags", {{"policy", {"alltoall", "llep"}}}},
              {"set", {"topology:h100-rail.nodes=256", "batch.global=16384"}}}
      .dump();
}

class Page {
 public:
  explicit Page(GivenScenario given = {}) : given_(std::move(given)) {}
  template <class Actions>
  void while_it_simulates(Actions actions) {
    std::thread asking([&] {
      finish(answer("POST", "/api/run", asked_json().dump()));  // it works by now
      actions();
      ::kill(::getpid(), SIGTERM);
    });
    EXPECT_EQ(runs_.work(), SIGTERM);
    asking.join();
  }
  HttpAnswer ask(const std::string& method, const std::string& path, const std::string& body = "",
                 std::vector<std::pair<std::string, std::string>> query = {},
                 std::vector<std::pair<std::string, std::string>> headers = {}) {
    return routes_.answer({method, path, std::move(query), std::move(headers), body});
  }
  Json answer(const std::string& method, const std::string& path, const std::string& body = "",
              std::vector<std::pair<std::string, std::string>> query = {},
              std::vector<std::pair<std::string, std::string>> headers = {}) {
    const HttpAnswer answer = ask(method, path, body, std::move(query), std::move(headers));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return Json::parse(answer.body);
  }
  /// The state of a run when it has ended.
  Json finish(Json state) {
    while (state["state"] == "waiting" || state["state"] == "running") {
      state = answer("GET", "/api/run", "",
                     {{"id", state["id"].dump()}, {"seen", state["change"].dump()}});
    }
    return state;
  }
  const std::string& drops() const { return drops_.path(); }
  PageRoutes& routes() { return routes_; }
  Runs& runs() { return runs_; }
  int choices_asked() const { return choices_; }

 private:
  TemporaryFolder drops_;
  int choices_ = 0;
  GivenScenario given_;
  Runs runs_{{"1.2", given_, drops_.path(), 1}};
  PageRoutes routes_{
      Access("t", 1), {"1.2", drops_.path(), [this] { return ++choices_, "{\"a\":1}"; }}, runs_};
};

TEST(PageRuns, AreSimulatedAndToldOf) {
  Page page;
  page.while_it_simulates([&] {
    Json state = page.finish(page.answer("POST", "/api/run", asked_json("dedup").dump()));
    EXPECT_EQ(state["state"], "done");
    EXPECT_EQ(state["id"], 2);
    EXPECT_EQ(state["document"]["cases"][0]["policy"], "dedup");
    EXPECT_EQ(state["opened"]["clusters"].front()["gpus"], 4);
    EXPECT_EQ(state["progress"], 1);
    EXPECT_FALSE(state.contains("failure"));
    Json again = page.answer("GET", "/api/run", "", {{"id", "2"}});
    EXPECT_EQ(again, state);
    for (const char* const id : {"2x", " 2", "0", "-2"}) {
      EXPECT_EQ(page.ask("GET", "/api/run", "", {{"id", id}}).status, 404) << id;
    }
    Json wrong = page.finish(page.answer("POST", "/api/run", asked_json("nothing").dump()));
    EXPECT_EQ(wrong["state"], "failed");
    EXPECT_EQ(wrong["failure"]["kind"], "input");
    EXPECT_EQ(wrong["progress"], 0);
    EXPECT_THAT(wrong["failure"]["error"].get<std::string>(), HasSubstr("nothing"));
    EXPECT_FALSE(wrong.contains("document"));
  });
}

TEST(PageRuns, AreCancelledByThePageOrTheNextOne) {
  Page page;
  page.while_it_simulates([&] {
    Json state = page.answer("POST", "/api/run", long_json());
    EXPECT_FALSE(state.contains("document"));
    page.answer("POST", "/api/cancel", "", {{"id", state["id"].dump()}});
    EXPECT_EQ(page.finish(state)["state"], "cancelled");
    const std::vector<std::pair<std::string, std::string>> mine = {{"X-Moesim-Client", "me"}};
    state = page.answer("POST", "/api/run", long_json(), {}, mine);
    Json next = page.answer("POST", "/api/run", asked_json().dump(), {}, mine);
    EXPECT_EQ(page.finish(state)["state"], "cancelled");
    EXPECT_EQ(page.finish(next)["state"], "done");
  });
}

TEST(PageRuns, OfOneClientCancelThoseBeforeThemAlone) {
  Page page;
  Runs& runs = page.runs();  // nobody hands them out
  const auto stage = [&](std::int64_t run) {
    return runs.wait(run, 0, std::chrono::milliseconds(0))->stage;
  };
  using Stage = RunState::Stage;
  const std::int64_t first = runs.start("a", 5, "{}"), other = runs.start("b", 1, "{}"),
                     nobody = runs.start("", -1, "{}"), late = runs.start("a", 4, "{}");
  EXPECT_EQ(stage(late), Stage::cancelled) << "it was overtaken";
  EXPECT_EQ(stage(first), Stage::waiting);
  const std::int64_t newest = runs.start("a", 6, "{}");
  EXPECT_EQ(stage(first), Stage::cancelled);
  EXPECT_EQ(stage(other), Stage::waiting);
  EXPECT_EQ(stage(nobody), Stage::waiting);
  EXPECT_EQ(stage(newest), Stage::waiting);
  EXPECT_EQ(stage(runs.start("a", -1, "{}")), Stage::waiting) << "the newest, if it does not say";
  EXPECT_EQ(stage(newest), Stage::cancelled);
  runs.cancel(other);
  EXPECT_EQ(stage(other), Stage::cancelled);
  EXPECT_EQ(stage(nobody), Stage::waiting);
  EXPECT_EQ(stage(runs.start("b", 1, "{}")), Stage::waiting) << "no newer one";
  EXPECT_EQ(stage(runs.start("b", 0, "{}")), Stage::cancelled);
}

TEST(PageRuns, ThatAreShortAreAnsweredInOneGo) {
  Page page;
  page.while_it_simulates([&] {
    bool at_once = false;  // within 400 ms, which a loaded machine may take for other things
    for (int i = 0; i < 5 && !at_once; ++i) {
      const Json state = page.answer("POST", "/api/run", asked_json("nothing").dump());
      at_once = state["state"] == "failed";
      page.finish(state);
    }
    EXPECT_TRUE(at_once);
  });
}

TEST(PageRuns, ThatWereReplacedWhileTheyWaitedAreNeverSimulated) {
  Page page;
  page.while_it_simulates([&] {
    const std::vector<std::pair<std::string, std::string>> mine = {{"X-Moesim-Client", "me"}};
    Json busy = page.answer("POST", "/api/run", long_json());
    const Json first = page.answer("POST", "/api/run", asked_json().dump(), {}, mine);
    EXPECT_EQ(first["state"], "waiting");
    const Json next = page.answer("POST", "/api/run", asked_json().dump(), {}, mine);
    page.answer("POST", "/api/cancel", "", {{"id", busy["id"].dump()}});
    EXPECT_EQ(page.finish(next)["state"], "done");
    EXPECT_EQ(page.finish(first)["state"], "cancelled");
    EXPECT_EQ(page.finish(first)["progress"], 0);
  });
}

TEST(PageRuns, ThatTakeLongSayHowLong) {
  Page page;
  page.while_it_simulates([&] {
    const Json flows = {{"base", "quickstart"},
                        {"flags",
                         {{"topology", "h100-rail"},
                          {"policy", "alltoall"},
                          {"fidelity", "flow"},
                          {"repeat", 512},
                          {"steps", "0:20"}}},
                        {"set", {"topology:h100-rail.nodes=128"}}};
    Json state = page.answer("POST", "/api/run", flows.dump());
    for (int i = 0; i < 100 && state["note"] == ""; ++i) {
      state = page.answer("GET", "/api/run", "",
                          {{"id", state["id"].dump()}, {"seen", state["change"].dump()}});
    }
    EXPECT_THAT(state["note"].get<std::string>(),
                testing::StartsWith("h100-rail alltoall flow: likely to take "));
    page.answer("POST", "/api/cancel", "", {{"id", state["id"].dump()}});
    EXPECT_EQ(page.finish(state)["state"], "cancelled");
  });
}

TEST(PageRuns, MayExplain) {
  Page page;
  page.while_it_simulates([&] {
    Json asked = asked_json();
    asked["kind"] = "explain";
    const Json state = page.finish(page.answer("POST", "/api/run", asked.dump()));
    EXPECT_THAT(state["document"]["text"].get<std::string>(), HasSubstr("the layer in order"));
  });
}

TEST(PageRuns, MayReadAllOfTheGivenTrace) {
  const TemporaryFolder folder;
  const std::string traces = MOESIM_ROOT "/traces";
  std::filesystem::copy(traces + "/tiny-moe-train", folder.path() + "/mine",
                        std::filesystem::copy_options::recursive);
  const std::string file = folder.path() + "/s.yaml";
  std::string text = small_run().text;
  write_file(file, text.replace(text.find(traces), traces.size() + 15, folder.path() + "/mine"));
  for (const bool is_changed : {true, false}) {
    GivenScenario given{file, {}};
    if (is_changed) given.overrides = {{"set", "topology.nodes=1", "--set"}};
    Page page(given);
    page.while_it_simulates([&] {
      const Json asked = {{"base", given_base},
                          {"flags", {{"policy", "alltoall"}, {"steps", "3"}}}};
      const Json state = page.finish(page.answer("POST", "/api/run", asked.dump()));
      EXPECT_EQ(state["state"], "done") << state;
    });
  }
}

TEST(PageRuns, ThatHaveEndedAreToldOfAtOnce) {
  Page page;
  Runs& runs = page.runs();
  const std::int64_t run = runs.start("", -1, "{}");
  runs.cancel(run);
  const auto before = std::chrono::steady_clock::now();
  EXPECT_EQ(runs.wait(run, 9, std::chrono::seconds(20))->stage, RunState::Stage::cancelled);
  EXPECT_FALSE(runs.wait(run + 1, 0, std::chrono::seconds(20)));
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(10));
}

TEST(PageRuns, AreWaitedForUntilTheyChangeOrThePageCloses) {
  Page page;
  Runs& runs = page.runs();
  const auto waited = [&](std::chrono::milliseconds longest) {
    const auto before = std::chrono::steady_clock::now();
    EXPECT_EQ(runs.wait(runs.start("", -1, "{}"), 0, longest)->stage, RunState::Stage::waiting);
    return std::chrono::steady_clock::now() - before;
  };
  EXPECT_GE(waited(std::chrono::milliseconds(30)), std::chrono::milliseconds(30));
  page.while_it_simulates([] {});
  EXPECT_LT(waited(std::chrono::seconds(20)), std::chrono::seconds(10));
}

int open_files() {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

TEST(PageRuns, LeaveNeitherProcessesNorFiles) {
  const int before = open_files();
  { const Page page; }
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "no child";
  EXPECT_EQ(open_files(), before);
}

TEST(PageRuns, ThatEndedLongAgoAreForgotten) {
  Page page;
  Runs& runs = page.runs();
  const std::int64_t waiting = runs.start("", -1, "{}");
  for (int i = 0; i < 40; ++i) runs.cancel(runs.start("", -1, "{}"));
  const auto there = [&](std::int64_t run) {
    return runs.wait(run, 0, std::chrono::milliseconds(0)).has_value();
  };
  EXPECT_TRUE(there(waiting));
  EXPECT_FALSE(there(waiting + 1));
  EXPECT_FALSE(there(waiting + 9));
  EXPECT_TRUE(there(waiting + 10)) << "32 are kept";
  EXPECT_FALSE(there(waiting + 41));
}

TEST(PageFiles, AreDroppedCheckedAndMadeReports) {
  Page page;
  page.while_it_simulates([&] {
    const std::vector<std::pair<std::string, std::string>> where = {{"set", "s1"},
                                                                    {"path", "d/mine.yaml"}};
    page.answer("POST", "/api/drop", small_run().text, where);
    EXPECT_EQ(read_file(page.drops() + "/s1/d/mine.yaml"), small_run().text);
    Json checked = page.finish(page.answer("POST", "/api/check", "", where));
    EXPECT_EQ(checked["state"], "done");
    EXPECT_EQ(checked["document"]["kind"], "scenario");
    Json state = page.finish(page.answer("POST", "/api/run", asked_json().dump()));
    const HttpAnswer report = page.ask("POST", "/api/report", state["document"].dump());
    EXPECT_EQ(report.status, 200);
    EXPECT_EQ(report.type, "text/html; charset=utf-8");
    EXPECT_THAT(report.headers,
                testing::Contains(std::pair<std::string, std::string>(
                    "Content-Disposition", "attachment; filename=moesim-report.html")));
    EXPECT_THAT(report.body, HasSubstr("moesim-report"));
  });
}

TEST(PageAddresses, AreThePageItsChoicesAndNothingElse) {
  Page page;
  const HttpAnswer shown = page.ask("GET", "/");
  EXPECT_EQ(shown.type, "text/html; charset=utf-8");
  EXPECT_THAT(shown.body, HasSubstr("<html"));
  EXPECT_EQ(page.answer("GET", "/api/choices"), (Json{{"a", 1}}));
  page.ask("GET", "/api/choices");
  EXPECT_EQ(page.choices_asked(), 1);
  EXPECT_EQ(page.ask("GET", "/nothing").status, 404);
  EXPECT_EQ(page.ask("POST", "/").status, 404);
  for (const char* const id : {"7", "", "x", "1x"}) {
    EXPECT_EQ(page.ask("GET", "/api/run", "", {{"id", id}}).status, 404) << id;
  }
  EXPECT_EQ(page.ask("POST", "/api/run", "{\"kind\": \"x\"}").status, 400);
  EXPECT_EQ(page.ask("POST", "/api/report", "{}").status, 400);
  EXPECT_EQ(page.ask("POST", "/api/drop", "x", {{"set", "s"}, {"path", "../x"}}).status, 400);
  EXPECT_EQ(page.routes().refuse({"GET", "/", {}, {}})->status, 403);
}

}  // namespace
}  // namespace moesim
