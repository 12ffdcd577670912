// SPDX-License-Identifier: Apache-2.0
// What became of the communicators of a run.
#pragma once

namespace moesim::emulated {

/// What is left of NCCL, over all ranks of a run.
struct FabricState {
  int made = 0;              // communicators
  int live = 0;              // neither destroyed nor aborted
  int groups = 0;            // that were put on streams, captured ones once
  int hung = 0;              // aborts that would have waited for ever
  int destroyed_early = 0;   // while a graph holds messages of it, or a group has not ended
  int put_before_ready = 0;  // groups put while the one before was not on its stream
  int captured_by_one = 0;   // messages of which only one rank replays its end
};
const FabricState& fabric_state();
/// No communicator of before is used again.
void forget_fabric();

}  // namespace moesim::emulated
