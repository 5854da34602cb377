# SPDX-License-Identifier: Apache-2.0
"""Two faults that a tuner hides or makes: configs that fill each other's gaps, and two threads at a cold key.

``half_bug`` stores ones, and with ``ALL=False`` it forgets the second half. The tuner tries each config on the same
output, so whatever one of them has stored stays there for the next. ``ones_kernel`` has no fault; here it is two
threads that launch it for the first time at once.

Shapes: ``out`` (n,), float32.
Source: ``triton/runtime/autotuner.py``; the questions, https://github.com/triton-lang/triton/issues/9230 and 11494.

Run it on a GPU with ``python tuner_bug.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import contextlib
import threading

import torch
import triton
import triton.language as tl


# --8<-- [start:half]
@triton.jit
def half_bug(out_ptr, n, BLOCK: tl.constexpr, ALL: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    end = n if ALL else n // 2
    tl.store(out_ptr + i, 1.0, mask=i < end)
# --8<-- [end:half]


DEVICE = "cuda" if isinstance(half_bug, triton.JITFunction) else "cpu"


# --8<-- [start:prefer]
def last_is_fastest():
    """Return a timer for a tuner: each config takes less time than the one before it."""
    tried = []

    def timer(call, quantiles):
        call()
        tried.append(call)
        return [1 / len(tried) for _ in quantiles]

    return timer
# --8<-- [end:prefer]


# --8<-- [start:alone]
def ones(configs: list[triton.Config], n: int = 8) -> torch.Tensor:
    tuned = triton.autotune(configs, key=["n"], do_bench=last_is_fastest())
    out = torch.full((n,), float("nan"), device=DEVICE)
    tuned(half_bug)[(1,)](out, n)
    return out


RIGHT = triton.Config({"BLOCK": 8, "ALL": True})
WRONG = triton.Config({"BLOCK": 8, "ALL": False})
# --8<-- [end:alone]


@triton.jit
def ones_kernel(out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 1.0, mask=i < n)


SIZES = (4, 8)


# --8<-- [start:threads]
def launch_by_two(guard) -> list[str]:
    """Launch a tuned kernel from two threads, the second while the first tunes. Return what came of each."""
    tuning, outcomes = threading.Event(), {}
    began = threading.Event()
    for size in SIZES:  # compiled before, so that no thread waits for that
        ones_kernel[(1,)](torch.zeros(5, device=DEVICE), 5, BLOCK=size)

    def slow_timer(call, quantiles):
        call()
        if not began.is_set():
            began.set()
            tuning.wait(2)  # seconds, in which the other thread launches
        return [1.0 for _ in quantiles]

    configs = [triton.Config({"BLOCK": size}) for size in SIZES]
    kernel = triton.autotune(configs, key=["n"], do_bench=slow_timer)(ones_kernel)

    def launch(name, n):
        out = torch.zeros(n, device=DEVICE)
        try:
            with guard:
                kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](out, n)
            outcomes[name] = "right" if out.eq(1).all() else "wrong"
        except Exception as error:
            outcomes[name] = f"{type(error).__name__}: {error}"

    first = threading.Thread(target=launch, args=("first", 5))
    second = threading.Thread(target=launch, args=("second", 7))
    first.start()
    began.wait()
    second.start()
    second.join(1)
    tuning.set()
    first.join()
    second.join()
    return [f"{name} thread: {outcomes[name]}" for name in ("first", "second")]
# --8<-- [end:threads]


def main():
    if DEVICE == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    print("## a config that stores half")
    for name, configs in {"both configs": [RIGHT, WRONG], "the wrong one alone": [WRONG]}.items():
        print(f"{name}: {' '.join(f'{value:g}' for value in ones(configs).tolist())}")
    print("## two threads, without a lock")
    print("\n".join(launch_by_two(contextlib.nullcontext())))
    print("## two threads, with a lock")
    print("\n".join(launch_by_two(threading.Lock())))


if __name__ == "__main__":
    main()
