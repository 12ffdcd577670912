// SPDX-License-Identifier: Apache-2.0
// The steps of a Mamba-2 block, as Megatron-Core's MambaMixer (megatron/core/ssm/mamba_mixer.py)
// runs mamba_split_conv1d_scan_combined of state-spaces/mamba (e9594ce1,
// ops/triton/ssd_combined.py).
#include "sim/model/block_steps.h"

namespace moesim {
namespace {

/// One GPU's share of the widths.
struct MambaWidths {
  std::int64_t projected, convolved, inner, shared;
};

/// Backward runs the convolution once more, because its result is not kept.
void add_conv(StepList& list, const MambaWidths& of) {
  const std::int64_t c = of.convolved;
  list.memory(OpKind::mamba_conv, list.all(), {c, c, 3 * c, 2 * c}, {full_layer});
}

/// What the kernels of the scan pass each other through memory, kernel by kernel: inputs (x), B and
/// C (b), states of chunks (s, partly in fp32) and products of B and C (p, in fp32). Backward
/// computes products and states again. Time steps and decays, one number per head, are left out.
void add_chunks(StepList& list, const MambaShape& shape, const MambaWidths& of) {
  const std::int64_t x = of.inner, b = of.shared;
  const std::int64_t s = x * shape.state / MambaShape::chunk;
  const std::int64_t p = b / shape.state * MambaShape::chunk;
  list.memory(OpKind::mamba_scan, list.all(),
              {3 * x + 4 * b + 3 * s + 2 * p, 2 * x + 3 * s + 2 * p,
               14 * x + 11 * b + 9 * s + 8 * p, 3 * x + 6 * b + 8 * s + 4 * p},
              {full_layer});
}

/// Products of activations: backward twice as many, and again those of B and C and of the states.
void add_products(StepList& list, const MoeModel& model, const MambaShape& shape,
                  const MambaWidths& of) {
  const auto step = [&](std::int64_t width, std::int64_t per_element, std::int64_t again) {
    const auto product = [&](std::int64_t n) {
      return GroupedGemm{{list.all()}, n, width, model.activations};
    };
    list.step({OpKind::mamba_scan,
               product(per_element),
               product(2 * per_element + again),
               MemoryBound{},
               {full_layer}});
  };
  step(of.shared, MambaShape::chunk, MambaShape::chunk);
  step(of.inner, MambaShape::chunk + std::int64_t{2} * shape.state, shape.state);
}

}  // namespace

void add_mamba(StepList& list, const MoeModel& model, int layer) {
  const MambaShape& shape = *model.mamba;
  const MambaWidths of{list.split(shape.projected()), list.split(shape.convolved()),
                       list.split(shape.inner()), list.split(shape.shared())};
  const Recompute again{full_layer};
  if (!starts(model, layer)) list.residual(model.hidden, again);
  list.norm(OpKind::norm, list.own(), model.hidden, again);  // part of the projection's kernel
  list.keep(list.own(), model.hidden, list.element(), {});   // the layer's input
  list.keep_input(list.own(), model.hidden, again);
  list.linear(OpKind::mamba_projection, list.all(), of.projected, model.hidden, again);
  list.keep(list.all(), of.projected, list.element(), again);
  add_conv(list, of);
  add_chunks(list, shape, of);
  add_products(list, model, shape, of);
  list.keep(list.all(), 2 * of.inner, list.element(), again);  // before the gate, and behind it
  list.norm(OpKind::mamba_norm, list.all(), of.inner, again);
  list.keep_input(list.all(), of.inner, again);
  list.linear(OpKind::mamba_projection, list.all(), model.hidden, of.inner, again);
}

}  // namespace moesim
