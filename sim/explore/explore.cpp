// SPDX-License-Identifier: Apache-2.0
#include "sim/explore/explore.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/read_number.h"
#include "sim/base/stop_signals.h"
#include "sim/base/temporary_folder.h"
#include "sim/html/explore_page.h"
#include "sim/html/report_page.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::chrono::milliseconds first_wait(400), later_wait(2000);
constexpr std::uint64_t unseen = 0;
constexpr std::size_t most_words = 4, most_letters = 100;

const char* name_of(RunState::Stage stage) {
  static constexpr const char* names[] = {"waiting", "running", "done", "failed", "cancelled"};
  return names[static_cast<std::size_t>(stage)];
}

HttpAnswer page_answer(std::string body, std::string type = "application/json") {
  return {200, std::move(type), std::move(body), page_headers()};
}

/// -1 if a text is none.
std::int64_t number_of(const std::string& text) {
  return parse_integer<std::int64_t>(text).value_or(-1);
}

std::int64_t number_in(const HttpRequest& request, const std::string& key) {
  return number_of(request.parameter(key));
}

std::string first_header(const HttpRequest& request, const char* name) {
  const auto values = request.header(name);
  return values.empty() ? "" : values.front();
}

bool is_word(const std::string& word) {
  const auto fits = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
  };
  return !word.empty() && word.size() <= most_letters && word.front() != '.' &&
         std::ranges::all_of(word, fits);
}

/// Documents are long: they are put in as they are.
std::string state_json(std::int64_t run, const RunState& state) {
  Json json = {{"id", run},
               {"state", name_of(state.stage)},
               {"change", state.change},
               {"progress", state.progress},
               {"note", state.note}};
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.pop_back();
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) text += fmt::format(",\"{}\":{}", key, value);
  };
  add("opened", state.opened);
  add("document", state.document);
  add("failure", state.error);
  return text + "}";
}

/// The port is known only once it is bound, and the checks need it.
class LateHandler : public HttpHandler {
 public:
  void take(HttpHandler& handler) { handler_ = &handler; }
  std::optional<HttpAnswer> refuse(const HttpRequest& request) override {
    return handler_->refuse(request);
  }
  HttpAnswer answer(const HttpRequest& request) override { return handler_->answer(request); }

 private:
  HttpHandler* handler_ = nullptr;
};

/// Serves in a thread of its own while it lives.
class Serving {
 public:
  explicit Serving(HttpServer& server) : server_(server), thread_([&server] { server.serve(); }) {}
  ~Serving() {
    server_.stop();
    thread_.join();
  }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

 private:
  HttpServer& server_;
  std::thread thread_;
};

int bound(HttpServer& server, int asked) {
  const int port = server.bind(asked);
  if (port != -1) return port;
  throw Error(fmt::format("port {} is taken", asked),
              "--port N chooses another one, --port 0 any that is free");
}

}  // namespace

std::string drop_path(const std::string& folder, const std::string& set, const std::string& path) {
  std::vector<std::string> words;
  std::istringstream parts(path);
  for (std::string word; std::getline(parts, word, '/');) words.push_back(word);
  const bool good = is_word(set) && !words.empty() && words.size() <= most_words &&
                    !path.ends_with('/') && std::ranges::all_of(words, is_word);
  if (!good) {
    throw Error(
        "a dropped path is 1 to 4 names of up to 100 letters, digits, '.', '-' and '_' and "
        "begins with no '.'");
  }
  return folder + "/" + set + "/" + path;
}

PageRoutes::PageRoutes(Access access, PageRoutesOptions options, Runs& runs)
    : access_(std::move(access)), options_(std::move(options)), runs_(runs) {}

std::optional<HttpAnswer> PageRoutes::refuse(const HttpRequest& request) {
  return access_.check(request);
}

