// SPDX-License-Identifier: Apache-2.0
// Placements in use that change at a step, and what that moves.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/mechanism/placement/training/training_play.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

/// A placement that changes at step 10. The steps are those from `first` on; a warm-up may have
/// come before.
class Changing {
 public:
  Changing(int first, bool warmed) : model_(toy_model()) {
    write_bytes(folder_ / "a.json", "[0, 1, 2, 3]");
    write_bytes(folder_ / "b.json", "[3, 1, 2, 0]");
    const SystemSpec system = parse_system(
        "{name: t, source: test, routing: identity, dispatch: alltoall, schedule: sequential, "
        "placement: {kind: given, file: {0: a.json, 10: b.json}}}",
        folder_ / "policy.yaml");
    PlacementContext context{
        EpGroups(two_nodes(), 2), model_, model_.experts, 1, false, {}, first, 4, {}};
    context.numbers = {0};
    context.warmed = warmed;
    placer_ = system.placement.make(context);
  }
  /// Whether experts move in a step.
  bool moves(int step) {
    const int gpus = two_nodes().gpu_count();
    std::vector<int> chosen;
    for (int t = 0; t < gpus; ++t) chosen.insert(chosen.end(), {0, 1});
    const Tokens tokens(gpus, model_.experts, 2, 1, chosen, 1);
    const LoadMatrix loads;
    return !placer_->decide({step, 0, tokens.batch, tokens.step->ids(0), loads}).migrate.empty();
  }

 private:
  ScratchFolder folder_;
  MoeModel model_;
  std::unique_ptr<Placer> placer_;
};

TEST(GivenPlacement, ThatChangesMovesExperts) {
  Changing given(9, false);
  EXPECT_FALSE(given.moves(9));
  EXPECT_TRUE(given.moves(10));
  EXPECT_FALSE(given.moves(11));
}

TEST(GivenPlacement, OfTheWarmUpIsTheOneBefore) {
  Changing warm(10, true), cold(10, false), late(11, true);
  EXPECT_TRUE(warm.moves(10)) << "the warm-up had the first placement";
  EXPECT_FALSE(warm.moves(11));
  EXPECT_FALSE(cold.moves(10)) << "nothing was anywhere before";
  EXPECT_FALSE(late.moves(11)) << "it changed in the warm-up";
}

}  // namespace
}  // namespace moesim
