# SPDX-License-Identifier: Apache-2.0
"""A depthwise causal convolution along time, as state-space models have it: each result sees the last few inputs.

``y[b, c, t] = silu(bias[c] + Σ weight[c, k] · x[b, c, t - (width - 1) + k])``, over the taps k. What lies before the
first step counts as 0, or comes from ``initial``, so a text can go on where it stopped.

- :func:`conv_kernel` has a tile of channels and steps. It loads each input as often as there are taps, shifted by a
  step each time; from memory it comes once, for the cache has it.
- :func:`walk_kernel` serves tensors in which a step's channels are neighbors. It goes from step to step, and keeps the
  window in registers.
- :func:`gradients_kernel` walks, too, and computes all gradients at once. A result hands its gradient to the inputs it
  saw. Each program adds up its own share of the gradients of weight and bias, and torch adds the shares: nothing is
  added with atomics, so all runs give the same bits.

Shapes: ``x`` is (batch, channels, steps), of any strides: ``tokens.transpose(1, 2)`` will do. ``weight`` is
(channels, width), ``bias`` is (channels,), ``initial`` is (batch, channels, width - 1).
Source: Albert Gu and Tri Dao, *Mamba: Linear-Time Sequence Modeling with Selective State Spaces*, 2023, section 3.4;
``torch.nn.functional.conv1d`` with ``groups=channels`` defines the result.

Run it on a GPU with ``python convolution.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import torch
import triton
import triton.language as tl

DTYPES = torch.float16, torch.bfloat16, torch.float32
WIDEST = 8  # taps
PLANS = {
    "time": {"BLOCK_C": 4, "BLOCK_T": 512, "num_warps": 4},
    "walk": {"BLOCK_C": 256, "BLOCK_T": 64, "GROUP": 4, "num_warps": 2},
    "back": {"BLOCK_C": 256, "BLOCK_T": 64, "GROUP": 4, "num_warps": 2},
}


# --8<-- [start:load]
@triton.jit
def load_inputs(
    x_ptr, initial_ptr, x_strides, initial_strides,
    channel, step, channels, steps, WIDTH: tl.constexpr,
):  # fmt: skip
    """Load a tile of one text's inputs, as float32.

    A step before the first is ``initial``'s or 0, one after the last 0.
    """
    inside = (channel < channels)[:, None] & (
        (step >= 0) & (step < steps)
    )[None, :]
    x = tl.load(
        x_ptr + (channel * x_strides[1])[:, None]
        + (step * x_strides[2])[None, :],
        mask=inside, other=0.0,
    ).to(tl.float32)  # fmt: skip
    if initial_ptr is not None:
        place = step + WIDTH - 1
        before = (channel < channels)[:, None] & (
            (step < 0) & (place >= 0)
        )[None, :]
        x += tl.load(
            initial_ptr + (channel * initial_strides[1])[:, None]
            + (place * initial_strides[2])[None, :],
            mask=before, other=0.0,
        ).to(tl.float32)  # fmt: skip
    return x
# --8<-- [end:load]


# --8<-- [start:place]
@triton.jit
def place(
    channels, steps, BLOCK_C: tl.constexpr, BLOCK_T: tl.constexpr
):
    """Return which text, channels and steps are a program's own."""
    pid = tl.program_id(axis=0).to(tl.int64)
    blocks, tiles = tl.cdiv(channels, BLOCK_C), tl.cdiv(steps, BLOCK_T)
    channel = pid % blocks * BLOCK_C + tl.arange(0, BLOCK_C)
    step = pid // blocks % tiles * BLOCK_T + tl.arange(0, BLOCK_T)
    return pid // blocks // tiles, channel, step
# --8<-- [end:place]


