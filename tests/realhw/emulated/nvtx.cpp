// SPDX-License-Identifier: Apache-2.0
// What NVTX loads in place of a profiler ($NVTX_INJECTION64_PATH): it keeps the names of ranges.
#include <nvtx3/nvToolsExt.h>

#include "tests/realhw/emulated/ranges.h"

namespace {

int push(const char* name) { return moesim::emulated::begin_range(name); }
int pop() { return moesim::emulated::end_range(); }

}  // namespace

extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned size = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &functions, &size) == 0) return 0;
  *functions[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(push);
  *functions[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  return 1;
}
