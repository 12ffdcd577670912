// SPDX-License-Identifier: Apache-2.0
// What the readers of YAML and JSON share.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/topology/import/facts.h"

namespace moesim {

using YamlTree = nlohmann::ordered_json;

/// The tree of a text; a stream of Kubernetes' nodes becomes a list of them. Throws Error for what
/// is not YAML.
YamlTree yaml_tree(const std::string& text, const std::string& name);

/// The value of a key; null if there is none.
const YamlTree& at_key(const YamlTree& tree, const char* key);
/// The same as text; "" for what is neither text nor number.
std::string text_at(const YamlTree& tree, const char* key);

/// Sets the NVLink domains; ignores those without hosts, which files may list.
void set_domains(ClusterFacts& facts, const std::map<std::string, int>& hosts_of);

/// Reads Kubernetes Node objects: capacity and labels.
void kubernetes_nodes(const YamlTree& root, ClusterFacts& facts);

}  // namespace moesim
