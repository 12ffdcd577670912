// SPDX-License-Identifier: Apache-2.0
// Manifests of Kubernetes, whose containers launch programs.
#pragma once

#include <optional>
#include <string>

namespace moesim {

/// The commands of all containers of a manifest (Deployment, LeaderWorkerSet, ...; several may
/// follow one another behind "---") as a shell script, each with its variables and on about its own
/// line. Nothing if the YAML is not a manifest.
std::optional<std::string> script_of_manifest(const std::string& text, const std::string& file);

}  // namespace moesim
