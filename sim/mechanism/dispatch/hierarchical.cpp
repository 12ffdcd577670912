// SPDX-License-Identifier: Apache-2.0
// Hierarchical all-to-all, outside-in: HD-d of HierMoE with deduplication at every level (one row
// per token and group), H-d without it. Lin et al., arXiv 2508.09591, sections 1.1 and 1.2.
#include "sim/mechanism/dispatch/hierarchical.h"

#include <fmt/format.h>

#include "sim/base/figures.h"
#include "sim/base/unsuitable.h"
#include "sim/mechanism/depth_model.h"
#include "sim/mechanism/dispatch/metadata.h"
#include "sim/mechanism/dispatch/padding.h"
#include "sim/mechanism/mechanisms.h"

namespace moesim {
namespace {

/// Which levels there are: all of the cluster, or only its hosts.
enum class HopLevels { cluster, hosts };

RankSpace levels_of(const RankSpace& ranks, HopLevels levels) {
  return levels == HopLevels::hosts ? ranks.by_hosts() : ranks;
}

/// A fixed depth must fit the cluster.
void check_depth(int depth, const EpGroups& groups, HopLevels levels) {
  const int deepest = levels_of(groups.ranks(0), levels).depth();
  if (depth <= deepest) return;
  throw Unsuitable(fmt::format("'dispatch.depth' is {}, but {} on '{}' nest{} only {} deep", depth,
                               counted(groups.size(), "rank"), groups.cluster(),
                               groups.size() == 1 ? "s" : "", deepest),
                   "moesim topology show prints the levels");
}

/// `equal`: every phase moves equal parts.
std::unique_ptr<Dispatch> of_depth(const DispatchContext& context, int depth, bool dedup,
                                   bool equal, HopLevels levels = HopLevels::cluster) {
  const auto made = [&](const RankSpace& ranks) {
    return Hierarchical(levels_of(ranks, levels), depth, dedup);
  };
  auto dispatch = in_every_group(context, made);
  if (!equal) return dispatch;
  std::vector<DispatchShape> shapes;
  for (const RankSpace& ranks : context.groups.spaces()) {
    shapes.push_back(made(ranks).shape(context.model));
  }
  pad_phases(*dispatch, std::move(shapes));
  return dispatch;
}

std::unique_ptr<Dispatch> of_best_depth(const DispatchContext& context, bool dedup, bool equal,
                                        CountReading reading) {
  auto model = std::make_shared<DepthModel>(
      context.groups, nesting_of(context.groups, "'dispatch.depth' cannot be automatic"),
      dedup ? Copies::per_group : Copies::per_choice, reading, context.model.row_bytes());
  std::vector<std::unique_ptr<Dispatch>> by_depth;
  for (int d = 1; d <= context.groups.ranks(0).depth(); ++d) {
    by_depth.push_back(of_depth(context, d, dedup, equal));
  }
  return std::make_unique<Dispatch>(std::move(by_depth), [model](const LayerTokens& tokens) {
    return static_cast<std::size_t>(model->best(tokens) - 1);
  });
}

}  // namespace

// depth: a number or auto; levels: of the cluster (default), or only hosts, for a given depth;
// dedup: HD or H; counts: how auto reads uneven counts (mean or max); padding: none, or max: equal
// parts, as the paper's cost model counts them; metadata: see read_metadata.
DispatchMaker read_hierarchical(const YamlMap& params) {
  const bool dedup = params.boolean("dedup", true);
  const auto depth_value = params.find("depth");
  const bool automatic =
      !depth_value || (depth_value->is_scalar() && depth_value->string() == "auto");
  const int depth = automatic ? 0 : static_cast<int>(depth_value->integer({1, 16}));
  const auto counts = params.find("counts");
  const auto reading = static_cast<CountReading>(counts ? counts->choice({"mean", "max"}) : 0);
  if (counts && !automatic) {
    counts->error("'dispatch.counts' has no effect: the depth is given",
                  "say depth: auto, or leave 'counts' out");
  }
  const auto levels = static_cast<HopLevels>(params.choice("levels", {"cluster", "hosts"}, 0));
  if (levels == HopLevels::hosts && automatic) {
    params.find("levels")->error("'dispatch.levels: hosts' needs a depth",
                                 "give 'depth', 1 or 2: auto knows the levels of the cluster");
  }
  const bool equal = params.choice("padding", {"none", "max"}, 0) == 1;
  const DispatchMetadata metadata = read_metadata(params);
  return [=](const DispatchContext& context) -> std::unique_ptr<Dispatch> {
    if (!automatic) check_depth(depth, context.groups, levels);
    auto dispatch = automatic ? of_best_depth(context, dedup, equal, reading)
                              : of_depth(context, depth, dedup, equal, levels);
    add_metadata(*dispatch, metadata, context, dedup);
    return dispatch;
  };
}

}  // namespace moesim
