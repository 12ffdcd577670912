// SPDX-License-Identifier: Apache-2.0
// Labels of ops that have no other name than their type's.
#pragma once

#include "sim/model/op_kind.h"
#include "sim/plan/label.h"

namespace moesim {

/// name_of(type), made once: a plan has millions of ops, of some hundred types.
const Label& type_label(const OpType& type);

}  // namespace moesim