# --8<-- [start:forward]
@triton.jit
def conv_kernel(
    x_ptr, weight_ptr, bias_ptr, initial_ptr, y_ptr,
    x_strides, initial_strides, y_strides, channels, steps,
    WIDTH: tl.constexpr, SILU: tl.constexpr,
    BLOCK_C: tl.constexpr, BLOCK_T: tl.constexpr,
):  # fmt: skip
    text, channel, step = place(channels, steps, BLOCK_C, BLOCK_T)
    x_ptr += text * x_strides[0]
    if initial_ptr is not None:
        initial_ptr += text * initial_strides[0]
    # --8<-- [start:window]
    known = channel < channels
    y = tl.zeros((BLOCK_C, BLOCK_T), tl.float32)
    if bias_ptr is not None:
        y += tl.load(bias_ptr + channel, mask=known)[:, None]
    for k in tl.static_range(WIDTH):
        x = load_inputs(
            x_ptr, initial_ptr, x_strides, initial_strides,
            channel, step - (WIDTH - 1) + k, channels, steps, WIDTH,
        )  # fmt: skip
        weight = tl.load(weight_ptr + channel * WIDTH + k, mask=known)
        y += weight[:, None] * x
    if SILU:
        y = y / (1 + tl.exp(-y))
    # --8<-- [end:window]
    tl.store(
        y_ptr + text * y_strides[0] + (channel * y_strides[1])[:, None]
        + (step * y_strides[2])[None, :],
        y, mask=known[:, None] & (step < steps)[None, :],
    )  # fmt: skip
# --8<-- [end:forward]


# --8<-- [start:taps]
@triton.jit
def load_taps(weight_ptr, channel, known, WIDTH: tl.constexpr):
    """Load the weights of some channels, a vector for each tap."""
    taps = ()
    for k in tl.static_range(WIDTH):
        tap = tl.load(weight_ptr + channel * WIDTH + k, mask=known)
        taps += (tap.to(tl.float32),)
    return taps


@triton.jit
def window_before(
    x_ptr, initial_ptr, x_stride, initial_stride,
    first, known, WIDTH: tl.constexpr,
):  # fmt: skip
    """Load the ``WIDTH - 1`` inputs before a step, of some channels."""
    window = ()
    for k in tl.static_range(WIDTH - 1):
        at = first - (WIDTH - 1) + k
        x = tl.load(
            x_ptr + at * x_stride, mask=known & (at >= 0), other=0.0
        ).to(tl.float32)
        if initial_ptr is not None:
            x += tl.load(
                initial_ptr + (at + WIDTH - 1) * initial_stride,
                mask=known & (at < 0), other=0.0,
            )  # fmt: skip
        window += (x,)
    return window
# --8<-- [end:taps]


