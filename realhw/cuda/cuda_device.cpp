// SPDX-License-Identifier: Apache-2.0
#include "realhw/cuda/cuda_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <stdexcept>
#include <thread>
#include <unordered_map>

#include "realhw/cuda/cuda_streams.h"
#include "realhw/cuda/loaded_calls.h"

namespace moesim {
namespace cuda {
namespace {

constexpr int side_streams = 4;
constexpr std::size_t boundary =
    256;  // buffers start at multiples of it, as cudaMalloc's memory does

struct DeviceFindings {
  unsigned long long wrong_bytes = 0;
  std::int32_t first_not_finite = std::numeric_limits<std::int32_t>::max();
};

void select(int index) { check(cudaSetDevice(index)); }

void CUDART_CB sleep_for(void* work) {
  std::this_thread::sleep_for(
      std::chrono::nanoseconds(static_cast<const HostWork*>(work)->nanoseconds));
}

bool multiplies(const Call& call) {
  const auto* scratch = std::get_if<Scratch>(&call);
  return std::holds_alternative<GroupedProduct>(call) ||
         (scratch != nullptr && std::holds_alternative<GroupedGemm>(scratch->kernel));
}

template <class Visit>
void for_each_call(const RankProgram& program, Visit visit) {
  for (const RankStep& step : program.steps) {
    const auto visit_all = [&](const std::vector<Call>& calls) {
      for (const Call& call : calls) visit(call, step.stream);
    };
    visit_all(step.before);
    visit_all(step.after);
    for (const Round& round : step.more) {
      visit_all(round.before);
      visit_all(round.after);
    }
  }
}

class CudaDevice : public GpuDevice {
 public:
  CudaDevice(int index, const CudaOptions& options) : index_(index), options_(options) {
    select(index_);
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, index_));
    description_ = fmt::format("{} (sm_{}{})", properties.name, properties.major, properties.minor);
    sms_ = properties.multiProcessorCount;
    if (properties.major < 8) throw std::runtime_error(description_ + " is older than sm_80");
    streams_.emplace();
  }
  /// A graph goes before the memory and handles that its kernels use.
  ~CudaDevice() override {
    cudaSetDevice(index_);
    if (streams_) streams_->drop_capture();
  }

  void load(const RankProgram& program) override;
  void reset(bool poison) override;
  void run(const Call& call, Stream stream) override;
  std::byte* data(BufferId buffer) override { return addresses_->buffers[buffer.index()]; }
  void read(Place from, std::span<std::byte> bytes) override;
  Findings findings() override;

  std::string description() const override { return description_; }
  int sms() const override { return sms_; }
  GpuStream stream(Stream stream) override { return (*streams_)[stream]; }
  void make_marks(std::size_t count) override { streams_->make_marks(count); }
  void mark(std::size_t mark, Stream stream) override { streams_->mark(mark, stream); }
  void wait(std::size_t mark, Stream stream) override { streams_->wait(mark, stream); }
  void start_clock() override { streams_->start_clock(); }
  bool passed(std::size_t mark) override { return streams_->passed(mark); }
  Clock::time_point time_of(std::size_t mark) override { return streams_->time_of(mark); }
  bool idle() override { return streams_->idle(); }
  void begin_capture() override { streams_->begin_capture(); }
  void end_capture() override { streams_->end_capture(); }
  void drop_capture() override { streams_->drop_capture(); }
  void replay() override { streams_->replay(); }

 private:
  void allocate(const RankProgram& program);
  void write_initial();
  void make_gemm_queue(Stream stream);
  DeviceFindings* device_findings() const {
    return reinterpret_cast<DeviceFindings*>(findings_.data());
  }

  void run_call(const LoadedRowSums& call, Stream stream);
  void run_call(const LoadedActivation& call, Stream stream);
  void run_call(const LoadedPattern& call, Stream stream);
  void run_call(const LoadedFiniteCheck& call, Stream stream);
  void run_call(const LoadedCopy& call, Stream stream);
  void run_call(const LoadedProduct& call, Stream stream);
  void run_call(const LoadedMove& call, Stream stream);
  void run_call(const HostWork* call, Stream stream);
  void run_call(const std::shared_ptr<const LoadedDense>& call, Stream stream) {
    run_dense(*call, lists_, (*streams_)[stream]);
  }