HttpAnswer PageRoutes::answer(const HttpRequest& request) {
  try {
    return answer_known(request);
  } catch (const Error& e) {
    const Diagnostic& first = e.diagnostics().front();
    return refusal(400, first.message, first.hint);
  } catch (const std::exception& e) {
    return refusal(500, e.what());
  }
}

HttpAnswer PageRoutes::answer_known(const HttpRequest& request) {
  const std::string what = request.method + " " + request.path;
  if (what == "GET /") return page_answer(std::string(explore_page), "text/html; charset=utf-8");
  if (what == "GET /api/choices") {
    const std::lock_guard guard(choosing_);
    if (choices_.empty()) choices_ = options_.choices();
    return page_answer(choices_);
  }
  if (what == "POST /api/run") return start_run(request);
  if (what == "GET /api/run") {
    const std::int64_t seen = number_in(request, "seen");
    return state_of(number_in(request, "id"),
                    static_cast<std::uint64_t>(std::max<std::int64_t>(seen, 0)));
  }
  if (what == "POST /api/cancel") {
    runs_.cancel(number_in(request, "id"));
    return page_answer("{}");
  }
  if (what == "POST /api/drop") return keep_drop(request);
  if (what == "POST /api/check") {
    const std::string path =
        drop_path(options_.drops, request.parameter("set"), request.parameter("path"));
    return state_of(runs_.start("", -1, check_request(path)), unseen);
  }
  if (what == "POST /api/report") return report_of(request);
  return refusal(404, "there is nothing here");
}

HttpAnswer PageRoutes::start_run(const HttpRequest& request) {
  read_asked(request.body);  // says what is wrong with it at once
  const std::int64_t asked = number_of(first_header(request, "X-Moesim-Asked"));
  const std::int64_t run =
      runs_.start(first_header(request, "X-Moesim-Client"), asked, request.body);
  // Quick runs are answered in one go; of others the page hears how far they are.
  const auto until = std::chrono::steady_clock::now() + first_wait;
  std::optional<RunState> state = runs_.wait(run, unseen, first_wait);
  while (state && !state->ended() && std::chrono::steady_clock::now() < until) {
    state = runs_.wait(run, state->change,
                       std::chrono::duration_cast<std::chrono::milliseconds>(
                           until - std::chrono::steady_clock::now()));
  }
  if (!state) return refusal(404, "there is no such run");
  return page_answer(state_json(run, *state));
}

HttpAnswer PageRoutes::state_of(std::int64_t run, std::uint64_t seen) {
  const std::optional<RunState> state = runs_.wait(run, seen, later_wait);
  if (!state) return refusal(404, "there is no such run");
  return page_answer(state_json(run, *state));
}

HttpAnswer PageRoutes::keep_drop(const HttpRequest& request) {
  const std::string path =
      drop_path(options_.drops, request.parameter("set"), request.parameter("path"));
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  write_file(path, request.body);
  return page_answer("{}");
}

HttpAnswer PageRoutes::report_of(const HttpRequest& request) {
  HttpAnswer answer =
      page_answer(report_page({{"", request.body}}, options_.version), "text/html; charset=utf-8");
  answer.headers.emplace_back("Content-Disposition", "attachment; filename=moesim-report.html");
  return answer;
}

void explore(const ExploreOptions& options) {
  const TemporaryFolder drops;
  // Its process is made before there are threads and sockets, which it would inherit.
  Runs runs({options.version, options.given, drops.path(), options.workers});
  const StopSignals from_here_on;  // who knows the address may end it
  LateHandler handler;
  const auto server = make_http_server(handler);
  const int port = bound(*server, options.port);
  const std::string token = random_token();
  PageRoutes routes(Access(token, port), {options.version, drops.path(), options.choices}, runs);
  handler.take(routes);
  const int signal = [&] {
    const Serving serving(*server);
    options.ready(fmt::format("http://127.0.0.1:{}/?token={}", port, token));
    return runs.work();
  }();
  if (signal != 0) throw Interrupted(signal, "the page is closed");
}

}  // namespace moesim
