// SPDX-License-Identifier: Apache-2.0
// moesim explore: a page in the browser that simulates while a slider is dragged.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "sim/base/data_files.h"
#include "sim/base/json.h"
#include "sim/cli/commands.h"
#include "sim/cli/version.h"
#include "sim/explore/explore.h"
#include "sim/flags/scenario_flags.h"
#include "sim/planner/system.h"
#include "sim/run/worker_count.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* first_scenario = "quickstart";

/// Keys of placements that give a GPU more slots than it needs; each policy reads some of them.
constexpr const char* slot_keys[] = {"placement.slots", "placement.slots_per_gpu",
                                     "placement.redundant_experts"};

Json knobs_of(const std::string& policy) {
  Json knobs = Json::array();
  const std::string path = data_file("models/system", policy);
  for (const char* key : slot_keys) {
    try {
      read_system(path, {{key, "1", key}});
      knobs.push_back(key);
    } catch (const Error&) {
      continue;  // the policy has no such key
    }
  }
  return knobs;
}

std::string choices_json(const std::string& given) {
  Json choices = own_json(listed_json({"scenarios", "topologies", "models", "traces", "policies"}));
  for (Json& policy : choices["policies"]) {
    policy["knobs"] = knobs_of(policy["policy"].get<std::string>());
  }
  choices["given"] = given;
  choices["first"] = first_scenario;
  choices["moesim"] = MOESIM_VERSION;
  return choices.dump();
}

struct ExploreFlags {
  ScenarioFlags scenario;
  int port = explore_port, workers = 0;
};

void explore_scenario(const ExploreFlags& flags) {
  ExploreOptions options;
  options.version = MOESIM_VERSION;
  options.given = {flags.scenario.file(), flags.scenario.overrides()};
  const bool is_given = !options.given.file.empty() || !options.given.overrides.empty();
  // What is wrong with it is said here, and not only on the page.
  if (is_given) flags.scenario.read();
  const std::string name = options.given.file.empty() ? "flags" : options.given.file;
  options.port = flags.port;
  options.workers = worker_count(flags.workers);
  options.choices = [given = is_given ? name : ""] { return choices_json(given); };
  options.ready = [](const std::string& address) {
    fmt::print("{}\n", address);
    fmt::print(stderr,
               "Open this address in a browser on this machine; Ctrl-C ends it.\n"
               "From another one: ssh -L PORT:127.0.0.1:PORT to this machine, PORT as above.\n");
    std::fflush(stdout);
  };
  explore(options);
}

}  // namespace

void add_explore_command(CommandLine& app) {
  const auto flags = std::make_shared<ExploreFlags>();
  CommandLine command =
      app.add_subcommand("explore", "Opens a local page that simulates while you drag a slider");
  flags->scenario.add_to(command);
  command
      .add_option("--port", flags->port,
                  fmt::format("of 127.0.0.1 (default {}); 0: any that is free", explore_port))
      .range(0, 65535);
  command.add_option("--workers", flags->workers, "processes to use (default: all cores)")
      .range(1, 1024);
  command.callback([flags] { explore_scenario(*flags); });
}

}  // namespace moesim
