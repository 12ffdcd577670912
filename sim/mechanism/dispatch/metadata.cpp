// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/dispatch/metadata.h"

#include <memory>

namespace moesim {
namespace {

constexpr int count_bytes = 8;        // int64
constexpr int probability_bytes = 4;  // fp32

/// Everybody of an EP group, whatever the phases are.
std::shared_ptr<const Communicators> whole_groups(const EpGroups& groups) {
  std::vector<Communicators> all;
  for (const RankSpace& ranks : groups.spaces()) all.push_back(ranks.all());
  std::vector<const Communicators*> of_group;
  for (const Communicators& communicators : all) of_group.push_back(&communicators);
  return std::make_shared<const Communicators>(groups.lifted(of_group));
}

}  // namespace

DispatchMetadata read_metadata(const YamlMap& dispatch) {
  const auto value = dispatch.find("metadata");
  if (!value) return {};
  const YamlMap params = value->map();
  const DispatchMetadata metadata{params.boolean("counts", false), params.boolean("probs", false),
                                  params.seconds("host_wait", Seconds(0))};
  if (!metadata.counts) {
    if (const auto wait = params.find("host_wait")) {
      wait->error("'" + wait->path() + "' has no effect: there are no counts to read",
                  "say counts: true, or leave 'host_wait' out");
    }
  }
  return metadata;
}

void add_metadata(Dispatch& dispatch, const DispatchMetadata& metadata,
                  const DispatchContext& context, bool merged) {
  if (!metadata.counts && !metadata.probs) return;
  const MoeModel& model = context.model;
  const auto whole = whole_groups(context.groups);
  SideExchange counts{"counts", Bytes(0), Bytes(count_bytes * model.experts), true, metadata.host};
  const SideExchange probs{"probs", Bytes(probability_bytes * (merged ? model.top_k : 1)),
                           Bytes(0)};
  dispatch.change_shapes([&, counts](DispatchShape& shape) mutable {
    auto& forward = shape.wire(Stage::dispatch, Pass::forward).sides;
    counts.among = shape.phase(0).communicators == *whole ? nullptr : whole;
    if (metadata.counts) forward.push_back(counts);
    if (!metadata.probs) return;
    forward.push_back(probs);
    shape.wire(Stage::combine, Pass::backward).sides.push_back(probs);
  });
}

}  // namespace moesim
