// SPDX-License-Identifier: Apache-2.0
// Which layers of counts are MoE layers of the model.
#pragma once

#include "sim/import/counts.h"
#include "sim/import/import_sink.h"

namespace moesim {

/// If the file does not number its layers, leaves out those without experts: by the flags,
/// else by the model, else because they have no counts.
CountedStep of_moe_layers(CountedStep step, const ImportOptions& options);

/// Leaves out the last layers if they are those of multi-token prediction, after all of the model
/// or after its MoE layers.
void leave_out_mtp(CountedStep& step, ImportSink& sink);

}  // namespace moesim
