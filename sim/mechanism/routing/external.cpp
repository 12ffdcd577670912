// SPDX-License-Identifier: Apache-2.0
// A routing rule that a program of the user's decides: docs/external-policies.md has the protocol.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/external/planner_process.h"
#include "sim/mechanism/routing/rewrite.h"

namespace moesim {
namespace {

class ExternalRouting final : public Routing {
 public:
  ExternalRouting(int experts, int ranks, std::unique_ptr<PlannerProcess> process)
      : experts_(experts), process_(std::move(process)) {
    process_->begin({{"do", "begin"}, {"version", 1}, {"experts", experts}, {"ranks", ranks}});
  }

  RoutedTokens apply(const RecordedRouting& recorded, RoutingChange& change) override {
    ids_.copy(recorded);
    nlohmann::ordered_json rows = nlohmann::ordered_json::array(), ranks = rows;
    for_each_batch_token(recorded.batch, [&](const BatchToken& token) {
      const auto row = ids_.row(token.at);
      rows.push_back(std::vector<int>(row.begin(), row.end()));
      ranks.push_back(token.rank.value);
    });
    const auto columns = static_cast<std::size_t>(ids_.top_k());
    const std::vector<int> said = process_->ids({{"do", "route"},
                                                 {"step", recorded.batch.step},
                                                 {"layer", recorded.layer},
                                                 {"ranks", ranks},
                                                 {"ids", rows}},
                                                rows.size(), columns, experts_);
    auto next = said.begin();
    for (std::int64_t token = 0; token < std::ssize(rows); ++token) {
      for (std::uint16_t& id : ids_.row(token)) {
        id = *next < 0 ? IdRows::dropped : static_cast<std::uint16_t>(*next);
        ++next;
      }
    }
    ids_.count_change(recorded, change);
    return ids_.view();
  }

 private:
  int experts_;
  std::unique_ptr<PlannerProcess> process_;
  RewrittenIds ids_;
};

}  // namespace

// command: what the shell runs, once; only with --allow-commands. timeout: of one answer (10 s).
RoutingMaker read_external_routing(const YamlMap& params, PolicySources& sources) {
  const std::string command = params.string("command");
  const Seconds limit = params.seconds("timeout", Seconds(10));
  if (!command.empty()) sources.commands.push_back(command);
  return [command, limit](const RoutingContext& context) {
    return std::make_unique<ExternalRouting>(context.experts, context.groups.size(),
                                             std::make_unique<PlannerProcess>(command, limit));
  };
}

}  // namespace moesim
