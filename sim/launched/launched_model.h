// SPDX-License-Identifier: Apache-2.0
// Which of our models a launch trains or serves.
#pragma once

#include <string>

#include "sim/launched/launched.h"
#include "sim/model/moe_model.h"

namespace moesim {

/// The name of one of our models, or the path of a config.json: by the launch's name for it, which
/// may be an id of Hugging Face or a path, else by its sizes. Notes what was assumed. Throws Error
/// with the nearest model if none fits.
std::string model_of_launch(Launched& launched);

/// Takes that model in place of the launch's: weights are stored as the launch's name for it says.
/// Notes which stated sizes differ.
void compare_sizes(const std::string& model, Launched& launched);

/// Adds what depends on the model: the slots of a balancer, by its experts and ep, and a note of
/// drafts that it has no layer for.
void finish_for(const MoeModel& model, Launched& launched);

}  // namespace moesim
