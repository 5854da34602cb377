# SPDX-License-Identifier: Apache-2.0
"""A gated linear recurrence: ``h[t] = a[t] * h[t - 1] + b[t]`` along time, from ``h = 0``, for many channels at once.

With ``b = (1 - a) * x`` it is an exponential moving average; models with a state, such as Mamba's, compute it too.

One program takes ``BLOCK`` channels of one series through all time steps and keeps their ``h`` in registers, in
float32. So ``a`` and ``b`` are read once, ``h`` is written once, and nothing else is moved. The steps of a series
follow each other, so it takes many channels and series to keep a GPU busy; one long series of few channels is slow.

Shapes: ``a``, ``b`` and the result ``(series, time, channels)``, contiguous.
Source: none is needed; scans of such recurrences are described by Blelloch, *Prefix Sums and Their Applications*, 1990.

Run it on a GPU with ``python when_to_write_a_kernel.py``, or without one in Triton's interpreter with
``TRITON_INTERPRET=1 python when_to_write_a_kernel.py``.
"""

import torch
import triton
import triton.language as tl

DTYPES = (torch.float16, torch.bfloat16, torch.float32)


# --8<-- [start:eager]
def recurrence_eager(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``h[:, t] = a[:, t] * h[:, t - 1] + b[:, t]``, step by step."""
    h, steps = torch.zeros_like(b[:, 0]), []
    for t in range(b.shape[1]):
        h = a[:, t] * h + b[:, t]
        steps.append(h)
    return torch.stack(steps, dim=1)
# --8<-- [end:eager]


# --8<-- [start:kernel]
@triton.jit
def recurrence_kernel(
    a_ptr, b_ptr, h_ptr, time, channels,
    BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(axis=0).to(tl.int64)
    blocks = tl.cdiv(channels, BLOCK)  # programs for each series
    channel = pid % blocks * BLOCK + tl.arange(0, BLOCK)
    mask = channel < channels
    offsets = pid // blocks * time * channels + channel
    h = tl.zeros((BLOCK,), tl.float32)
    for _ in tl.range(time, num_stages=STAGES):
        a = tl.load(a_ptr + offsets, mask=mask)
        b = tl.load(b_ptr + offsets, mask=mask)
        h = a * h + b
        tl.store(h_ptr + offsets, h, mask=mask)
        offsets += channels  # the next time step
# --8<-- [end:kernel]


# --8<-- [start:launch]
def launch(a, b, h, *, block, stages, num_warps):
    series, time, channels = h.shape
    grid = (series * triton.cdiv(channels, block),)
    with torch.cuda.device_of(h):
        recurrence_kernel[grid](
            a, b, h, time, channels,
            BLOCK=block, STAGES=stages, num_warps=num_warps,
        )  # fmt: skip
    return h
# --8<-- [end:launch]


# --8<-- [start:host]
def recurrence(a: torch.Tensor, b: torch.Tensor, *, block: int = 128) -> torch.Tensor:
    """Return ``h[:, t] = a[:, t] * h[:, t - 1] + b[:, t]``, starting from 0, computed by :func:`recurrence_kernel`.

    Args:
        a: ``(series, time, channels)``, contiguous, on a GPU (in the interpreter: the CPU), of one of ``DTYPES``.
        b: A tensor with the shape, dtype and device of ``a``, contiguous too.
        block: Channels that a program takes: a power of two, at most 1024.

    Returns:
        A new tensor like ``b``. It is computed in float32, and only what is stored is rounded to the dtype of ``b``: no
        error adds up from a rounded ``h``. NaN and infinity in one channel stay there.

    Raises:
        ValueError: ``a``, ``b`` or ``block`` is something that the kernel cannot serve. There is no backward pass, so
            tensors that require a gradient are refused.

    >>> a = torch.full((1, 4, 1), 0.5)
    >>> recurrence(a, torch.ones(1, 4, 1)).flatten().tolist()
    [1.0, 1.5, 1.75, 1.875]
    """
    check_arguments(a, b, block)
    h = torch.empty_like(b)
    if h.numel() == 0:
        return h  # no program to start, or nothing to do for it
    # Both numbers were the best of those tried on an H200: one warp a program, up to 15 time steps loaded ahead.
    return launch(a, b, h, block=block, stages=16, num_warps=1)
# --8<-- [end:host]


def check_arguments(a: torch.Tensor, b: torch.Tensor, block: int) -> None:
    """Raise ``ValueError`` for arguments that :func:`recurrence` would compute wrongly or not at all."""
    if a.shape != b.shape or a.dtype != b.dtype or a.device != b.device:
        raise ValueError(
            "a and b must have the same shape, dtype and device; got "
            f"{tuple(a.shape)} {a.dtype} on {a.device} and {tuple(b.shape)} {b.dtype} on {b.device}"
        )
    if a.ndim != 3:
        raise ValueError(f"a must be (series, time, channels); got the shape {tuple(a.shape)}")
    if a.dtype not in DTYPES:
        raise ValueError(f"dtype {a.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    if a.device.type not in ("cuda", "cpu"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"a is on {a.device}; move it to a GPU, as in a.cuda()")
    interpreted = not isinstance(recurrence_kernel, triton.JITFunction)
    if a.device.type == "cpu" and not interpreted:
        raise ValueError("a is on the CPU; move it to a GPU, or set TRITON_INTERPRET=1 before importing this file")
    if a.dtype == torch.bfloat16 and interpreted:
        raise ValueError("Triton's interpreter rounds to bfloat16 wrongly (seen in 3.7.1); use float32 there, or a GPU")
    for name, tensor in (("a", a), ("b", b)):
        if not tensor.is_contiguous():
            raise ValueError(f"{name} has strides {tensor.stride()}; pass {name}.contiguous(), which copies it")
        if tensor.is_neg():  # the kernel would read memory in which the sign is not yet applied
            raise ValueError(f"{name} is negated lazily; pass {name}.resolve_neg()")
        if tensor.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{name} requires a gradient, which this function does not compute; use torch.no_grad()")
    if not isinstance(block, int) or not 1 <= block <= 1024 or block & (block - 1):
        raise ValueError(f"block must be a power of two between 1 and 1024; got {block}")
    series, time, channels = a.shape
    if time > 2**31 - 1 or channels > 2**31 - 1024:
        raise ValueError(f"{time} time steps of {channels} channels are too many; at most 2**31 - 1024 of each")
    if series * triton.cdiv(channels, block) > 2**31 - 1:  # CUDA's limit of programs along one axis
        raise ValueError(f"{series} series of {channels} channels are too many for block {block}; use a larger block")


# --8<-- [start:main]
def main():
    device = "cuda" if isinstance(recurrence_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")

    # Small enough to follow by hand: four time steps of six channels, two programs of four channels.
    b = torch.tensor([[8.0, 0, 0, 0], [0, 8, 0, 0], [1, 1, 1, 1], [8, 8, 8, 8], [2, 0, 2, 0], [0, 0, 0, 8]])
    b = b.T.contiguous()[None].to(device)
    a = torch.full_like(b, 0.5)
    h = recurrence(a, b, block=4)
    print("a is 0.5 everywhere; a line for each time step, a column for each channel")
    for name, tensor in (("b", b), ("h", h)):
        for t, row in enumerate(tensor[0].tolist()):
            print(f"{name}[{t}] =", *(f"{value:6.3f}" for value in row))
    print("elements unlike PyTorch's loop:", int((h != recurrence_eager(a, b)).sum()))
# --8<-- [end:main]


if __name__ == "__main__":
    main()
