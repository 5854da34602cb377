# SPDX-License-Identifier: Apache-2.0
"""A kernel on two GPUs: launched for a tensor on the other one, and in a model under DDP and FSDP.

The model is a layer, RMS norm by the kernel of ``compile.py`` as an operator, and another layer. Two processes train
it, each with a GPU and half of the batch; their gradients should be those of one process with the whole batch. Without
GPUs, the two train in the interpreter and talk through ``gloo``.

Run it with ``python two_gpus.py`` on a machine with two GPUs.
Source: PyTorch, ``DistributedDataParallel`` and ``fully_shard``; the questions,
https://github.com/triton-lang/triton/issues/5205 and https://github.com/linkedin/Liger-Kernel/issues/826.
"""

import os
import subprocess
import sys
import tempfile
import textwrap
from datetime import timedelta
from pathlib import Path

import torch
import triton
from torch import Tensor, distributed, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate
from torch.nn.parallel import DistributedDataParallel

from snippets.pytorch.compile import closed, plain, rms_norm_kernel

RANKS = 2
ROWS, COLUMNS = 8, 64
KIND = "cuda" if isinstance(rms_norm_kernel, triton.JITFunction) else "cpu"
PATIENCE = timedelta(seconds=40)
WIDTH = 76  # of what is printed


# --8<-- [start:guarded]
def guarded(x: Tensor, weight: Tensor) -> Tensor:
    """Launch on the GPU that holds x, whichever is current."""
    with torch.cuda.device_of(x):
        return plain(x, weight)
# --8<-- [end:guarded]


# --8<-- [start:late]
def filled_late(norm) -> str:
    """Fill x on GPU 1 after a pause, and call norm with GPU 0 current."""
    x = torch.zeros(4, COLUMNS, device="cuda:1")
    weight = torch.ones(COLUMNS, device="cuda:1")
    with torch.cuda.device(1):
        torch.cuda.synchronize()
        torch.cuda._sleep(50_000_000)
        x.fill_(3)
    try:
        out = norm(x, weight)
    except ValueError as error:
        return f"{type(error).__name__}: {error}"
    for gpu in (0, 1):
        torch.cuda.synchronize(gpu)
    ones = torch.ones_like(out)
    return "right" if torch.allclose(out, ones) else "wrong"
# --8<-- [end:late]


def other_gpu() -> None:
    """Launch for tensors on GPU 1 while GPU 0 is current, before and after PyTorch opened the way between them."""
    torch.cuda.set_device(0)
    for gpu in (0, 1):  # compiled before, and loaded
        x = torch.ones(4, COLUMNS, device=f"cuda:{gpu}")
        guarded(x, x[0].clone())
    print(f"a plain launch: {filled_late(plain)}")
    print(f"within device_of: {filled_late(guarded)}")
    torch.ones(1, device="cuda:0").to("cuda:1")
    torch.ones(1, device="cuda:1").to("cuda:0")
    print(f"a plain launch, after copies between the GPUs: {filled_late(plain)}")
    print(f"within device_of, after them: {filled_late(guarded)}")


# --8<-- [start:model]
class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(COLUMNS))

    def forward(self, x: Tensor) -> Tensor:
        return closed(x, self.weight)


def model() -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Linear(COLUMNS, COLUMNS), Norm(), nn.Linear(COLUMNS, 1)
    return nn.Sequential(*layers).to(KIND)


def batch() -> Tensor:
    made = torch.Generator().manual_seed(1)
    return torch.randn(ROWS, COLUMNS, generator=made).to(KIND)


def gradients(model: nn.Module, call, x: Tensor) -> list[Tensor]:
    call(x).square().mean().backward()
    return [each.grad for each in model.parameters()]
# --8<-- [end:model]


def same(found: list[Tensor], wanted: list[Tensor]) -> bool:
    return all(torch.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(found, wanted, strict=True))


def as_on_rank_0(found: list[Tensor]) -> bool:
    """Return whether this rank's tensors are rank 0's."""
    of_0 = [each.clone() for each in found]
    for each in of_0:
        distributed.broadcast(each, 0)
    return same(found, of_0)


