# SPDX-License-Identifier: Apache-2.0
"""Programs that wait for another program: it works while all of them fit onto the GPU, and never with one more.

Each program notes that it has begun, and waits until program ``target`` has. Nothing promises that this program begins
before the waiting ones end; so each gives up after some tries. Without that, the launch would hang for ever.

Shapes: one int32 for each program. The number of programs that fit is that of ``schedule_occupancy.py``.
Source: CUDA's guide asks that thread blocks can run in any order.

Run it on a GPU with ``python schedule_waiting.py``, or without one in Triton's interpreter with
``TRITON_INTERPRET=1 python schedule_waiting.py``.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl


# --8<-- [start:kernel]
@triton.jit
def wait_kernel(begun_ptr, ended_ptr, before_ptr, gave_up_ptr, target, tries):
    pid = tl.program_id(axis=0)
    tl.store(before_ptr + pid, tl.atomic_add(ended_ptr, 0))  # how many have ended
    tl.atomic_xchg(begun_ptr + pid, 1)
    seen = tl.atomic_add(begun_ptr + target, 0)  # reads what others wrote
    while (seen == 0) & (tries > 0):
        seen = tl.atomic_add(begun_ptr + target, 0)
        tries -= 1
    tl.store(gave_up_ptr + pid, 1 - seen)
    tl.atomic_add(ended_ptr, 1)
# --8<-- [end:kernel]


# --8<-- [start:host]
class Waited(NamedTuple):
    """The end of each program: 1 if it gave up, and how many programs had ended when it began; both int32."""

    gave_up: torch.Tensor
    before: torch.Tensor
    compiled: object  # the kernel


def wait_for(target: int, *, programs: int, tries: int = 2000, device="cuda") -> Waited:
    """Let ``programs`` programs wait for number ``target``, each for ``tries`` looks after its first.

    Raises ``ValueError`` for what cannot be launched.

    >>> wait_for(1, programs=3, tries=5, device="cpu")[:2]  # the interpreter runs one after the other
    (tensor([1, 0, 0], dtype=torch.int32), tensor([0, 1, 2], dtype=torch.int32))
    """
    if not 1 <= programs < 2**31 or not 0 <= target < programs or not 0 <= tries <= 10**6:
        raise ValueError(
            "programs must be 1 or more, target one of them, and tries at most a million; "
            f"got {programs}, {target} and {tries}"
        )
    begun, ended = (torch.zeros(size, dtype=torch.int32, device=device) for size in (programs, 1))
    before, gave_up = torch.empty_like(begun), torch.empty_like(begun)
    with torch.cuda.device_of(begun):
        compiled = wait_kernel[(programs,)](begun, ended, before, gave_up, target, tries, num_warps=4)
    return Waited(gave_up, before, compiled)
# --8<-- [end:host]


# --8<-- [start:main]
def main():
    device = "cuda" if isinstance(wait_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    if device == "cuda":
        from snippets.gpu.schedule_occupancy import programs_at_once

        at_once = programs_at_once(wait_for(0, programs=1).compiled)
        fit = at_once * torch.cuda.get_device_properties(0).multi_processor_count
        print("programs at once on a multiprocessor, predicted:", at_once)
    else:
        fit = 1  # the interpreter runs one program after the other
    print("programs that fit at once:", fit)
    for name, target, programs in (
        ("as many as fit, waiting for the last", fit - 1, fit),
        ("one more, waiting for the last", fit, fit + 1),
        ("one more, waiting for the first", 0, fit + 1),
    ):
        waited = wait_for(target, programs=programs, tries=2000 if device == "cuda" else 3, device=device)
        print(f"{name}, gave up: {int(waited.gave_up.sum())}")
        if target:
            print(f"{name}, had ended when it began: {int(waited.before[target])}")
# --8<-- [end:main]


if __name__ == "__main__":
    main()
