// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "realhw/cli/commands.h"
#include "realhw/mpi/mpi_backend.h"
#include "realhw/nccl/nccl_backend.h"
#ifdef MOESIM_MPI
#include "realhw/mpi/mpi_job.h"
#endif

namespace moesim {
namespace {

void add_choice(CommandLine& command, const std::string& flag, std::string& value,
                const std::vector<std::string>& names, const std::string& help) {
  command.add_option(
      flag,
      [&value, flag, names](const std::string& name) {
        if (std::find(names.begin(), names.end(), name) == names.end()) {
          throw Error(fmt::format("{} {} is not known", flag, name), did_you_mean(name, names));
        }
        value = name;
      },
      help);
}

#ifdef MOESIM_NCCL
std::unique_ptr<HardwareBackend> open_nccl(Job& job, const BackendFlags& flags) {
  return make_nccl_backend(job, flags.nccl_options(), flags.cuda_options());
}
#else
std::unique_ptr<HardwareBackend> open_nccl(Job&, const BackendFlags&) {
  throw Error("this moesim-hw was built without the backend 'nccl'",
              "build it where nvcc and nccl.h are found");
}
#endif

}  // namespace

void BackendFlags::add_to(CommandLine& command) {
  add_choice(command, "--backend", backend, {"mpi", "nccl"},
             "mpi (default): CPUs over MPI; nccl: GPUs over NCCL");
  add_choice(command, "--mpi-calls", mpi_calls, {"p2p", "alltoallv"},
             "p2p (default): a send and a receive per peer; or alltoallv: one MPI_Ialltoallv");
  command.add_flag(
      "--together", together,
      "mpi: exchanges begin and end for all their ranks at once, as simulated at port");
  command.add_option("--timeout", timeout, "seconds without progress that end the run (default 30)")
      .range(1e-6, 1e9);
  command.add_option("--fault", fault,
                     "mpi: a drill; kill:OP@RANK, stop:OP@RANK or nan:OP@RANK breaks the op there");
  add_choice(command, "--matrices", matrices, {"float32", "bfloat16"},
             "nccl: type of experts' parameters and activations: float32 (default) or bfloat16");
  add_choice(command, "--gemm", gemm, {"automatic", "grouped", "one-by-one", "on-streams"},
             "nccl: products of several experts in cuBLAS: automatic (default), grouped, "
             "one-by-one or on-streams");
  command.add_flag("--no-graph", no_graph,
                   "nccl: puts timed steps on the GPU op by op instead of replaying a CUDA graph");
}

NcclOptions BackendFlags::nccl_options() const {
  NcclOptions options;
  options.timeout = Seconds(timeout);
  options.graphs = !no_graph;
  if (matrices == "bfloat16") options.compile.matrices = RowFormat::bfloat16;
  return options;
}

CudaOptions BackendFlags::cuda_options() const {
  CudaOptions options;
  if (gemm == "grouped") options.gemm = CudaOptions::Gemm::grouped;
  if (gemm == "one-by-one") options.gemm = CudaOptions::Gemm::one_by_one;
  if (gemm == "on-streams") options.gemm = CudaOptions::Gemm::on_streams;
  return options;
}

std::unique_ptr<HardwareBackend> BackendFlags::open(Job& job) const {
  if (backend == "nccl") {
    if (mpi_calls != "p2p" || together || !fault.empty()) {
      throw Error("--mpi-calls, --together and --fault are of the backend 'mpi'");
    }
    return open_nccl(job, *this);
  }
  if (matrices != "float32" || gemm != "automatic" || no_graph) {
    throw Error("--matrices, --gemm and --no-graph are of the backend 'nccl'");
  }
#ifdef MOESIM_MPI
  if (dynamic_cast<MpiJob*>(&job) != nullptr) {
    MpiOptions options{mpi_calls == "p2p" ? MpiTransport::p2p : MpiTransport::alltoallv,
                       together,
                       Seconds(timeout),
                       {}};
    if (!fault.empty()) options.fault = parse_fault(fault);
    if (options.fault && options.fault->rank.value >= job.ranks()) {
      throw Error(fmt::format("--fault: there is no rank {}", options.fault->rank.value));
    }
    return make_mpi_backend(job, options);
  }
#endif
  throw Error(
      fmt::format("the backend 'mpi' needs ranks that MPI joins; these were by {}", job.launcher()),
      "start them by mpirun or srun --mpi, with a moesim-hw that was built with MPI");
}

}  // namespace moesim
