// SPDX-License-Identifier: Apache-2.0
// Lists of experts, ranks and slots as placement files have them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/base/yaml.h"
#include "sim/mechanism/placement/given/placement_file.h"

namespace moesim {

inline constexpr int most_slots = 1 << 20;  // of one layer
inline constexpr Range rank_ids{0, 1 << 20}, layer_numbers{0, 1 << 16};

std::vector<int> ids_in(const YamlValue& list, Range range);

/// Lists inside each other; of a list without values 1, of anything else 0.
int depth_of(const YamlValue& value);

/// Whether lists are inside each other more than `most` deep, which is an error of the value.
bool is_too_deep(const YamlValue& value, int most);

/// A mapping that may have others than the known keys.
YamlMap open_map(const YamlValue& value);
/// The mappings of a list by their numbers, which run from 0 on.
std::vector<YamlValue> in_order_of(const YamlValue& list, const char* number);

/// The expert of every slot.
GivenSlots flat_slots_in(const YamlValue& list);
/// [rank][slot], the ranks in order.
GivenSlots by_rank(const std::vector<YamlValue>& ranks, int line);
/// The rank of every expert; a rank has its experts in ascending order.
GivenSlots from_ranks(const std::vector<int>& rank_of, int line);
/// [expert][replica] of slots, filled up with -1.
GivenSlots from_slots_of(const YamlValue& of_experts);

/// A mapping whose keys are numbers, plain or after one of `words` ("rank7", "rank_7"), by number;
/// empty if one is not. A number
/// that is there twice is an error.
std::map<int, YamlValue> by_number(const YamlMap& map, const std::set<std::string>& words);

/// Whether two forms of one placement do not contradict each other: one that knows ranks may lack
/// replicas, slots and layers of the other.
bool agree(const PlacementFile& a, const PlacementFile& b);

/// Two lists inside each other are layers if every one of them holds all experts, else ranks.
bool are_layers(const std::vector<YamlValue>& lists);

/// Whether it has only numbers and what separates them: `0 1 2`, `0,1,2`, a layer or rank a line.
bool is_numbers(const std::string& text);
/// Such lines as a list of lists, line by line the same.
std::string as_lists(const std::string& text);

}  // namespace moesim
