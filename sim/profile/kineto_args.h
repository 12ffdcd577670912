// SPDX-License-Identifier: Apache-2.0
// What PyTorch notes with an event: sizes and groups of collectives, shapes of products.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "sim/profile/flat_json.h"
#include "sim/profile/profile.h"

namespace moesim {

/// Of the metadata that start with "Collective name"; adds its group to the profile. The kind is
/// unknown if the name says none.
std::pair<KernelKind, ExchangeFacts> exchange_facts(const FlatObject& event, Profile& profile);

/// Of aten::mm, addmm, bmm, baddbmm and _scaled_mm by their inputs; nothing for other ops, and for
/// types of elements that no table is of. Without types they are BF16. `dims` as
/// "[[8, 4], [4, 2]]", `types` as "[\"float\", ...]".
std::optional<WorkShape> product_shape(std::string_view op, std::string_view dims,
                                       std::string_view types);

/// "[0, 1, 2, 8]" as "0-2,8"; what is not a list of ranks stays out.
std::string ranks_text(std::string_view list);

}  // namespace moesim
