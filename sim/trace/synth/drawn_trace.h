// SPDX-License-Identifier: Apache-2.0
// Synthetic traces that are drawn when they are needed, and kept for the next time.
#pragma once

#include <string>

#include "sim/trace/routing_trace.h"
#include "sim/trace/synth/synth_options.h"

namespace moesim {

/// What tells a drawn trace from any other: a hash of all options and of how they are drawn.
std::string drawn_name(const SynthOptions& options);

/// The folder that drawn traces are kept in: moesim/traces below $XDG_CACHE_HOME, else below
/// ~/.cache; empty if there is no such place.
std::string drawn_folder();

/// - The trace of the options, named by synth_title.
/// - It is drawn once, whichever program asks first, and read from drawn_folder() after that.
/// - What is killed while it draws leaves no trace; what is damaged is drawn again. So its ids need
///   no check.
/// - If nothing can be kept there, it is in memory.
/// - Throws Error for options that cannot be.
RoutingTrace drawn_trace(const SynthOptions& options);

}  // namespace moesim
