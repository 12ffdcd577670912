// SPDX-License-Identifier: Apache-2.0
#include "sim/report/lossy.h"

#include <nlohmann/json.hpp>

namespace moesim {

Cell lossy_cell(const Loss& loss) { return loss.any() ? Cell(loss.text()) : Cell("-"); }

void add_loss(nlohmann::ordered_json& json, const Loss& loss) {
  json["lossy"] = loss.text();
  if (!loss.any()) return;
  auto& figures = json["loss"] = nlohmann::ordered_json::object();
  if (loss.dropped > 0) figures["dropped_part"] = loss.dropped_part();
  if (loss.replaced > 0) figures["replaced_part"] = loss.replaced_part();
  if (loss.rows.bits > 0) figures["row_bits"] = loss.rows.bits;
  if (loss.compression > 1) figures["weight_compression"] = loss.compression;
}

}  // namespace moesim
