// SPDX-License-Identifier: Apache-2.0
// moesim explore as its page asks it.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/cli/run.h"

namespace moesim {
namespace {

using testing::HasSubstr;

/// A moesim explore on any free port, until this goes.
class ExploredPage {
 public:
  explicit ExploredPage(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"explore", "--port", "0"});
    process_ = std::make_unique<Running>(
        more, Surroundings{.data = MOESIM_ROOT, .output = scratch_.file("out")});
    for (int i = 0; i < 10'000 && address().empty() && !process_->members().empty(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  ~ExploredPage() { end(); }
  ExploredPage(const ExploredPage&) = delete;
  ExploredPage& operator=(const ExploredPage&) = delete;

  /// Its address, or nothing where there is no page.
  std::string address() const {
    const std::string text = content(scratch_.file("out"));
    return text.ends_with('\n') ? text.substr(0, text.find('\n')) : "";
  }
  /// What is answered, without the headers.
  std::string ask(const std::string& method, const std::string& path,
                  const std::string& body = "") const {
    const std::string from = address(), host = from.substr(7, from.find("/?") - 7);
    const std::string all = sent_to(
        std::stoi(host.substr(host.find(':') + 1)),
        fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\nX-Moesim-Token: {}\r\nConnection: close\r\n"
                    "Content-Length: {}\r\n\r\n{}",
                    method, path, host, from.substr(from.find('=') + 1), body.size(), body));
    EXPECT_THAT(all, testing::StartsWith("HTTP/1.1 200 "));
    return all.substr(all.find("\r\n\r\n") + 4);
  }

 private:
  static std::string sent_to(int port, const std::string& request) {
    const int connection = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::string answer;
    if (::connect(connection, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 &&
        ::send(connection, request.data(), request.size(), 0) > 0) {
      std::string part(1 << 16, '\0');
      for (ssize_t got = 0; (got = ::recv(connection, part.data(), part.size(), 0)) > 0;) {
        answer.append(part, 0, static_cast<std::size_t>(got));
      }
    }
    ::close(connection);
    return answer;
  }
  void end() const {
    ::kill(process_->pid(), SIGTERM);
    process_->wait();
  }
  const Scratch scratch_;
  std::unique_ptr<Running> process_;
};

TEST(ExploreCommand, OffersWhatListSaysAndTheSlotsOfEveryPlacement) {
  const ExploredPage page;
  if (page.address().empty()) GTEST_SKIP() << "needs cpp-httplib";
  const auto choices = nlohmann::json::parse(page.ask("GET", "/api/choices"));
  std::map<std::string, nlohmann::json> knobs;
  for (const auto& policy : choices["policies"]) knobs[policy["policy"]] = policy["knobs"];
  const auto no_knobs = nlohmann::json::array();
  EXPECT_EQ(knobs["laer"], nlohmann::json({"placement.slots"}));
  EXPECT_EQ(knobs["eplb"], nlohmann::json({"placement.slots_per_gpu"}));
  EXPECT_EQ(knobs["alltoall"], no_knobs);
  EXPECT_EQ(choices["first"], "quickstart");
  EXPECT_EQ(choices["given"], "");
  for (const char* list : {"scenarios", "topologies", "models", "traces"}) {
    EXPECT_FALSE(choices[list].empty()) << list;
  }
}

TEST(ExploreCommand, BeginsWithWhatIsGiven) {
  const ExploredPage of_file({"iteration"}),
      of_flags({"--topology", "h100-rail", "--model", "gpt-oss-20b", "--policy", "alltoall",
                "--set", "synth={tokens: 4096, steps: 1}"});
  if (of_file.address().empty()) GTEST_SKIP() << "needs cpp-httplib";
  const auto given = [](const ExploredPage& page) {
    return nlohmann::json::parse(page.ask("GET", "/api/choices"))["given"];
  };
  EXPECT_EQ(given(of_file), "iteration");
  EXPECT_EQ(given(of_flags), "flags");
}

// Who reads a report later knows what drew it.
TEST(ExploreCommand, ReportsNameTheVersionThatDrewThem) {
  const ExploredPage page;
  if (page.address().empty()) GTEST_SKIP() << "needs cpp-httplib";
  const auto line = run_moesim({"--version"}).out;
  const std::string version = line.substr(line.rfind(' ') + 1, line.size() - line.rfind(' ') - 2);
  auto result = nlohmann::ordered_json::parse(
      run_moesim(on_hand_trace("run", "pair", {"dedup"}, {"--json", "-", "-q"})).out);
  EXPECT_EQ(result["moesim"], version);
  result["moesim"] = "0.1.0";
  EXPECT_THAT(page.ask("POST", "/api/report", result.dump()),
              testing::ContainsRegex("\"moesim-report\",\"format_version\": *1,\"moesim\": *\"" +
                                     version.substr(0, version.find('+'))));
}

}  // namespace
}  // namespace moesim
