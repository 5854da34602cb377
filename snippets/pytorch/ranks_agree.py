# SPDX-License-Identifier: Apache-2.0
"""Two ranks compute the same sums, each with the config that its own tuner chose, and with rank 0's: who agrees?

Another BLOCK adds in another order. So two ranks that should hold the same numbers differ in the last bits, until
they launch the same config, or until the numbers are reduced over the ranks, which gives all ranks one result.

Run it in the interpreter with ``TRITON_INTERPRET=1 python ranks_agree.py``.
Source: PyTorch, *torch.distributed*.
"""

import os

import torch
import triton
from torch import Tensor, distributed

from snippets.pytorch.gradients import free_port
from snippets.tools.sweep import sums

RANKS = 2

# --8<-- [start:choices]
# What autotune might choose on each rank, where times are close.
CHOICES = [
    triton.Config({"BLOCK": block}).all_kwargs() for block in (64, 256)
]
# --8<-- [end:choices]


# --8<-- [start:agree]
def from_rank_0(config: dict) -> dict:
    """Return the config that rank 0 passes, on every rank."""
    box = [config]
    distributed.broadcast_object_list(box, src=0)
    return box[0]


def agree(x: Tensor) -> bool:
    """Return whether all ranks hold the same bits."""
    held = [torch.empty_like(x) for _ in range(RANKS)]
    distributed.all_gather(held, x)
    return all(torch.equal(each, held[0]) for each in held)
# --8<-- [end:agree]


def on_a_rank(rank: int, port: int) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    distributed.init_process_group("gloo", rank=rank, world_size=RANKS)
    x = torch.randn(8, 1000, generator=torch.Generator().manual_seed(0))
    # --8<-- [start:ways]
    own = CHOICES[rank]
    reduced = sums(x, own)
    distributed.all_reduce(reduced)
    found = {
        "each its own config": sums(x, own),
        "the config of rank 0": sums(x, from_rank_0(own)),
        "each its own config, then all_reduce": reduced,
    }
    # --8<-- [end:ways]
    for way, result in found.items():
        same = agree(result)
        if rank == 0:
            print(f"{way}, the same bits: {same}")
    distributed.destroy_process_group()


def main():
    torch.multiprocessing.start_processes(on_a_rank, (free_port(),), nprocs=RANKS, start_method="spawn")


if __name__ == "__main__":
    main()