# --8<-- [start:ways]
def by_ddp(part: Tensor) -> list[Tensor]:
    wrapped = DistributedDataParallel(model())
    return gradients(wrapped, wrapped, part)


def past_ddp(part: Tensor) -> list[Tensor]:
    """Call the model inside the wrapper, which then never learns of it."""
    wrapped = DistributedDataParallel(model())
    return gradients(wrapped, wrapped.module, part)


def by_fsdp(part: Tensor) -> list[Tensor]:
    sharded = model()
    for layer in sharded:
        fully_shard(layer)
    fully_shard(sharded)
    found = gradients(sharded, sharded, part)
    return [each.full_tensor() for each in found]
# --8<-- [end:ways]


WAYS = {"DDP": by_ddp, "DDP, its inner model called": past_ddp, "FSDP": by_fsdp}


# --8<-- [start:shards]
def with_a_shard(x: Tensor) -> dict:
    """Return calls that normalize by a weight of which a rank has half."""
    weight = fully_shard(Norm().to(KIND)).weight
    mesh = weight.device_mesh
    everywhere = DTensor.from_local(x, mesh, [Replicate()])
    whole = weight.full_tensor()
    return {
        "gathered by hand": lambda: closed(x, whole),
        "its local half": lambda: closed(x, weight.to_local()),
        "the operator": lambda: closed(x, weight),
        "the operator, x too": lambda: closed(everywhere, weight),
        "a plain launch": lambda: plain(x, weight),
    }
# --8<-- [end:shards]


def outcome(call, wanted: Tensor) -> str:
    """Return whether a call returns what it should, or the first line of its error."""
    try:
        return "right" if torch.allclose(call(), wanted, atol=1e-5) else "wrong"
    except Exception as error:
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"


def on_a_rank(rank: int, folder: Path) -> None:
    """Print what a rank finds; rank 0 speaks."""
    speak = print if rank == 0 else lambda *_, **__: None
    store = distributed.FileStore(str(folder / "store"), RANKS)
    how = {}
    if KIND == "cuda":
        torch.cuda.set_device(rank)
        how = {"device_id": torch.device("cuda", rank)}
    distributed.init_process_group(
        "nccl" if KIND == "cuda" else "gloo", store=store, rank=rank, world_size=RANKS, timeout=PATIENCE, **how
    )
    whole = model()
    wanted = gradients(whole, whole, batch())
    part = batch().chunk(RANKS)[rank]
    for name, way in WAYS.items():
        found = way(part)
        alike = torch.tensor([int(same(found, wanted)), int(as_on_rank_0(found))], device=KIND)
        distributed.all_reduce(alike, distributed.ReduceOp.MIN)
        said = f"gradients as of one process: {bool(alike[0])}; the same on both ranks: {bool(alike[1])}"
        speak(f"{name}, {said}", flush=True)
    calls = with_a_shard(batch())
    normal = plain(batch(), torch.ones(COLUMNS, device=KIND))
    distributed.destroy_process_group()
    speak("## a weight of which each process holds a half", flush=True)
    for name, call in calls.items():
        said = f"{name}: {outcome(call, normal)}"
        speak(textwrap.fill(said, WIDTH, subsequent_indent="  "), flush=True)
    if KIND == "cuda":
        os._exit(0)  # the last launch may have left a GPU on which nothing can be tidied up


def two_processes() -> None:
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, os.path.abspath(__file__)]
        ranks = [
            subprocess.Popen(
                [*command, str(rank), folder], env=environment,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for rank in range(RANKS)
        ]  # fmt: skip
        for process in ranks:
            printed, errors = process.communicate(timeout=90)
            if process.returncode:
                raise SystemExit(errors)
            print(printed, end="")


def main():
    if len(sys.argv) > 1:
        return on_a_rank(int(sys.argv[1]), Path(sys.argv[2]))
    if KIND == "cuda" and torch.cuda.device_count() < RANKS:
        raise SystemExit(f"it needs two GPUs, and {torch.cuda.device_count()} can be seen here")
    if KIND == "cuda":
        print("## tensors on GPU 1, while GPU 0 is current")
        other_gpu()
    print("## two processes, each with half of the batch", flush=True)
    two_processes()


if __name__ == "__main__":
    main()
