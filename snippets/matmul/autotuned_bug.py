# SPDX-License-Identifier: Apache-2.0
"""Show what auto-tuning does to a kernel that changes what it reads: trying a config is running the kernel.

``add_bug`` adds x to out in place: ``out[i] += x[i]``. The tuner has two configs and runs each three times (a real one
runs them for a tenth of a second), and then once more, for the caller. Three wrappers: without any care, with
``reset_to_zero``, with ``restore_value``.

Shapes: ``x`` and ``out`` (n,), float32.
Source: ``triton/runtime/autotuner.py``.

Run it on a GPU with ``python autotuned_bug.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import torch
import triton
import triton.language as tl

TRIES = 3


# --8<-- [start:tuner]
def three_tries(call, quantiles):
    """Count the tuner's tries and return the same time for each.

    To this timer, all configs are equally fast.
    """
    for _ in range(TRIES):
        call()
    return [1.0 for _ in quantiles]


def tuned(**care):
    configs = [triton.Config({"BLOCK": 4}), triton.Config({"BLOCK": 8})]
    return triton.autotune(configs, key=["n"], do_bench=three_tries, **care)
# --8<-- [end:tuner]


# --8<-- [start:kernel]
@triton.jit
def add_bug(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    out = tl.load(out_ptr + i, mask=i < n)
    tl.store(out_ptr + i, out + tl.load(x_ptr + i, mask=i < n), mask=i < n)
# --8<-- [end:kernel]


# --8<-- [start:kernels]
KERNELS = {
    "no care": tuned()(add_bug),
    "reset_to_zero": tuned(reset_to_zero=["out_ptr"])(add_bug),
    "restore_value": tuned(restore_value=["out_ptr"])(add_bug),
}
# --8<-- [end:kernels]


def add(kernel, x: torch.Tensor, out: torch.Tensor) -> None:
    kernel[lambda meta: (triton.cdiv(len(x), meta["BLOCK"]),)](x, out, len(x))


# --8<-- [start:main]
def main():
    device = "cuda" if isinstance(add_bug, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    for name, kernel in KERNELS.items():
        print(f"## {name}")
        x, out = torch.ones(10, device=device), torch.full((10,), 100.0, device=device)
        for call in ("first call", "second call"):
            add(kernel, x, out)
            print(f"{call}, out[0]: {out[0].item():g}")
# --8<-- [end:main]


if __name__ == "__main__":
    main()
