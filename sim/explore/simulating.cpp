// SPDX-License-Identifier: Apache-2.0
#include "sim/explore/simulating.h"

#include <fmt/format.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <utility>

#include "sim/base/data_files.h"
#include "sim/base/error.h"
#include "sim/base/json.h"
#include "sim/base/permitted_files.h"
#include "sim/base/processes.h"
#include "sim/base/stop_signals.h"
#include "sim/explore/dropped_kind.h"
#include "sim/explore/page_run.h"
#include "sim/scenario/inputs.h"
#include "sim/trace/synth/drawn_trace.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* data_folders[] = {"models",    "topologies", "transports",
                                        "scenarios", "traces",     "papers"};

void ignore_cancelling(int) {}

/// A cancellation that comes between two requests means none of them; Ctrl-C is the parent's.
void settle_signals() {
  ::signal(SIGINT, SIG_IGN);
  struct sigaction pass = {};
  pass.sa_handler = ignore_cancelling;
  ::sigaction(SIGTERM, &pass, nullptr);
}

/// Reads the given scenario and its inputs before anything is limited, so that all files that they
/// name stay readable; what is wrong with them is said when the page asks.
void open_given(const GivenScenario& given, InputCache& cache, std::vector<std::string>& folders) {
  if (given.file.empty() && given.overrides.empty()) return;
  keep_read_files_permitted();
  try {
    AskedRun asked;
    asked.base = given_base;
    const Scenario scenario = scenario_of(asked, given);
    folders.push_back(scenario.trace);
    open_shared_inputs(scenario, cache);
  } catch (const std::exception&) {
    return;
  }
}

class PageWorker {
 public:
  PageWorker(const SimulatingOptions& options, int out) : options_(options), out_(out) {
    std::vector<std::string> paths = {options.drops};
    open_given(options.given, cache_, paths);
    for (const std::string& root : data_roots()) {
      for (const char* folder : data_folders) paths.push_back(root + "/" + folder);
    }
    if (const std::string drawn = drawn_folder(); !drawn.empty()) paths.push_back(drawn);
    permit_only(paths);
  }

  /// False if nobody reads any more.
  bool answer(const std::string& request) {
    const StopSignals signals;
    try {
      const std::string document = document_of(request);
      return say(PageNews::document, document);
    } catch (const Interrupted&) {
      return say(PageNews::cancelled, "");
    } catch (const Error& e) {
      return say_error(e.what(), "input");
    } catch (const std::exception& e) {
      return say_error(cause_of(e), "failure");
    }
  }

 private:
  bool say(PageNews what, const std::string& text) const {
    return write_frame(out_, static_cast<char>(what) + text);
  }

  bool say_error(const std::string& text, const char* kind) const {
    const Json said = {{"error", text}, {"kind", kind}};
    return say(PageNews::error, said.dump(-1, ' ', false, Json::error_handler_t::replace));
  }

  std::string document_of(const std::string& request) {
    const Json asked = parse_json(request, {"request"});
    if (asked.is_object() && asked.contains("check")) {
      return dropped_document(asked["check"].get<std::string>(), options_.version);
    }
    PageRunOptions run{options_.version, options_.workers};
    run.heard.progress = [this](double done) {
      say(PageNews::progress, fmt::format("{:.4f}", done));
    };
    run.heard.note = [this](const std::string& job, const std::string& text) {
      say(PageNews::note, job + ": " + text);
    };
    run.opened = [this](const std::string& json) { say(PageNews::opened, json); };
    return page_document(read_asked(request), options_.given, run, cache_);
  }

  const SimulatingOptions& options_;
  int out_;
  InputCache cache_;
};

}  // namespace

bool simulate_for_page(const SimulatingOptions& options, int in, int out) {
  settle_signals();
  PageWorker worker(options, out);
  std::string bytes;
  do {
    while (const auto request = next_frame(bytes)) {
      if (!worker.answer(*request)) return false;
    }
  } while (read_more(in, bytes));
  return true;
}

std::string check_request(const std::string& path) { return Json{{"check", path}}.dump(); }

}  // namespace moesim
