// SPDX-License-Identifier: Apache-2.0
// What FLAME-MoE's capture scripts write:
// actives/<model>/<run>/<iteration>/<layer>/<microbatch>-<rank>.pt, each (scores, indices).
#pragma once

#include "sim/import/import_sink.h"

namespace moesim {

/// Hands over the captures of one iteration. The inputs are its folder. Returns false if they hold
/// no captures; throws Error for captures that do not fit each other, as of two iterations.
bool add_flame_captures(ImportSink& sink);

}  // namespace moesim
