// SPDX-License-Identifier: Apache-2.0
// Kinds of kernels by their names.
#include "sim/profile/kernel_table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "sim/base/error.h"
#include "tests/profile/files.h"

namespace moesim {
namespace {

TEST(KernelTable, NamesWhatRuns) {
  const KernelTable table = kernel_table({});
  const std::map<std::string, std::string> kinds = {
      {"nvjet_tst_64x64_64x16_2x1_2cta_v_bz_bias_TNT", "gemm"},
      {"Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV", "gemm"},
      {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_nn", "gemm"},
      {"void cutlass::device_kernel<x::grouped_gemm::y>", "grouped-gemm"},
      {"fused_moe_kernel", "grouped-gemm"},
      {"void flash::compute_attn_ws<Flash_fwd_kernel_traits<192>>", "attention"},
      {"void cutlass::device_kernel<flash::FlashAttnBwd<1>>", "attention-backward"},
      {"void deep_ep::internode::notify_dispatch<false, 8>(int)", "notify"},
      {"void deep_ep::internode::dispatch<false, 8>(int)", "dispatch"},
      {"void deep_ep::intranode::combine<__nv_bfloat16>(int)", "combine"},
      {"void deep_ep::internode_ll::combine<true>(int)", "combine"},
      {"hybrid_ep::dispatch_kernel<x>", "dispatch"},
      {"uccl::internode::combine<1>", "combine"},
      {"void pplx::DispatchKernel<4>", "dispatch"},
      {"mori::moe::EpCombineInterNodeKernel", "combine"},
      {"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "send-recv"},
      {"ncclDevKernel_AllGather_RING_LL(x)", "all-gather"},
      {"ncclKernel_ReduceScatter_RING_LL_Sum_float(x)", "reduce-scatter"},
      {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", "all-reduce"},
      {"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>",
       "elementwise"},
      {"void elementwise_kernel<128, 4, x::{lambda(int)#1}>", "elementwise"},
      {"void at::native::unrolled_elementwise_kernel<at::native::CUDAFunctorOnSelf_add<int>>",
       "elementwise"},
      {"void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<"
       "at::native::BinaryFunctor<c10::BFloat16>>>",
       "elementwise"},
      {"void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<"
       "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>>",
       "copy"},
      {"void at::native::vectorized_elementwise_kernel<8, at::native::bfloat16_copy_kernel_cuda>",
       "cast"},
      {"void cudnn::fusion::compute_dot_do_o_specialized<true, 128>(void const*)",
       "attention-backward"},
      {"void cudnn::fusion::convert_dq_to_16bits<true>(void const*)", "attention-backward"},
      {"void cudnn::fusion::fmha_reduce_head<true>(void const*)", "attention-backward"},
      {"void indexing_backward_kernel<c10::BFloat16, 4>(long const*)", "copy"},
      {"void at::native::compute_grad_weight<c10::BFloat16, long>(long const*)", "embedding"},
      {"void multi_tensor_apply_kernel<AdamFunctor>", "optimizer"},
      {"void transformer_engine::normalization::rmsnorm_fwd_tuned_kernel<1>", "norm"},
      {"_permute_kernel", "permute"},
      {"Memcpy HtoD (Pinned -> Device)", "copy"},
      {"cuda::aux_fi_impl(long const*, float*, int, int, int, int)", "router"},
      {"void cask_cudnn::computeOffsetsKernel<false, false>(x)", "conv"},
      {"void cudnn::ops::scalePackedTensor_kernel<float, float>(long)", "elementwise"},
      {"void compute_cuda_kernel<long>(long*, long*, long*, long, long)", "copy"},
      {"void at::to_dense_representation_kernel<float>(long, long, long)", "copy"},
      {"void fft2d_r2c_16x16<float>(float2 *)", "conv"},
      {"_copy_page_indices_kernel", "cache"},
      {"compute_position_kernel", "elementwise"},
      {"void (anonymous namespace)::resolve_future_token_ids_kernel<long>(x)", "elementwise"},
      {"my_own_kernel", "unknown"}};
  for (const auto& [name, kind] : kinds) EXPECT_EQ(name_of(table.kind_of(name)), kind) << name;
  EXPECT_EQ(table.find("void deep_ep::internode::dispatch<1>")->library, "DeepEP");
}

TEST(KernelTable, UsersComeFirst) {
  const ProfileFiles files;
  const std::string mine = files.write("mine.yaml",
                                       "name: mine\ndescription: d\nsource: s\nkinds:\n"
                                       "  - {kind: router, patterns: [\"^my_*_kernel\"]}\n");
  const KernelTable table = kernel_table({mine});
  EXPECT_EQ(table.kind_of("My_own_Kernel<3>"), KernelKind::router);
  EXPECT_EQ(table.kind_of("not my_own_kernel"), KernelKind::unknown);
  EXPECT_EQ(table.kind_of("fused_moe_kernel"), KernelKind::grouped_gemm);
}

TEST(KernelTable, SaysAllMistakesOfAFile) {
  const ProfileFiles files;
  const std::string mine = files.write("mine.yaml",
                                       "name: mine\ndescription: d\nsource: s\nkinds:\n"
                                       "  - {kind: gem, patterns: [x]}\n"
                                       "  - {kind: gemm, patterns: [\"*\"]}\n"
                                       "  - {kind: gemm, pattern: [x]}\n");
  try {
    kernel_table({mine});
    FAIL();
  } catch (const Error& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("did you mean 'gemm'"), text.npos) << text;
    EXPECT_NE(text.find("fits every kernel"), text.npos) << text;
    EXPECT_GE(e.diagnostics().size(), 3U) << text;
  }
}

}  // namespace
}  // namespace moesim
