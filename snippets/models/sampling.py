# SPDX-License-Identifier: Apache-2.0
"""Draw the next token of a language model from its logits, with a temperature, top-k and top-p, in one kernel.

A token is to come out with the probability ``exp(logit / temperature)``, divided by the sum over all tokens. Nothing has
to be divided or sorted for that. Give each token a random waiting time, on average the shorter the more probable it is:
the first to arrive is drawn, and each token arrives first exactly as often as it should.

Top-k and top-p only decide who takes part: all tokens whose logit reaches a threshold. The kernel finds the threshold
by bisection: it counts the logits that reach a pivot (top-k), or adds their probabilities (top-p), and goes on in the
half where the answer lies. A logit of 16 bits takes at most 16 rounds.

A program takes a row and keeps it in registers, so the row is read once. A long row is shared by up to eight thread
blocks, a cluster, on GPUs that have those (compute capability 9 and newer).

Shapes: ``logits`` ``(..., columns)``; one token for each row.
Source: Tim Vieira, *Gumbel-max trick and weighted reservoir sampling*, 2014, for the race; a search for the threshold
instead of a sort is the idea of FlashInfer, *Sorting-free GPU kernels for LLM sampling*, 2025.

Run it on a GPU with ``python sampling.py``, or with ``TRITON_INTERPRET=1 python sampling.py`` in the interpreter.
"""  # noqa: E501 - what is recorded covers this text

import functools
import numbers

import torch
import triton
import triton.language as tl

# Of a float32 that came from such a dtype, the last bits are zeros
ZEROS = {torch.float16: 13, torch.bfloat16: 16, torch.float32: 0}
MOST = 2**18  # of a row's logits, which registers have to hold


