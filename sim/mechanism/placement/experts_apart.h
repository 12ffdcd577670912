// SPDX-License-Identifier: Apache-2.0
// Attention and FFN apart: experts on some GPUs of an EP group, tokens on the others
// (MegaScale-Infer, arXiv 2504.02263; Step-3, arXiv 2507.19427).
#pragma once

#include <functional>
#include <memory>

#include "sim/mechanism/placer.h"

namespace moesim {

/// Any placement among the GPUs of an EP group behind its first `attending` ones, which hold no
/// expert. It sees the tokens of every attending GPU as those of one of its own, in turn. Throws
/// Unsuitable unless the cluster is one EP group with more GPUs than `attending`. `tokens`: what
/// carries exchanges of tokens, for placements that predict their times.
std::unique_ptr<Placer> place_apart(
    const PlacementContext& context, int attending, const TransportPtr& tokens,
    const std::function<std::unique_ptr<Placer>(const PlacementContext&)>& make);

}  // namespace moesim
