// SPDX-License-Identifier: Apache-2.0
// The kernels of an op as words of a plan's text form.
#pragma once

#include <string>

#include "sim/plan/line_reader.h"
#include "sim/plan/plan.h"

namespace moesim {

/// `gemm bf16 m 4,3*8;5,2 n 2816 k 2048`, `memory read 8192 written 2*4096,0`, `host 500 ns`,
/// `attention bf16 forward queries 4096 attended 2048 heads 16 kv-heads 2 qk 128 v 128`: each size
/// once for all members, or once per member.
std::string to_text(const Kernels& kernels);

/// Reads them for so many members; throws LineMistake.
Kernels read_kernels(LineReader& reader, std::size_t members);

}  // namespace moesim
