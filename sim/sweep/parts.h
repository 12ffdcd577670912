// SPDX-License-Identifier: Apache-2.0
// Part files: what processes that share a sweep write, each its own, next to the sweep's file.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "sim/sweep/store.h"

namespace moesim {

/// FILE.part-NAME.
std::string part_file(const std::string& file, const std::string& name);
/// The existing ones, sorted.
std::vector<std::string> part_files(const std::string& file);

/// Whether another process writes to it.
bool is_being_written(const std::string& file);

/// Takes the rows of all parts of `file` into it and removes them. Parts that are being written
/// stay; returns them.
std::vector<std::string> merge_parts(const std::string& file, SweepStore& store,
                                     const SweepAbout& about);

/// The scenarios that have a row in the file or in a part that nobody writes; `but` are parts that
/// begin so.
std::set<std::int64_t> ids_in(const std::string& file, const SweepAbout& about,
                              const std::string& but = "");

}  // namespace moesim
