# SPDX-License-Identifier: Apache-2.0
"""scripts/fit_kernels.py finds the constants that made its tables, and says how far it is off."""
import random
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = "context_attention_a100_sxm_vllm0.14.0.csv"
COLUMNS = "batch_size,isl,num_heads,num_key_value_heads,head_dim,attn_dtype,kv_cache_dtype,step,latency"


def fit(*arguments):
    done = subprocess.run([sys.executable, ROOT / "scripts/fit_kernels.py", *arguments], capture_output=True,
                          text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def seconds(batch, length, heads, kv_heads):
    """Of attention that reaches half of A100's peak with as many keys as 100, and 0.8 of its bandwidth."""
    attended = (length + 1) / 2
    compute = 4 * batch * length * attended * heads * 128 * (1 + 100 / attended) / (0.5 * 312e12)
    memory = 2 * 2 * batch * length * (heads + kv_heads) * 128 / (0.8 * 2.039e12)
    return 20e-6 + compute + memory


def write_table(folder, noise):
    draw = random.Random(1)
    lines = [COLUMNS]
    for length in (512, 1024, 2048, 4096, 8192):
        for batch in (1, 2, 4, 8, 16):
            for heads in (8, 16, 32, 64):
                time = seconds(batch, length, heads, 8) * draw.uniform(1 - noise, 1 + noise)
                lines.append(f"{batch},{length},{heads},8,128,bfloat16,bfloat16,0,{time * 1e3!r}")
    (folder / "aiconfigurator").mkdir()
    (folder / "aiconfigurator" / TABLE).write_text("\n".join(lines) + "\n")


class FitKernels(unittest.TestCase):
    def fitted(self, noise):
        with tempfile.TemporaryDirectory() as folder:
            write_table(Path(folder), noise)
            code, out, err = fit(folder, "a100 attention")
        self.assertEqual(code, 0, err)
        values = {name: float(value) for name, value in re.findall(r"(\w+): ([0-9.e+-]+)", out.splitlines()[0])}
        last = out.splitlines()[-1]
        return values, [float(value) for value in re.findall(r"([0-9.]+)%", last)]

    def test_finds_what_made_the_table(self):
        values, errors = self.fitted(noise=0)
        self.assertAlmostEqual(values["efficiency"], 0.5, delta=0.01)
        self.assertAlmostEqual(values["half_keys"], 100, delta=5)
        self.assertAlmostEqual(values["launch"], 20, delta=1)
        self.assertLess(errors[1], 1)  # 90th percentile of what it has not seen

    def test_says_how_far_it_is_off(self):
        _, errors = self.fitted(noise=0.1)
        self.assertAlmostEqual(errors[0], 5, delta=2)

    def test_refuses_what_there_is_not(self):
        code, _, err = fit("/nowhere", "a100 attention")
        self.assertEqual((code, err), (1, f"fit_kernels.py: no table /nowhere/aiconfigurator/{TABLE}[.gz]\n"))
        code, _, err = fit("/nowhere", "a100 atention")
        self.assertEqual(code, 1)
        self.assertTrue(err.startswith("fit_kernels.py: no fit 'a100 atention'\nhint: one of a100 gemm, "), err)


def expert_rows(kernel, efficiency, ranks):
    """Layers of 64 experts on so many ranks, bound by their products at a part of H100's peak, and 40 us."""
    for tokens in (1024, 2048, 4096, 8192, 16384, 32768):
        for hidden in (2048, 4096, 6144):
            for ffn in (512, 1024, 2048):
                rows = tokens * 8 // ranks
                side = 2 * (3 * rows * ffn + rows * hidden + tokens * hidden) + 3 * (tokens * hidden + rows * ffn)
                time = 40e-6 + 6 * rows * hidden * ffn / (efficiency * 1978.9e12) + side / 3.35e12
                yield f"{kernel},fp8_block,{tokens},{hidden},{ffn},8,64,1,{ranks},balanced,{time * 1e3!r}"


class FitExperts(unittest.TestCase):
    def test_kernels_are_told_apart_by_name_on_all_ranks(self):
        columns = ("kernel_source,moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,moe_tp_size,moe_ep_size,"
                   "distribution,latency")
        lines = [columns, *expert_rows("triton", 0.1, 1), *expert_rows("cutlass", 0.2, 4)]
        with tempfile.TemporaryDirectory() as folder:
            tables = Path(folder) / "aiconfigurator"
            tables.mkdir()
            (tables / "moe_perf_h100_sxm_vllm0.24.0.csv").write_text("\n".join(lines) + "\n")
            for name, efficiency in (("Triton", 0.1), ("CUTLASS", 0.2)):
                code, out, err = fit(folder, f"h100 MoE fp8 block, {name}")
                self.assertEqual(code, 0, err)
                self.assertIn("of 54 rows", out)
                found = float(re.search(r"efficiency: ([0-9.]+)", out)[1])
                self.assertAlmostEqual(found, efficiency, delta=0.1 * efficiency)


def training_rows(model):
    """Attention of GB200 that reaches 0.6 of the peak, MLA 0.9 of that, backward 0.7, and half with 200 keys."""
    qk, v = (192, 128) if model == "dsv3" else (128, 128)
    window = 128 if model == "gpt_oss" else None
    for length in (2048, 4096, 8192, 16384, 32768):
        for mask in ("top_left", "no_mask"):
            reach = min(window or length, length)
            attended = reach - reach * (reach - 1) / 2 / length if mask == "top_left" else length
            times = []
            for widths, passes, reached in ((qk + v, 1, 0.6), (3 * qk + 2 * v, 2, 0.6 * 0.7)):
                products = 2 * 2 * length * attended * 64 * widths * (1 + 200 / attended)
                uneven = 0.9 if qk != v else 1
                moved = passes * 2 * 2 * length * (64 + 8) * (qk + v) / (0.78 * 8e12)
                times.append(1e3 * (5e-6 + products / (reached * uneven * 2500e12) + moved))
            row = f"cudnn,bfloat16,{mask},2,{length},64,8,{qk},{v}"
            yield f"{row},fwd,False,{times[0]!r},{window or ''}"
            yield f"{row},bwd,False,{times[1]!r},{window or ''}"
            yield f"{row},bwd,True,{9 * times[1]!r},{window or ''}"  # deterministic: left out


class FitTraining(unittest.TestCase):
    def test_finds_both_passes_windows_and_uneven_widths(self):
        columns = ("backend,data_type,attn_mask,batch_size,q_seqlen,num_q_heads,num_kv_heads,head_dim_qk,head_dim_vo,"
                   "profile_pass,deterministic_bwd,time_ms,sliding_window_size")
        with tempfile.TemporaryDirectory() as folder:
            tables = Path(folder) / "cudnn-frontend"
            tables.mkdir()
            for model in ("dsv3", "kimiK26", "llama3.1", "gpt_oss"):
                (tables / f"{model}_gb200.csv").write_text("\n".join([columns, *training_rows(model)]) + "\n")
            code, out, err = fit(folder, "gb200 attention in training")
        self.assertEqual(code, 0, err)
        self.assertIn("of 80 rows", out)
        values = {name: float(value) for name, value in re.findall(r"(\w+): ([0-9.e+-]+)", out.splitlines()[0])}
        self.assertAlmostEqual(values["backward"], 0.7, delta=0.03)
        self.assertAlmostEqual(values["uneven"], 0.9, delta=0.06)
        self.assertAlmostEqual(values["half_keys"], 200, delta=25)


class FitServingKernels(unittest.TestCase):
    def test_finds_what_made_the_table(self):
        """Decode at 0.9 of H100's bandwidth, with 100 keys of every sequence besides, and 10 us."""
        lines = ["batch_size,num_heads,num_key_value_heads,head_dim,kv_cache_dtype,step,window_size,latency"]
        for batch in (1, 4, 16, 64, 256):
            for step in (15, 63, 255, 1023, 4095, 16383):
                for kv_heads in (1, 2, 4, 8):
                    moved = 2 * (batch * (step + 1 + 100) * kv_heads * 256 + batch * 8 * 256)
                    latency = 1e3 * (10e-6 + moved / (0.9 * 3.35e12))
                    lines.append(f"{batch},8,{kv_heads},128,bfloat16,{step},0,{latency!r}")
        with tempfile.TemporaryDirectory() as folder:
            tables = Path(folder) / "aiconfigurator"
            tables.mkdir()
            (tables / "generation_attention_h100_sxm_vllm0.24.0.csv").write_text("\n".join(lines) + "\n")
            done = subprocess.run([sys.executable, ROOT / "scripts/fit_serving_kernels.py", folder, "h100 decode"],
                                  capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        values = {name: float(value) for name, value in re.findall(r"(\w+): ([0-9.e+-]+)", done.stdout.splitlines()[0])}
        self.assertAlmostEqual(values["memory"], 0.9, delta=0.02)
        self.assertAlmostEqual(values["launch"], 10, delta=0.5)
        self.assertAlmostEqual(values["half_keys"], 100, delta=15)


if __name__ == "__main__":
    unittest.main()
