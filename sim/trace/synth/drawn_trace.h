// SPDX-License-Identifier: Apache-2.0
// Synthetic traces that are drawn when they are needed, and kept for the next time.
#pragma once

#include <string>

#include "sim/trace/routing_trace.h"
#include "sim/trace/synth/synth_reader.h"

namespace moesim {

/// The folder name of a drawn trace: a hash of the options and the drawing code's version.
std::string drawn_name(const SynthOptions& options);

/// The folder that drawn traces are kept in: moesim/traces below $XDG_CACHE_HOME, else below
/// ~/.cache; empty if there is no such place.
std::string drawn_folder();

/// - The trace of the options, named by synth_title.
/// - It is drawn once, whichever program asks first, and read from drawn_folder() after that.
/// - A killed draw leaves nothing behind, and a damaged trace is drawn again: its ids need no
/// check.
/// - If nothing can be kept there, it is in memory.
/// - Throws Error for impossible options.
RoutingTrace drawn_trace(const SynthOptions& options);

}  // namespace moesim
