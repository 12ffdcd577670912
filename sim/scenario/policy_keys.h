// SPDX-License-Identifier: Apache-2.0
// The keys of a scenario that one of its policies has for itself: `policy: [laer, {name: megatron,
// parallel: {tp: 8}}]` in a file, which means the change scenario:megatron.parallel.tp=8.
#pragma once

#include <string>
#include <vector>

#include "sim/base/yaml.h"

namespace moesim {

/// Whether a policy may have this key ("parallel.tp"): those of iterations but for the routing,
/// which all share, and `ep`, `gradient_bytes`, `optimizer_bytes`.
bool may_be_own(const std::string& path);

/// The names under `policy`: one or a list of names, each plain or as {name: NAME, KEY: VALUE ...}.
/// Mistakes are recorded.
std::vector<YamlValue> policy_names(const YamlMap& scenario);

/// The keys in these mappings as changes of the scenario, from the text of its file at `path`,
/// which holds whatever policies flags choose.
std::vector<Override> own_keys_in(const std::string& text, const std::string& path);

/// What these changes say of a policy, as keys of the scenario. Throws Error for others.
std::vector<Override> own_keys_of(const std::vector<Override>& changes, const std::string& policy,
                                  bool iteration);

}  // namespace moesim
