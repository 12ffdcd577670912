// SPDX-License-Identifier: Apache-2.0
// What the backend says of its GPU, and a use of NCCL that it avoids.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "realhw/cuda/cuda_owned.h"
#include "realhw/cuda/device_memory.h"
#include "realhw/nccl/communicator.h"
#include "realhw/nccl/nccl_backend.h"
#include "tests/realhw/emulated/calls.h"
#include "tests/realhw/stack/ranks.h"

namespace moesim {
namespace {

TEST(StackBackend, SaysWhatItsGpuIs) {
  std::string said;
  int sms = 0;
  const RunEnd end = run_ranks(1, 1, [&](Job& job) {
    const auto backend = make_nccl_backend(job, NcclOptions{});
    said = backend->description();
    sms = backend->sms();
  });
  EXPECT_EQ(end.text(), "");
  EXPECT_THAT(said, testing::MatchesRegex("NCCL [0-9.]+, emulated \\(sm_90\\)"));
  EXPECT_EQ(sms, 11);
}

/// Also if CUDA answers when it is asked again.
TEST(StackBackend, SaysWhyItSeesNoGpu) {
  emulated::Calls::get().plan(emulated::Mishap::fails, 0, 0, "cudaGetDeviceCount");
  const RunEnd end = run_ranks(1, 1, [](Job& job) { make_nccl_backend(job, NcclOptions{}); });
  emulated::Calls::get().forget();
  EXPECT_THAT(end.text(),
              testing::HasSubstr(
                  "the backend 'nccl' needs a GPU, and CUDA sees none: the driver supports CUDA "));
}

TEST(StackBackend, EveryRankSaysWhyTheFirstHasNoId) {
  emulated::Calls::get().plan(emulated::Mishap::fails, 0, 0, "ncclGetUniqueId");
  const RunEnd end =
      run_ranks(2, 1, [](Job& job) { const Communicator made(nccl_library(), job, Seconds(0.2)); });
  emulated::Calls::get().forget();
  EXPECT_THAT(end.thrown,
              testing::Each(testing::HasSubstr(
                  "NCCL cannot make a communicator id on rank 0: unhandled system error")));
}

/// Also if the cause is as long as an id.
TEST(StackBackend, NoCauseIsTakenForAnId) {
  static const std::string cause(sizeof(ncclUniqueId), '?');
  NcclApi nccl = nccl_library();
  nccl.get_unique_id = [](ncclUniqueId*) { return ncclSystemError; };
  nccl.error_string = [](ncclResult_t) { return cause.c_str(); };
  const RunEnd end =
      run_ranks(2, 1, [&](Job& job) { const Communicator made(nccl, job, Seconds(0.2)); });
  EXPECT_THAT(end.thrown, testing::Each(testing::HasSubstr("on rank 0: " + cause)));
}

/// A message whose ends are put on streams, or captured and replayed, as each rank says.
std::string run_message(bool sender_captures, bool receiver_captures) {
  return run_ranks(2, 1,
                   [&](Job& job) {
                     const bool sends = job.rank() == 0;
                     const auto device = make_cuda_device(job.rank());
                     cuda::OwnedStream stream = cuda::make_stream(0);
                     cuda::DeviceMemory bytes(64);
                     Communicator communicator(nccl_library(), job, Seconds(0.2));
                     const Communicator::Part part{1 - job.rank(), bytes.data(), 64};
                     const std::vector<Communicator::Part> some{part}, none;
                     const auto put = [&] {
                       communicator.exchange(sends ? some : none, sends ? none : some,
                                             stream.get());
                     };
                     cudaGraphExec_t graph = nullptr;
                     if (sends ? sender_captures : receiver_captures) {
                       cudaGraph_t captured = nullptr;
                       cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeRelaxed);
                       put();
                       cudaStreamEndCapture(stream.get(), &captured);
                       cudaGraphInstantiateWithFlags(&graph, captured, 0);
                       cudaGraphDestroy(captured);
                       cudaGraphLaunch(graph, stream.get());
                     } else {
                       put();
                     }
                     cudaStreamSynchronize(stream.get());
                     if (graph != nullptr) cudaGraphExecDestroy(graph);
                     job.barrier();
                   })
      .text();
}

/// NCCL wants both ends of a message captured, or none: the emulated one finds other use.
TEST(StackBackend, CapturesBothEndsOfAMessageOrNone) {
  EXPECT_EQ(run_message(false, false), "");
  EXPECT_EQ(run_message(true, true), "");
  EXPECT_THAT(run_message(true, false), testing::HasSubstr("NCCL was misused 1 times"));
  EXPECT_THAT(run_message(false, true), testing::HasSubstr("NCCL was misused 1 times"));
}

}  // namespace
}  // namespace moesim
