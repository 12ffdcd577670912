// SPDX-License-Identifier: Apache-2.0
// The files that an import reads: their identity, and what names of dumps say
// ("expert_distribution_rank3_timestamp1755.25.csv").
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moesim {

/// The whole number that all of a name or a part of it is; -1 for others.
std::int64_t number_of_name(std::string_view text);

/// The number in "..._rank3_..." of a file's name.
std::optional<std::int64_t> rank_in_name(const std::string& path);

/// The number in "router_layer_3.csv", if it is the only word of the name with one.
std::optional<std::int64_t> layer_of_file(const std::string& path);

/// Files by the number in "..._timestamp1755.25..." of their names; before them those without one,
/// in their order.
std::vector<std::string> in_order_of_time(std::vector<std::string> paths);

/// Whether a file or folder in an input is none of it: what a file manager or editor keeps there.
bool is_hidden(const std::filesystem::path& path);

/// The files of inputs, those of folders by name. Throws Error for one that is not there.
std::vector<std::string> input_files(const std::vector<std::string>& inputs);

/// Their names and XXH3 (128 bits), as a JSON list. Large files do not stay in memory.
std::string input_hashes(const std::vector<std::string>& inputs);

}  // namespace moesim