# --8<-- [start:kernel]
@triton.jit(do_not_specialize=["top_k"])
def sample_kernel(
    logits_ptr,
    seeds_ptr,
    tokens_ptr,
    temperature,
    top_k,
    top_p,
    columns,
    stride,
    ZEROS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Draw a token from one row.

    Parameters:
        logits_ptr: ``(rows, columns)``, ``stride`` from row to row.
        seeds_ptr: ``(rows,)``, int64.
        tokens_ptr: ``(rows,)``, int64; -1 if no logit is above -inf.
        temperature: A number, or a pointer to one for each row; so
            ``top_k``, where 0 means all, and ``top_p``.
        ZEROS: As in the table, for the dtype of the logits.
        BLOCK: A power of two, no less than ``columns``.
    """
    row = tl.program_id(axis=0).to(tl.int64)
    heat, k, p = own(temperature, row), own(top_k, row), own(top_p, row)
    column = tl.arange(0, BLOCK)
    logits = tl.load(
        logits_ptr + row * stride + column,
        mask=column < columns,
        other=float("-inf"),
    ).to(tl.float32)
    logits = tl.where(logits == logits, logits, float("-inf"))  # no NaN
    # --8<-- [start:chances]
    largest = tl.max(logits, axis=0)
    chance = tl.exp((logits - largest) / heat)
    chance = tl.where(logits == largest, 1.0, chance)
    order = order_of(logits, ZEROS)
    # --8<-- [end:chances]
    # --8<-- [start:thresholds]
    low = order_of(float("-inf"), ZEROS)
    high = order_of(largest, ZEROS)
    if (k > 0) & (k < columns):
        low = threshold(order, tl.full((BLOCK,), 1, tl.int32), k, low, high)
    if p < 1:
        chances = tl.where(order >= low, chance, 0.0)
        low = threshold(
            order, chances, p * tl.sum(chances, axis=0), low, high
        )  # fmt: skip
    # --8<-- [end:thresholds]
    # --8<-- [start:race]
    bits = tl.randint(tl.load(seeds_ptr + row), column)
    runs = (order >= low) & (logits > float("-inf"))
    wait = tl.where(runs, waiting_time(bits) / chance, float("inf"))
    token = tl.argmin(wait, axis=0)
    token = tl.where(largest > float("-inf"), token, -1)
    tl.store(tokens_ptr + row, token)
    # --8<-- [end:race]
# --8<-- [end:kernel]


@triton.jit
def own(value, row):
    """Return a row's own value, where each has one."""
    value = tl.to_tensor(value)
    return tl.load(value + row) if value.dtype.is_ptr() else value


# --8<-- [start:order]
@triton.jit
def order_of(logits, ZEROS: tl.constexpr):
    """Return integers that compare as the logits do."""
    bits = tl.cast(logits, tl.float32).to(tl.int32, bitcast=True)
    magnitude = bits & 0x7FFFFFFF
    return tl.where(bits < 0, -magnitude, magnitude) >> ZEROS
# --8<-- [end:order]


# --8<-- [start:search]
@triton.jit
def threshold(order, weights, wanted, low, high):
    """Return the highest threshold whose weights add to ``wanted``.

    It is at least ``low``, which keeps enough, and at most ``high``.
    """
    while low < high:
        # Rounded up, and without a sum that 32 bits could not hold.
        middle = low + (high.to(tl.int64) - low + 1 >> 1).to(tl.int32)
        kept = tl.sum(tl.where(order >= middle, weights, 0), axis=0)
        if kept >= wanted:
            low = middle
        else:
            high = middle - 1
    return low
# --8<-- [end:search]


# --8<-- [start:time]
@triton.jit
def waiting_time(bits):
    # A number between 0 and 1, but neither: 0 would win at once, and 1
    # never arrive.
    u = (bits.to(tl.uint32, bitcast=True).to(tl.float32) + 0.5) * 2.0**-32
    u = tl.minimum(u, 0.9999999)
    # -log(1 - u). Winners have a tiny u, which 1 - u would round away.
    series = u * (1 + u * (0.5 + u * 0.3333333))
    return tl.where(u < 0.01, series, -tl.log(1 - u))
# --8<-- [end:time]


# --8<-- [start:host]
def sample(
    logits: torch.Tensor,
    seeds: torch.Tensor,
    *,
    temperature: float | torch.Tensor = 1.0,
    top_k: int | torch.Tensor = 0,
    top_p: float | torch.Tensor = 1.0,
) -> torch.Tensor:
    """Draw one token from each row of logits.

    Args:
        logits: ``(..., columns)`` on a GPU (in the interpreter: on the CPU), float16, bfloat16 or float32. It is copied
            unless the elements of a row are neighbors in memory and the rows lie evenly apart. A NaN is never drawn.
        seeds: ``(...)``, int64, for each row its own. The same seed and row give the same token in any batch; the next
            token of a text needs another seed.
        temperature: What logits are divided by; 0 takes the most probable token. A number, or float32 for each row.
        top_k: Draw from the k most probable tokens; 0 for all. A number, or int32 for each row.
        top_p: Draw from the fewest most probable tokens whose probabilities add to p or more, of those that top-k
            leaves. A number, or float32 for each row.

    Tokens with equal logits are kept or left out together. So top-k may keep more than k, which matters with 16 bits.

    Returns:
        New int64 tokens ``(...)``; -1 for a row with no logit above -inf. The kernel may still be running.

    Raises:
        ValueError: An argument is something that the kernel cannot serve.

    >>> sample(torch.tensor([[1.0, 3.0, 2.0]]), torch.tensor([7]), temperature=0.0)
    tensor([1])
    """
    # --8<-- [start:launch]
    rows, columns = check_arguments(
        logits, seeds, temperature, top_k, top_p
    )  # fmt: skip
    tokens = torch.empty(
        seeds.shape, dtype=torch.int64, device=logits.device
    )  # fmt: skip
    if not rows:
        return tokens
    if columns == 0:
        return tokens.fill_(-1)
    flat = logits.flatten(0, -2) if logits.ndim > 1 else logits[None]
    flat = (
        flat if flat.stride(1) == 1 or columns == 1 else flat.contiguous()
    )
    settings = [
        x.contiguous() if isinstance(x, torch.Tensor) else x
        for x in (temperature, top_k, top_p)
    ]
    block = triton.next_power_of_2(columns)
    clusters, warps = launch_of(block, logits.device)
    # Triton launches on the current device, which need not be that of logits.
    with torch.cuda.device_of(logits):
        sample_kernel[(rows,)](
            flat,
            seeds.contiguous(),
            tokens,
            *settings,
            columns,
            flat.stride(0),
            ZEROS=ZEROS[logits.dtype],
            BLOCK=block,
            num_warps=warps,
            num_ctas=clusters,
        )
    return tokens
    # --8<-- [end:launch]
# --8<-- [end:host]


@functools.cache
def launch_of(block: int, device: torch.device) -> tuple[int, int]:
    """Return how many thread blocks share a row, as a cluster, and the warps of each."""
    cluster = device.type == "cuda" and torch.version.cuda and torch.cuda.get_device_capability(device) >= (9, 0)
    blocks = max(min(block // 16384, 8), 1) if cluster else 1
    return blocks, max(min(block // blocks // 512, 16 if cluster else 32), 1)


def check_arguments(logits, seeds, temperature, top_k, top_p) -> tuple[int, int]:
    """Return the numbers of rows and columns, or raise ``ValueError``."""
    if not logits.ndim:
        raise ValueError("logits must have a dimension or more, the last being the columns; got a single number")
    if logits.dtype not in ZEROS:
        raise ValueError(f"logits are {logits.dtype}; use one of {', '.join(map(str, ZEROS))}")
    settings = {
        "seeds": (seeds, torch.int64, None),
        "temperature": (temperature, torch.float32, lambda x: x >= 0),
        "top_k": (top_k, torch.int32, lambda x: x >= 0 and x == int(x)),
        "top_p": (top_p, torch.float32, lambda x: 0 <= x <= 1),
    }
    takes = {"temperature": "0 or more", "top_k": "an int, 0 or more", "top_p": "from 0 to 1"}
    for name, (value, dtype, valid) in settings.items():
        if isinstance(value, torch.Tensor):
            if value.dtype != dtype or value.shape != logits.shape[:-1] or value.device != logits.device:
                raise ValueError(
                    f"{name} must be {dtype}, {tuple(logits.shape[:-1])}, on {logits.device}, one for each row; got"
                    f" {value.dtype}, {tuple(value.shape)}, on {value.device}"
                )
        elif valid is None:
            raise ValueError(f"{name} must be a tensor of int64, one for each row; got {value!r}")
        elif not isinstance(value, numbers.Real) or not valid(value):
            raise ValueError(f"{name} must be {takes[name]}; got {value!r}")
    rows, columns = seeds.numel(), logits.shape[-1]
    if columns > MOST or rows > 2**31 - 1:
        raise ValueError(f"logits {tuple(logits.shape)}: at most {MOST:,} columns, and 2**31 - 1 rows")
    interpreted = not isinstance(sample_kernel, triton.JITFunction)
    if logits.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(
            f"logits are on {logits.device}; the kernel runs on {'the CPU, interpreted' if interpreted else 'a GPU'}"
        )
    return rows, columns


def main():
    device = "cuda" if isinstance(sample_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    draws = 200
    logits = torch.tensor([2.0, 1.5, 1.0, 0.5, 0.0, -1.0], device=device)
    seeds = torch.arange(draws, device=device)

    print("## settings")
    print("logits:", *(f"{each:.1f}" for each in logits.tolist()))
    for name, settings in {
        "all": {},
        "temperature 0.5": {"temperature": 0.5},
        "temperature 0": {"temperature": 0.0},
        "top-k 3": {"top_k": 3},
        "top-p 0.7": {"top_p": 0.7},
        "top-k 3, top-p 0.7": {"top_k": 3, "top_p": 0.7},
    }.items():
        tokens = sample(logits.repeat(draws, 1), seeds, **settings)
        print(f"{name}:", *(f"{each:3d}" for each in torch.bincount(tokens, minlength=len(logits)).tolist()))
    print("chances:", *(f"{each:.3f}" for each in logits.softmax(0).tolist()))

    print("## any batch")
    print("row 5 of 200:", sample(logits.repeat(draws, 1), seeds)[5].item())
    print("row 5 alone: ", sample(logits[None], seeds[5:6]).item())


if __name__ == "__main__":
    main()
