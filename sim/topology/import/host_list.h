// SPDX-License-Identifier: Apache-2.0
// Lists of hosts as Slurm writes them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moesim {

/// "gpu[001-003,7],login" as gpu001, gpu002, gpu003, gpu7, login. Throws Error for brackets that do
/// not match, ranges that run backwards and more than 200,000 hosts.
std::vector<std::string> expand_hosts(std::string_view list);

}  // namespace moesim
