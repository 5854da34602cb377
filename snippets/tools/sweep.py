# SPDX-License-Identifier: Apache-2.0
"""Launch each config several times with the same input, and count the different results: which configs can be trusted?

``sum_kernel`` adds up each row in steps of BLOCK. Another BLOCK adds in another order, so two configs may well differ
in the last bits. One config must not differ from itself: if it does, there is a race, your own or the compiler's.

Shapes: ``x`` (rows, columns), the result (rows,), float32.
Source: such a sweep found a race of the compiler's, https://github.com/triton-lang/triton/issues/10590.

Run it with ``TRITON_INTERPRET=1 python sweep.py``, or without the variable on a machine with a GPU.
"""

from collections.abc import Callable

import torch
import triton
import triton.language as tl
from torch import Tensor


# --8<-- [start:kernel]
@triton.jit
def sum_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        i = start + lanes
        total += tl.load(
            x_ptr + row * columns + i, mask=i < columns, other=0.0
        )
    tl.store(out_ptr + row, tl.sum(total, axis=0))
# --8<-- [end:kernel]


DEVICE = "cuda" if isinstance(sum_kernel, triton.JITFunction) else "cpu"

# --8<-- [start:configs]
CONFIGS = [
    {"BLOCK": block, "num_warps": warps, "num_stages": stages}
    for block in (64, 256)
    for warps in (1, 4)
    for stages in (1, 3)
]
# --8<-- [end:configs]


def sums(x: Tensor, config: dict[str, int]) -> Tensor:
    rows, columns = x.shape
    out = x.new_full((rows,), float("nan"))
    sum_kernel[(rows,)](x, out, columns, **config)
    return out


# --8<-- [start:sweep]
def different(results: list[Tensor]) -> int:
    """Return how many different results there are, to the bit."""
    return len({bytes(each.cpu().numpy()) for each in results})


def sweep(
    launch: Callable[[Tensor, dict[str, int]], Tensor],
    x: Tensor,
    configs: list[dict[str, int]],
    times: int = 10,
) -> tuple[dict[str, int], int]:
    """Return how many results each config has, and how many all have."""
    found = {}
    for config in configs:
        name = ", ".join(f"{key}={value}" for key, value in config.items())
        found[name] = [launch(x, config) for _ in range(times)]
    by_config = {name: different(each) for name, each in found.items()}
    together = [result for each in found.values() for result in each]
    return by_config, different(together)
# --8<-- [end:sweep]


def main():
    if DEVICE == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    x = torch.randn(8, 1000, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    by_config, of_all = sweep(sums, x, CONFIGS)
    for config, results in by_config.items():
        print(f"{config}: {results}")
    print(f"all configs together: {of_all}")


if __name__ == "__main__":
    main()
