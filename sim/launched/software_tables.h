// SPDX-License-Identifier: Apache-2.0
// What is known of each software's arguments, and the readers of what tables cannot say.
#pragma once

#include "sim/launched/argument_table.h"
#include "sim/launched/launch_file.h"
#include "sim/launched/launched.h"

namespace moesim {

ArgumentTable megatron_table();
ArgumentTable vllm_table();
ArgumentTable sglang_table();
ArgumentTable trtllm_table();

ArgumentTable table_of(LaunchSoftware software);

/// Adds the arguments that a file of options has, or a value in JSON.
void complete_vllm(LaunchFile& launch);
void complete_trtllm(LaunchFile& launch);

void read_megatron(const LaunchFile& launch, Launched& launched);
/// Parallelism and batch of Megatron's flags. Throws Error for what does not divide.
void read_megatron_sizes(const LaunchFile& launch, Launched& launched);
/// Sizes of Megatron's model that its flags say together. Throws Error for a pattern of layers that
/// cannot be read.
void read_megatron_model(const LaunchFile& launch, Launched& launched);
void read_vllm(const LaunchFile& launch, Launched& launched);
void read_sglang(const LaunchFile& launch, Launched& launched);
void read_trtllm(const LaunchFile& launch, Launched& launched);

/// GPUs as torchrun, DeepSpeed, Accelerate, srun, mpirun, #SBATCH and NeMo's trainer say them; 0:
/// nobody does.
int gpus_of_launcher(const LaunchFile& launch, Launched& launched);

}  // namespace moesim
