// SPDX-License-Identifier: Apache-2.0
// Models of transformers and GPUs; kernels' times are finite numbers.
#include <array>
#include <cmath>

#include "sim/base/error.h"
#include "sim/model/gpu_model.h"
#include "sim/model/hf_config.h"
#include "sim/model/model_flops.h"
#include "sim/model/moe_model.h"
#include "sim/model/parameters.h"
#include "tests/fuzz/target.h"

namespace moesim::fuzz {
namespace {

void time_kernels(const GpuModel& gpu) {
  const std::array<Kernel, 3> kernels = {
      GroupedGemm{{0, 1, 4096}, 1024, 4096, DataType::bf16}, MemoryBound{Bytes(0), Bytes(1)},
      MemoryBound{Bytes(std::int64_t{1} << 40), Bytes(std::int64_t{1} << 40)}};
  for (const Kernel& kernel : kernels) {
    const Seconds time = gpu.time(kernel);
    require(std::isfinite(time.value) && time.value >= 0, "a kernel's time is not a finite number");
  }
}

/// The first line is a comment that names the kind: "# moe", "# dense", "# hf" or "# gpu".
void read_model(std::string_view bytes) {
  const std::string text(bytes);
  if (text.starts_with("# moe\n")) {
    parse_moe_model(text, "a.yaml").missing_of_whole();
  } else if (text.starts_with("# dense\n")) {
    parse_dense_model(text, "a.yaml").missing_of_whole();
  } else if (text.starts_with("# hf\n")) {
    const std::string config = text.substr(5);
    const std::string model = model_text_of_hf_config("config.json", config);
    parse_moe_model(model, "config.json").missing_of_whole();
  } else if (text.starts_with("# gpu\n")) {
    time_kernels(parse_gpu_model(text, "a.yaml"));
  } else {
    throw Error("no kind of model");
  }
}

}  // namespace

const Target model_target{"model", read_model};

}  // namespace moesim::fuzz