  int index_;
  CudaOptions options_;
  std::string description_;
  int sms_ = 0;
  std::optional<CudaStreams> streams_;
  const Cublas* cublas_ = nullptr;
  std::optional<Addresses> addresses_;
  bool moves_ = false;  // some call is bound by memory, in the windows of scratch memory
  DeviceMemory memory_, scratch_, findings_;
  DeviceLists lists_;
  std::unordered_map<const Call*, LoadedCall> calls_;
  std::array<std::unique_ptr<GemmQueue>, stream_count> gemm_queues_;
};

/// Everything that takes memory or time on first use happens here, so that no timed step pays for
/// it.
void CudaDevice::load(const RankProgram& program) {
  select(index_);
  allocate(program);
  bool products = false;
  for_each_call(program,
                [&](const Call& call, Stream) { products = products || multiplies(call); });
  if (products) cublas_ = &cublas_library();
  CallLoader loader(*addresses_, cublas_, options_.gemm, lists_);
  for_each_call(program, [&](const Call& call, Stream stream) {
    const auto& loaded = calls_.emplace(&call, loader.load(call)).first->second;
    moves_ = moves_ || (std::holds_alternative<LoadedMove>(loaded) && scratch_.size() > 0);
    if (multiplies(call)) make_gemm_queue(stream);
  });
  lists_.upload((*streams_)[Stream{}]);
  write_initial();
  launch_fill(scratch_.data(), static_cast<std::int64_t>(scratch_.size()), (*streams_)[Stream{}]);
  streams_->synchronize();
}

void CudaDevice::allocate(const RankProgram& program) {
  std::vector<std::size_t> offsets;
  std::size_t size = 0;
  for (const Buffer& buffer : program.buffers) {
    offsets.push_back(size);
    size += (static_cast<std::size_t>(buffer.bytes) + boundary - 1) / boundary * boundary;
  }
  std::int64_t scratch = 0;
  for_each_call(
      program, [&](const Call& call, Stream) { scratch = std::max(scratch, scratch_bytes(call)); });
  memory_ = DeviceMemory(size);
  scratch_ = DeviceMemory(static_cast<std::size_t>(scratch));
  findings_ = DeviceMemory(sizeof(DeviceFindings));
  addresses_.emplace(Addresses{program, {}, scratch_.data()});
  for (const std::size_t offset : offsets) addresses_->buffers.push_back(memory_.data() + offset);
}

/// reset() writes them again only over poison: nothing but an iteration's update changes them, from
/// which the next iteration continues.
void CudaDevice::write_initial() {
  const RankProgram& program = addresses_->program;
  std::vector<std::byte> encoded;
  for (const InitialValues& initial : program.initial) {
    if (initial.values.empty()) continue;
    const RowFormat format = program[initial.at.buffer].format;
    encoded.resize(initial.values.size() * size_of(format));
    encode(format, initial.values, encoded.data());
    check(cudaMemcpyAsync((*addresses_)[initial.at], encoded.data(), encoded.size(),
                          cudaMemcpyHostToDevice, (*streams_)[Stream{}]));
    streams_->synchronize();  // before `encoded` changes
  }
}

void CudaDevice::make_gemm_queue(Stream stream) {
  auto& made = gemm_queues_[static_cast<std::size_t>(stream)];
  if (made) return;
  const bool on_streams = options_.gemm == CudaOptions::Gemm::on_streams;
  made = std::make_unique<GemmQueue>(*cublas_, (*streams_)[stream], on_streams ? side_streams : 0);
}

void CudaDevice::reset(bool poison) {
  select(index_);
  streams_->synchronize();
  const cudaStream_t stream = (*streams_)[Stream{}];
  if (poison && memory_.size() > 0) {
    check(cudaMemsetAsync(memory_.data(), 0xff, memory_.size(), stream));
    write_initial();
  }
  const RankProgram& program = addresses_->program;
  for (const BufferId buffer : program.zeroed) {
    const auto bytes = static_cast<std::size_t>(program[buffer].bytes);
    if (bytes > 0) check(cudaMemsetAsync(data(buffer), 0, bytes, stream));
  }
  // The windows are larger than any cache, which then holds nothing of the run before.
  if (moves_) launch_fill(scratch_.data(), 2 * scratch_window, stream);
  const DeviceFindings none;
  check(cudaMemcpyAsync(findings_.data(), &none, sizeof none, cudaMemcpyHostToDevice, stream));
  streams_->synchronize();
}

void CudaDevice::run(const Call& call, Stream stream) {
  select(index_);
  std::visit([&](const auto& loaded) { run_call(loaded, stream); }, calls_.at(&call));
}

void CudaDevice::run_call(const LoadedRowSums& call, Stream stream) {
  launch_row_sums(
      {call.rows, call.width, call.format, lists_[call.to], lists_[call.first], lists_[call.terms]},
      (*streams_)[stream]);
}

void CudaDevice::run_call(const LoadedActivation& call, Stream stream) {
  ActivationList list = call.list;
  list.range = lists_[call.ranges];
  launch_activation(list, (*streams_)[stream]);
}

void CudaDevice::run_call(const LoadedPattern& call, Stream stream) {
  const auto count = static_cast<std::int64_t>(call.ranges.count);
  if (call.compare) {
    launch_compare_pattern(lists_[call.ranges], count, &device_findings()->wrong_bytes,
                           (*streams_)[stream]);
  } else {
    launch_write_pattern(lists_[call.ranges], count, (*streams_)[stream]);
  }
}

void CudaDevice::run_call(const LoadedFiniteCheck& call, Stream stream) {
  launch_finite_check(lists_[call.ranges], static_cast<std::int64_t>(call.ranges.count),
                      call.op.value, &device_findings()->first_not_finite, (*streams_)[stream]);
}

void CudaDevice::run_call(const LoadedCopy& call, Stream stream) {
  if (call.bytes == 0) return;
  check(cudaMemcpyAsync(call.to, call.from, static_cast<std::size_t>(call.bytes),
                        cudaMemcpyDeviceToDevice, (*streams_)[stream]));
}

void CudaDevice::run_call(const LoadedProduct& call, Stream stream) {
  call->run(*gemm_queues_[static_cast<std::size_t>(stream)], lists_);
}

void CudaDevice::run_call(const LoadedMove& call, Stream stream) {
  launch_move({scratch_.data(), call.bytes.read.value, scratch_.data() + scratch_window,
               call.bytes.written.value, call.start, scratch_window},
              (*streams_)[stream]);
}

void CudaDevice::run_call(const HostWork* call, Stream stream) {
  check(cudaLaunchHostFunc((*streams_)[stream], sleep_for, const_cast<HostWork*>(call)));
}

void CudaDevice::read(Place from, std::span<std::byte> bytes) {
  select(index_);
  streams_->synchronize();
  if (bytes.empty()) return;
  check(cudaMemcpy(bytes.data(), (*addresses_)[from], bytes.size(), cudaMemcpyDeviceToHost));
}

Findings CudaDevice::findings() {
  select(index_);
  streams_->synchronize();
  DeviceFindings found;
  check(cudaMemcpy(&found, findings_.data(), sizeof found, cudaMemcpyDeviceToHost));
  Findings result;
  result.wrong_bytes = static_cast<std::int64_t>(found.wrong_bytes);
  if (found.first_not_finite != std::numeric_limits<std::int32_t>::max()) {
    result.not_finite_in = OpId(found.first_not_finite);
  }
  return result;
}

}  // namespace
}  // namespace cuda

std::unique_ptr<GpuDevice> make_cuda_device(int index, const CudaOptions& options) {
  return std::make_unique<cuda::CudaDevice>(index, options);
}

}  // namespace moesim
