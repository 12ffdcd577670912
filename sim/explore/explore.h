// SPDX-License-Identifier: Apache-2.0
// The page of `moesim explore`, served until somebody ends it.
// What the page's server answers:
// - GET /: the page.
// - GET /api/choices: names to choose from, and what the command line gave.
// - POST /api/run: starts a run; answers as GET /api/run does.
// - GET /api/run?id=N&seen=M: its state once that has changed: {id, state, change, progress, note,
//   opened, document or error}.
// - POST /api/cancel?id=N.
// - POST /api/drop?set=S&path=P: keeps a dropped file; POST /api/check?set=S&path=P: says what it
//   is.
// - POST /api/report: a document of --json as an HTML report.
// Errors are {"error": TEXT, "hint": TEXT} with a status of 400 and above.
#pragma once

#include <functional>
#include <string>

#include "sim/explore/access.h"
#include "sim/explore/asked.h"
#include "sim/explore/runs.h"

namespace moesim {

struct PageRoutesOptions {
  std::string version;
  std::string drops;                     // the folder of dropped files
  std::function<std::string()> choices;  // JSON; called once
};

class PageRoutes : public HttpHandler {
 public:
  PageRoutes(Access access, PageRoutesOptions options, Runs& runs);

  std::optional<HttpAnswer> refuse(const HttpRequest& request) override;
  HttpAnswer answer(const HttpRequest& request) override;

 private:
  HttpAnswer answer_known(const HttpRequest& request);
  HttpAnswer state_of(std::int64_t run, std::uint64_t seen);
  HttpAnswer start_run(const HttpRequest& request);
  HttpAnswer keep_drop(const HttpRequest& request);
  HttpAnswer report_of(const HttpRequest& request);

  Access access_;
  PageRoutesOptions options_;
  Runs& runs_;
  std::mutex choosing_;
  std::string choices_;  // once they were asked for
};

/// Where a dropped file is kept below a folder: SET and PATH are words of letters, digits, '.', '-'
/// and '_' that begin with no '.', PATH up to four of them. Throws Error for others.
std::string drop_path(const std::string& folder, const std::string& set, const std::string& path);

constexpr int explore_port = 8642;  // by default, so that shared addresses lead here

struct ExploreOptions {
  std::string version;
  GivenScenario given;
  int port = explore_port;  // 0: any that is free
  int workers = 1;
  std::function<std::string()> choices;                   // JSON of what there is to choose
  std::function<void(const std::string& address)> ready;  // the page can be opened there
};

/// Serves the page on 127.0.0.1 until the parent of this process ends. Throws Error if the port is
/// taken or the library is missing, Interrupted after SIGINT or SIGTERM.
void explore(const ExploreOptions& options);

}  // namespace moesim
