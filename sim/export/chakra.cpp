// SPDX-License-Identifier: Apache-2.0
#include "sim/export/chakra.h"

#include <array>
#include <cmath>
#include <protozero/pbf_writer.hpp>
#include <protozero/varint.hpp>

#include "sim/export/message_steps.h"

namespace moesim {
namespace {

// Numbers of the fields and of the kinds of nodes in et_def.proto.
enum MetadataField : protozero::pbf_tag_type { metadata_version = 1, metadata_attr = 2 };
enum NodeField : protozero::pbf_tag_type {
  node_id = 1,
  node_name = 2,
  node_type = 3,
  node_data_deps = 5,
  node_duration_micros = 7,
  node_attr = 10
};
enum AttributeField : protozero::pbf_tag_type {
  attribute_name = 1,
  attribute_int32 = 7,
  attribute_int64 = 9,
  attribute_bool = 27,
  attribute_string = 29
};
enum NodeType : std::int32_t { comp_node = 4, comm_send_node = 5, comm_recv_node = 6 };

/// Adds attributes to a node, or to the metadata.
class Attributes {
 public:
  Attributes(protozero::pbf_writer& message, protozero::pbf_tag_type field)
      : message_(message), field_(field) {}
  void int32(const char* name, std::int64_t value) {
    attribute(name).add_int32(attribute_int32, static_cast<std::int32_t>(value));
  }
  void int64(const char* name, std::int64_t value) {
    attribute(name).add_int64(attribute_int64, value);
  }
  void boolean(const char* name, bool value) { attribute(name).add_bool(attribute_bool, value); }
  void string(const char* name, const std::string& value) {
    attribute(name).add_string(attribute_string, value);
  }

 private:
  /// It is a part of the message once it is destroyed.
  protozero::pbf_writer attribute(const char* name) {
    protozero::pbf_writer writer(message_, field_);
    writer.add_string(attribute_name, name);
    return writer;
  }

  protozero::pbf_writer& message_;
  protozero::pbf_tag_type field_;
};

void append_message(std::string& file, const std::string& message) {
  protozero::add_varint_to_buffer(&file, message.size());
  file += message;
}

std::string metadata_of(const Plan& plan) {
  std::string out;
  protozero::pbf_writer message(out);
  message.add_string(metadata_version, "0.0.4");
  Attributes(message, metadata_attr).string("plan", plan.name);
  return out;
}

/// Turns kernel times into whole microseconds whose sum is right to half of one.
class MicrosecondClock {
 public:
  std::uint64_t next(Seconds time) {
    const auto before = std::llround(micros_);
    micros_ += time.value * 1e6;
    return static_cast<std::uint64_t>(std::llround(micros_) - before);
  }

 private:
  double micros_ = 0;  // of all kernels so far
};

/// The file of one rank.
struct ChakraRank {
  std::string file;
  std::uint64_t nodes = 0;
  std::array<MicrosecondClock, stream_count> clocks;  // [stream]
};

void add_kernel(protozero::pbf_writer& node, const Op& op, GpuId gpu, std::uint64_t micros) {
  const Kernel& kernel = op.kernels()->of(op.group.member(gpu));
  node.add_uint64(node_duration_micros, micros);
  Attributes attributes(node, node_attr);
  attributes.boolean("is_cpu_op", false);
  attributes.int64("num_ops", std::llround(flops_of(kernel).value));
  attributes.int64("tensor_size", memory_traffic_of(kernel).value);
}

void add_message(protozero::pbf_writer& node, GpuId gpu, const MessageStep& step) {
  const bool sends = step.kind == MessageStep::Kind::send;
  Attributes attributes(node, node_attr);
  attributes.boolean("is_cpu_op", false);
  attributes.int32("comm_src", (sends ? gpu : step.peer).value);
  attributes.int32("comm_dst", (sends ? step.peer : gpu).value);
  attributes.int64("comm_size", step.bytes.value);
  attributes.int32("comm_tag", step.op.value);
}

NodeType node_type_of(MessageStep::Kind kind) {
  if (kind == MessageStep::Kind::send) return comm_send_node;
  return kind == MessageStep::Kind::receive ? comm_recv_node : comp_node;
}

void add_node(ChakraRank& rank, const Op& op, GpuId gpu, const MessageStep& step) {
  std::string out;
  protozero::pbf_writer node(out);
  node.add_uint64(node_id, rank.nodes++);
  node.add_string(node_name, op.label);
  node.add_enum(node_type, node_type_of(step.kind));
  node.add_packed_uint64(node_data_deps, step.after.begin(), step.after.end());
  if (step.kind == MessageStep::Kind::compute) {
    MicrosecondClock& clock = rank.clocks[static_cast<std::size_t>(op.stream)];
    add_kernel(node, op, gpu, clock.next(step.time));
  } else if (step.kind == MessageStep::Kind::join) {
    Attributes(node, node_attr).boolean("is_cpu_op", true);
  } else {
    add_message(node, gpu, step);
  }
  append_message(rank.file, out);
}

}  // namespace

std::vector<std::string> to_chakra(const Plan& plan, const GpuModels& gpus) {
  std::vector<ChakraRank> ranks(static_cast<std::size_t>(plan.gpus));
  for (ChakraRank& rank : ranks) append_message(rank.file, metadata_of(plan));
  visit_message_steps(plan, gpus, [&](GpuId gpu, const MessageStep& step) {
    add_node(ranks[gpu.index()], plan[step.op], gpu, step);
  });
  std::vector<std::string> files;
  for (ChakraRank& rank : ranks) files.push_back(std::move(rank.file));
  return files;
}

}  // namespace moesim