# --8<-- [start:walk]
@triton.jit
def walk_kernel(
    x_ptr, weight_ptr, bias_ptr, initial_ptr, y_ptr,
    x_strides, initial_strides, y_strides, channels, steps,
    WIDTH: tl.constexpr, SILU: tl.constexpr,
    BLOCK_C: tl.constexpr, BLOCK_T: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Compute the same as :func:`conv_kernel`, step after step.

    For channels that are neighbors in memory. Each input is loaded once
    and stays in registers as long as a window holds it.
    """
    pid = tl.program_id(axis=0).to(tl.int64)
    blocks, tiles = tl.cdiv(channels, BLOCK_C), tl.cdiv(steps, BLOCK_T)
    channel = pid % blocks * BLOCK_C + tl.arange(0, BLOCK_C)
    known = channel < channels
    text, first = pid // blocks // tiles, pid // blocks % tiles * BLOCK_T
    end = tl.minimum(first + BLOCK_T, steps)
    x_ptr += text * x_strides[0] + channel * x_strides[1]
    y_ptr += text * y_strides[0] + channel * y_strides[1]
    if initial_ptr is not None:
        initial_ptr += text * initial_strides[0] + channel * initial_strides[1]
    bias = tl.zeros((BLOCK_C,), tl.float32)
    if bias_ptr is not None:
        bias += tl.load(bias_ptr + channel, mask=known)
    taps = load_taps(weight_ptr, channel, known, WIDTH)
    window = window_before(
        x_ptr, initial_ptr, x_strides[2], initial_strides[2],
        first, known, WIDTH,
    )  # fmt: skip
    # --8<-- [start:steps]
    for begin in range(first, end, GROUP):
        begin = tl.cast(begin, tl.int64)
        new = ()
        # Several loads under way at once
        for i in tl.static_range(GROUP):
            here = known & (begin + i < end)
            new += (
                tl.load(
                    x_ptr + (begin + i) * x_strides[2], mask=here, other=0.0
                ),
            )
        for i in tl.static_range(GROUP):
            window += (new[i].to(tl.float32),)
            y = bias
            for k in tl.static_range(WIDTH):
                y += taps[k] * window[k]
            if SILU:
                y = y / (1 + tl.exp(-y))
            here = known & (begin + i < end)
            tl.store(y_ptr + (begin + i) * y_strides[2], y, mask=here)
            # The oldest input leaves the window.
            window = window[1:]
    # --8<-- [end:steps]
# --8<-- [end:walk]


# --8<-- [start:backward]
@triton.jit
def gradients_kernel(
    x_ptr, weight_ptr, bias_ptr, initial_ptr, grad_ptr, of_x_ptr, shares_ptr,
    x_strides, initial_strides, grad_strides, of_x_strides, channels, steps,
    WIDTH: tl.constexpr, SILU: tl.constexpr,
    BLOCK_C: tl.constexpr, BLOCK_T: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Walk the same way: gradients of x, and shares of the others.

    Parameters:
        grad_ptr: The gradient of the result.
        of_x_ptr: That of x, to be stored.
        shares_ptr: (texts * tiles of steps, WIDTH + 1, channels),
            float32: of each tap's weight, and at last of the bias.
    """
    pid = tl.program_id(axis=0).to(tl.int64)
    blocks, tiles = tl.cdiv(channels, BLOCK_C), tl.cdiv(steps, BLOCK_T)
    channel = pid % blocks * BLOCK_C + tl.arange(0, BLOCK_C)
    known = channel < channels
    text, first = pid // blocks // tiles, pid // blocks % tiles * BLOCK_T
    end = tl.minimum(first + BLOCK_T, steps)
    x_ptr += text * x_strides[0] + channel * x_strides[1]
    grad_ptr += text * grad_strides[0] + channel * grad_strides[1]
    of_x_ptr += text * of_x_strides[0] + channel * of_x_strides[1]
    if initial_ptr is not None:
        initial_ptr += text * initial_strides[0] + channel * initial_strides[1]
    none = tl.zeros((BLOCK_C,), tl.float32)
    bias = none
    if bias_ptr is not None:
        bias += tl.load(bias_ptr + channel, mask=known)
    taps = load_taps(weight_ptr, channel, known, WIDTH)
    window = window_before(
        x_ptr, initial_ptr, x_strides[2], initial_strides[2],
        first, known, WIDTH,
    )  # fmt: skip
    of_window, shares = (none,) * (WIDTH - 1), (none,) * (WIDTH + 1)
    # The last inputs are seen by results of the next programs' steps.
    for begin in range(first, end + WIDTH - 1, GROUP):
        begin = tl.cast(begin, tl.int64)
        new, grads = (), ()
        for i in tl.static_range(GROUP):
            step = begin + i
            here = known & (step < tl.minimum(end + WIDTH - 1, steps))
            new += (
                tl.load(x_ptr + step * x_strides[2], mask=here, other=0.0),
            )
            grads += (
                tl.load(
                    grad_ptr + step * grad_strides[2], mask=here, other=0.0
                ),
            )
        # --8<-- [start:each]
        for i in tl.static_range(GROUP):
            window += (new[i].to(tl.float32),)
            grad = grads[i].to(tl.float32)
            if SILU:
                y = bias
                for k in tl.static_range(WIDTH):
                    y += taps[k] * window[k]
                part = 1 / (1 + tl.exp(-y))
                grad *= part * (1 + y * (1 - part))
            # Each input that this result saw gets its part.
            of_window += (none,)
            given, added = (), ()
            own = tl.where(begin + i < end, grad, 0.0)
            for k in tl.static_range(WIDTH):
                given += (of_window[k] + taps[k] * grad,)
                added += (shares[k] + window[k] * own,)
            added += (shares[WIDTH] + own,)
            # No later result sees the oldest input, so it's done.
            done = begin + i - (WIDTH - 1)
            tl.store(
                of_x_ptr + done * of_x_strides[2], given[0],
                mask=known & (done >= first) & (done < end),
            )  # fmt: skip
            window, of_window, shares = window[1:], given[1:], added
        # --8<-- [end:each]
    shares_ptr += pid // blocks * (WIDTH + 1) * channels + channel
    for k in tl.static_range(WIDTH + 1):
        tl.store(shares_ptr + k * channels, shares[k], mask=known)
# --8<-- [end:backward]


# --8<-- [start:launch]
def plan(x: torch.Tensor, kind: str) -> dict[str, int]:
    """Return tiles and warps of a kind of kernel, no larger than needed."""
    chosen = dict(PLANS[kind])
    for name, size in (("BLOCK_C", x.shape[1]), ("BLOCK_T", x.shape[2])):
        chosen[name] = min(chosen[name], triton.next_power_of_2(max(1, size)))
    return chosen


def by_time(x: torch.Tensor) -> bool:
    """Tell whether a channel's steps lie closer in memory than a step's channels."""
    return x.stride(2) <= x.stride(1)


def programs(x: torch.Tensor, chosen: dict[str, int]) -> tuple[int, int]:
    """Return how many tiles of texts and steps, and of channels, there are."""
    batch, channels, steps = x.shape
    return batch * triton.cdiv(steps, chosen["BLOCK_T"]), triton.cdiv(channels, chosen["BLOCK_C"])


class CausalConv(torch.autograd.Function):
    @staticmethod
    def forward(x, weight, bias, initial, silu):
        y = torch.empty_like(x)
        if y.numel():
            kernel, kind = (conv_kernel, "time") if by_time(x) else (walk_kernel, "walk")
            chosen = plan(x, kind)
            with torch.cuda.device_of(x):  # Triton launches on the current device, which need not be theirs
                tiles, blocks = programs(x, chosen)
                kernel[(tiles * blocks,)](
                    x, weight, bias, initial, y,
                    x.stride(), initial.stride() if initial is not None else x.stride(), y.stride(),
                    x.shape[1], x.shape[2], WIDTH=weight.shape[1], SILU=silu, **chosen,
                )  # fmt: skip
        return y

    @staticmethod
    def setup_context(ctx, inputs, output):
        *given, ctx.silu = inputs
        ctx.save_for_backward(*given)

    @staticmethod
    def backward(ctx, grad):
        if torch.is_grad_enabled():  # as under create_graph=True
            raise RuntimeError(
                "causal_conv1d has no gradient of its gradient, so it refuses create_graph=True, and torch.func.grad"
                " and vjp, which always ask for it; use torch.autograd.grad"
            )
        x, weight, bias, initial = ctx.saved_tensors
        (_, channels, steps), width = x.shape, weight.shape[1]
        grad = grad.resolve_neg()
        if by_time(x):  # the walk wants a step's channels side by side
            x, grad = (each.mT.contiguous().mT for each in (x, grad))
        of_x = torch.empty_like(x)
        chosen = plan(x, "back")
        tiles, blocks = programs(x, chosen)
        shares = torch.empty(tiles, width + 1, channels, dtype=torch.float32, device=x.device)
        if of_x.numel():
            with torch.cuda.device_of(x):
                gradients_kernel[(tiles * blocks,)](
                    x, weight, bias, initial, grad, of_x, shares,
                    x.stride(), initial.stride() if initial is not None else x.stride(), grad.stride(), of_x.stride(),
                    channels, steps, WIDTH=width, SILU=ctx.silu, **chosen,
                )  # fmt: skip
        sums = shares.sum(0).to(x.dtype)
        return of_x, sums[:width].T, None if bias is None else sums[width], None, None
# --8<-- [end:launch]


# --8<-- [start:host]
@torch.compiler.disable  # torch.compile calls it as it is
def causal_conv1d(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    initial: torch.Tensor | None = None,
    *,
    silu: bool = False,
) -> torch.Tensor:
    """Return each channel's convolution along time, in which a result sees the last ``width`` inputs.

    Args:
        x: ``(batch, channels, steps)``, one of ``DTYPES``, on a GPU, or in the interpreter on the CPU. Any strides.
        weight: ``(channels, width)``, of the same dtype and device, any strides; 1 to 8 taps. The last one is of the
            step itself.
        bias: ``(channels,)``, or None.
        initial: The ``width - 1`` inputs before the first step, ``(batch, channels, width - 1)``, or None for zeros.
            :func:`last_inputs` returns those of a text that goes on. It gets no gradient.
        silu: Whether ``y · sigmoid(y)`` is returned in place of y.

    Returns:
        ``(batch, channels, steps)``, of the dtype of ``x``, lying in memory as ``x`` does. ``x``, ``weight`` and
        ``bias`` have gradients. Sums are in float32; all runs give the same bits.

    Raises:
        ValueError: An argument is something that the kernels cannot serve.
        RuntimeError: In the backward, under ``create_graph=True``: there is no gradient of the gradient.

    >>> x = torch.tensor([[[1.0, 0.0, 0.0, 10.0]]])
    >>> causal_conv1d(x, torch.tensor([[1.0, 2.0, 3.0]]))
    tensor([[[ 3.,  2.,  1., 30.]]])
    """
    check_arguments(x, weight, bias, initial, silu)
    x, initial = x.resolve_neg(), None if initial is None else initial.resolve_neg()
    bias = None if bias is None else bias.contiguous().resolve_neg()
    return CausalConv.apply(x, weight.contiguous().resolve_neg(), bias, initial, silu)


def last_inputs(x: torch.Tensor, width: int, initial: torch.Tensor | None = None) -> torch.Tensor:
    """Return what the next step needs to know: the last ``width - 1`` inputs, ``(batch, channels, width - 1)``.

    They are a view of ``x`` where it has as many; clone them if ``x`` would otherwise be kept in memory for them.

    Args:
        x: ``(batch, channels, steps)``: the inputs so far.
        width: Taps of the convolution.
        initial: What came before ``x``, as for :func:`causal_conv1d`, or None for zeros.

    >>> last_inputs(torch.tensor([[[7.0]]]), 4, torch.tensor([[[1.0, 2.0, 3.0]]]))
    tensor([[[2., 3., 7.]]])
    """
    steps, kept = x.shape[2], width - 1
    if steps >= kept:
        return x[:, :, steps - kept :]
    if initial is None:
        return torch.nn.functional.pad(x, (kept - steps, 0))
    return torch.cat([initial[:, :, steps:], x], dim=2)
# --8<-- [end:host]


def check_arguments(x, weight, bias, initial, silu) -> None:
    """Raise ``ValueError`` for arguments that the kernels would compute wrongly or not at all."""
    given = {"x": x, "weight": weight, "bias": bias, "initial": initial}
    for name, each in given.items():
        if each is None and name in ("bias", "initial"):
            continue
        if not isinstance(each, torch.Tensor):
            raise ValueError(f"{name} must be a tensor; got {each!r}")
        if each.layout != torch.strided:
            raise ValueError(f"{name} is {each.layout}; pass {name}.to_dense()")
        dtypes = DTYPES if name == "x" else (x.dtype,)
        if each.dtype not in dtypes:
            raise ValueError(f"{name}'s dtype {each.dtype} is not supported; use one of {', '.join(map(str, dtypes))}")
        if each.device != x.device:
            raise ValueError(f"x is on {x.device} and {name} on {each.device}; move them to one device")
    if x.ndim != 3 or weight.ndim != 2:
        raise ValueError(
            "x must be (batch, channels, steps) and weight (channels, width);"
            f" got {tuple(x.shape)} and {tuple(weight.shape)}"
        )
    (batch, channels, _), width = x.shape, weight.shape[1]
    if not 1 <= width <= WIDEST:
        raise ValueError(f"weight has {width} taps; from 1 to {WIDEST} are served")
    shapes = {"weight": (channels, width), "bias": (channels,), "initial": (batch, channels, width - 1)}
    for name, shape in shapes.items():
        if given[name] is not None and given[name].shape != shape:
            raise ValueError(f"{name} must be {shape} for x of {tuple(x.shape)}; got {tuple(given[name].shape)}")
    if not isinstance(silu, bool):
        raise ValueError(f"silu must be True or False; got {silu!r}")
    if initial is not None and initial.requires_grad and torch.is_grad_enabled():
        raise ValueError("initial requires a gradient, which is not computed; pass initial.detach()")
    if x.numel() >= 2**40:
        raise ValueError(f"x {tuple(x.shape)} takes more than 2**31 - 1 programs; split the batch")
    interpreted = not isinstance(conv_kernel, triton.JITFunction)
    if x.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"x is on {x.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if interpreted and x.dtype == torch.bfloat16:
        raise ValueError("Triton's interpreter rounds to bfloat16 wrongly (seen in 3.6 to 3.9); use float32 there")


# --8<-- [start:in_torch]
def in_torch(x, weight, bias=None, initial=None, *, silu=False):
    """Compute the same by torch, as a sum of shifted copies."""
    steps, width = x.shape[2], weight.shape[1]
    before = x.new_zeros(*x.shape[:2], width - 1) if initial is None else initial
    longer = torch.cat([before, x], dim=2)
    y = sum(weight[:, k, None] * longer[:, :, k : k + steps] for k in range(width))
    y = y if bias is None else y + bias[:, None]
    return torch.nn.functional.silu(y) if silu else y
# --8<-- [end:in_torch]


# --8<-- [start:main]
def main():
    device = "cuda" if isinstance(conv_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    shown = lambda values: " ".join(f"{value:g}" for value in values.flatten().tolist())

    print("## by hand")
    x = torch.tensor([[[1.0, 0, 0, 0, 2, 0, 0, 0]]], device=device)
    weight = torch.tensor([[1.0, 10, 100, 1000]], device=device)
    print("x:     ", shown(x))
    print("weight:", shown(weight))
    print("y:     ", shown(causal_conv1d(x, weight)))

    print("## token by token")
    initial = None
    for token in range(5, 9):
        step = torch.tensor([[[float(token)]]], device=device)
        y = causal_conv1d(step, weight, None, initial)
        initial = last_inputs(step, 4, initial)
        print(f"input {token}: y = {shown(y)}; kept: {shown(initial)}")

    print("## as torch")
    random = torch.Generator().manual_seed(0)
    new = lambda *shape: torch.randn(shape, generator=random).to(device)
    for batch, channels, steps, width in ((2, 96, 300, 4), (1, 130, 2, 4), (3, 5, 1000, 3)):
        tokens = new(batch, steps, channels).requires_grad_()
        given = tokens.transpose(1, 2), new(channels, width).requires_grad_(), new(channels).requires_grad_()
        initial, grad = new(batch, channels, width - 1), new(batch, channels, steps)
        right = []
        results = [function(*given, initial, silu=True) for function in (causal_conv1d, in_torch)]
        leaves = tokens, *given[1:]
        gradients = [torch.autograd.grad(y, leaves, grad) for y in results]
        for a, b in zip((results[0], *gradients[0]), (results[1], *gradients[1]), strict=True):
            right.append(torch.allclose(a, b, rtol=1e-3, atol=1e-3))
        named = zip(("result", "x", "weight", "bias"), right, strict=True)
        said = ", ".join(name if fine else f"{name} WRONG" for name, fine in named)
        print(f"{batch} × {channels} × {steps}, width {width}: {said}")
# --8<-- [end:main]


if __name__ == "__main__":
    main()
