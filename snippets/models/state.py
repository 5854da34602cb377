# SPDX-License-Identifier: Apache-2.0
"""Linear attention with a decay, as state-space models compute it: a matrix of state instead of a cache of keys.

Each head keeps a matrix S, ``keys x values`` wide, that starts at zero or at ``initial``. At step t it fades by a
factor, takes in that step's key and value, and answers that step's query::

    S[t] = exp(log_decay[t]) * S[t - 1] + outer(k[t], v[t])
    y[t] = q[t] @ S[t]

Step by step, that is a chain as long as the text. Here the steps are taken in chunks of 64. With ``A`` the sum of the
log decays from the chunk's beginning, a key of step s reaches the query of step t with the factor ``exp(A[t] - A[s])``:

- :func:`states_kernel` walks from chunk to chunk, and stores the state before each. A chunk's keys and values are one
  product.
- :func:`outputs_kernel` takes all chunks at once: a small causal attention among the steps of a chunk, with decays
  instead of a softmax, and one product of its queries with the state before it.

The backward walks the other way by the same kernel, and :func:`gradients_kernel` takes all chunks at once. Nothing is
added with atomics: all runs give the same bits.

Shapes: ``q`` and ``k`` are (batch, heads, steps, keys), ``v`` is (batch, heads, steps, values), ``log_decay`` is
(batch, heads, steps), a state is (batch, heads, keys, values).
Sources: Tri Dao and Albert Gu, *Transformers are SSMs*, 2024 (Mamba-2); Songlin Yang and others, *Gated Linear
Attention Transformers with Hardware-Efficient Training*, 2023.

Run it on a GPU with ``python state.py``, or with ``TRITON_INTERPRET=1`` in Triton's interpreter.
"""

import torch
import triton
import triton.language as tl

DTYPES = torch.float16, torch.bfloat16, torch.float32
CHUNK = 64  # steps of a chunk
WIDEST = 128  # of keys and values: a program holds a state, or half of it, in registers
FULL = 128  # programs that keep a large GPU busy
LEAST: tl.constexpr = tl.constexpr(-104.0)  # of a log decay: exp(-104) is 0 in float32, and -inf - -inf would be NaN


# --8<-- [start:helpers]
@triton.jit
def load_steps(
    ptr,
    strides,
    batch,
    head,
    first,
    steps,
    column,
    columns,
    CHUNK: tl.constexpr,
):
    """Load a chunk of steps, a row each, with zeros past the ends."""
    row = tl.arange(0, CHUNK)
    ptr += batch * strides[0] + head * strides[1] + first * strides[2]
    inside = (row < steps - first)[:, None] & (column < columns)[None, :]
    offsets = row[:, None] * strides[2] + column[None, :]
    return tl.load(ptr + offsets, mask=inside, other=0.0)


@triton.jit
def store_steps(
    ptr,
    row,
    first,
    steps,
    column,
    columns,
    tile,
    CHUNK: tl.constexpr,
):
    """Store a chunk's rows; ``row`` is the head's number in the batch."""
    step = tl.arange(0, CHUNK)
    inside = (step < steps - first)[:, None] & (column < columns)[None, :]
    offsets = step[:, None] * columns + column[None, :]
    tl.store(ptr + (row * steps + first) * columns + offsets, tile, mask=inside)


# --8<-- [start:decay_so_far]
@triton.jit
def decay_so_far(ptr, strides, batch, head, first, steps, CHUNK: tl.constexpr):
    """Return the log of each step's decay since the chunk began, and
    that of the whole chunk.
    """
    row = tl.arange(0, CHUNK)
    ptr += batch * strides[0] + head * strides[1] + first * strides[2]
    # Past the end nothing decays.
    log_decay = tl.load(
        ptr + row * strides[2], mask=row < steps - first, other=0.0
    )
    log_decay = tl.maximum(log_decay, LEAST)
    return tl.cumsum(log_decay, axis=0), tl.sum(log_decay, axis=0)
# --8<-- [end:decay_so_far]


# --8<-- [start:decays]
@triton.jit
def decays(so_far, CHUNK: tl.constexpr):
    """Return what is left of each step's key at each later step."""
    step = tl.arange(0, CHUNK)
    reaches = step[:, None] >= step[None, :]
    between = so_far[:, None] - so_far[None, :]
    return tl.where(reaches, tl.exp(between), 0.0)
# --8<-- [end:decays]
# --8<-- [end:helpers]


# --8<-- [start:states]
@triton.jit(do_not_specialize=["heads", "steps"])
def states_kernel(
    k_ptr,
    v_ptr,
    log_decay_ptr,
    initial_ptr,
    states_ptr,
    final_ptr,
    k_strides,
    v_strides,
    decay_strides,
    heads,
    steps,
    keys,
    values,
    REVERSE: tl.constexpr,
    CHUNK: tl.constexpr,
    KEYS: tl.constexpr,
    BLOCK_V: tl.constexpr,
):
    """Walk one head's chunks and store the state before each.

    Parameters:
        k_ptr, v_ptr: Keys and values; for the backward, queries and the
            gradients of results.
        initial_ptr: Float32, (rows, keys, values), or None; a row is a head
            of one element of the batch. So is ``final_ptr``.
        states_ptr: (rows, chunks, keys, values), to be filled.
        k_strides, v_strides, decay_strides: Of batch, head and step.
        REVERSE: Walk from the end, and store the state after each chunk.
        KEYS, BLOCK_V: Powers of two; ``KEYS`` is no less than ``keys``.
    """
    # --8<-- [start:state_begin]
    row = tl.program_id(axis=0).to(tl.int64)
    batch, head = row // heads, row % heads
    key = tl.arange(0, KEYS)
    value = tl.program_id(axis=1) * BLOCK_V + tl.arange(0, BLOCK_V)
    size = keys * values
    cell = key[:, None] * values + value[None, :]
    inside = (key < keys)[:, None] & (value < values)[None, :]
    state = tl.zeros((KEYS, BLOCK_V), tl.float32)
    if initial_ptr is not None:
        state = tl.load(
            initial_ptr + row * size + cell, mask=inside, other=0.0
        )
    chunks = tl.cdiv(steps, CHUNK)
    # --8<-- [end:state_begin]
    # --8<-- [start:walk]
    for i in range(chunks):
        chunk = chunks - 1 - i if REVERSE else i
        first = tl.cast(chunk, tl.int64) * CHUNK
        to = states_ptr + (row * chunks + chunk) * size
        tl.store(to + cell, state, mask=inside)
        so_far, whole = decay_so_far(
            log_decay_ptr, decay_strides, batch, head, first, steps, CHUNK
        )
        k = load_steps(
            k_ptr, k_strides, batch, head, first, steps, key, keys, CHUNK
        )
        v = load_steps(
            v_ptr, v_strides, batch, head, first, steps, value, values, CHUNK
        )
        fading = so_far if REVERSE else whole - so_far
        faded = v * tl.exp(fading)[:, None]
        state = tl.dot(
            k.T, faded.to(k.dtype), state * tl.exp(whole),
            input_precision="tf32x3",
        )  # fmt: skip
    tl.store(final_ptr + row * size + cell, state, mask=inside)
    # --8<-- [end:walk]
# --8<-- [end:states]


# --8<-- [start:outputs]
@triton.jit(do_not_specialize=["heads", "steps"])
def outputs_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    log_decay_ptr,
    states_ptr,
    y_ptr,
    q_strides,
    k_strides,
    v_strides,
    decay_strides,
    heads,
    steps,
    keys,
    values,
    CHUNK: tl.constexpr,
    KEYS: tl.constexpr,
    BLOCK_V: tl.constexpr,
):
    """Compute the results of one chunk from the state before it.

    Parameters:
        states_ptr: As :func:`states_kernel` stored it.
        y_ptr: (rows, steps, values).
        All others are as there.
    """
    # --8<-- [start:output_begin]
    chunks = tl.cdiv(steps, CHUNK)
    pid = tl.program_id(axis=0).to(tl.int64)
    row, first = pid // chunks, pid % chunks * CHUNK
    batch, head = row // heads, row % heads
    key = tl.arange(0, KEYS)
    value = tl.program_id(axis=1) * BLOCK_V + tl.arange(0, BLOCK_V)
    so_far, _ = decay_so_far(
        log_decay_ptr, decay_strides, batch, head, first, steps, CHUNK
    )
    q = load_steps(
        q_ptr, q_strides, batch, head, first, steps, key, keys, CHUNK
    )
    k = load_steps(
        k_ptr, k_strides, batch, head, first, steps, key, keys, CHUNK
    )
    v = load_steps(
        v_ptr, v_strides, batch, head, first, steps, value, values, CHUNK
    )
    state = tl.load(
        states_ptr + pid * keys * values
        + key[:, None] * values + value[None, :],
        mask=(key < keys)[:, None] & (value < values)[None, :], other=0.0,
    )  # fmt: skip
    # --8<-- [end:output_begin]
    # --8<-- [start:answer]
    # What the state knew before the chunk, faded by now
    y = tl.dot(q, state, input_precision="tf32x3")
    y *= tl.exp(so_far)[:, None]
    # The chunk's own steps: attention without a softmax
    weights = tl.dot(q, k.T, input_precision="tf32x3")
    weights *= decays(so_far, CHUNK)
    y = tl.dot(weights.to(v.dtype), v, y, input_precision="tf32x3")
    # --8<-- [end:answer]
    store_steps(y_ptr, row, first, steps, value, values, y, CHUNK)
# --8<-- [end:outputs]


# --8<-- [start:gradients]
@triton.jit(do_not_specialize=["heads", "steps"])
def gradients_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    log_decay_ptr,
    grad_ptr,
    states_ptr,
    state_grads_ptr,
    q_grad_ptr,
    k_grad_ptr,
    v_grad_ptr,
    decay_grad_ptr,
    q_strides,
    k_strides,
    v_strides,
    decay_strides,
    grad_strides,
    heads,
    steps,
    keys,
    values,
    CHUNK: tl.constexpr,
    KEYS: tl.constexpr,
    BLOCK_V: tl.constexpr,
):
    """Compute all gradients of one chunk.

    Parameters:
        grad_ptr: Of the results, with strides of its own.
        states_ptr: The state before each chunk.
        state_grads_ptr: The gradient of the state after each chunk.
        q_grad_ptr, k_grad_ptr: (rows, steps, keys).
        v_grad_ptr: (rows, steps, values).
        decay_grad_ptr: (rows, steps), float32.
    """
    chunks = tl.cdiv(steps, CHUNK)
    pid = tl.program_id(axis=0).to(tl.int64)
    row, first = pid // chunks, pid % chunks * CHUNK
    batch, head = row // heads, row % heads
    key, step = tl.arange(0, KEYS), tl.arange(0, CHUNK)
    so_far, whole = decay_so_far(
        log_decay_ptr, decay_strides, batch, head, first, steps, CHUNK
    )
    q = load_steps(
        q_ptr, q_strides, batch, head, first, steps, key, keys, CHUNK
    )
    k = load_steps(
        k_ptr, k_strides, batch, head, first, steps, key, keys, CHUNK
    )
    left = tl.exp(whole - so_far)  # of a step, at the end of the chunk
    decay = decays(so_far, CHUNK)
    weights = tl.dot(q, k.T, input_precision="tf32x3") * decay
    weights = weights.to(q.dtype)
    of_weights = tl.zeros((CHUNK, CHUNK), tl.float32)
    of_q = tl.zeros((CHUNK, KEYS), tl.float32)
    of_k = tl.zeros((CHUNK, KEYS), tl.float32)
    of_whole = tl.zeros((KEYS, BLOCK_V), tl.float32)
    # --8<-- [start:values]
    for begin in range(0, values, BLOCK_V):
        value = begin + tl.arange(0, BLOCK_V)
        cell = pid * keys * values + (
            key[:, None] * values + value[None, :]
        )
        inside = (key < keys)[:, None] & (value < values)[None, :]
        state = tl.load(states_ptr + cell, mask=inside, other=0.0)
        of_state = tl.load(state_grads_ptr + cell, mask=inside, other=0.0)
        v = load_steps(
            v_ptr, v_strides, batch, head, first, steps, value, values, CHUNK
        )
        grad = load_steps(
            grad_ptr, grad_strides, batch, head, first, steps, value, values,
            CHUNK,
        )  # fmt: skip
        of_v = tl.dot(k, of_state, input_precision="tf32x3") * left[:, None]
        of_v = tl.dot(weights.T, grad, of_v, input_precision="tf32x3")
        store_steps(
            v_grad_ptr, row, first, steps, value, values, of_v, CHUNK
        )
        of_weights = tl.dot(grad, v.T, of_weights, input_precision="tf32x3")
        of_q = tl.dot(grad, state.T, of_q, input_precision="tf32x3")
        of_k = tl.dot(v, of_state.T, of_k, input_precision="tf32x3")
        of_whole += state.to(tl.float32) * of_state.to(tl.float32)
    # --8<-- [end:values]
    # --8<-- [start:own]
    of_scores = (of_weights * decay).to(q.dtype)
    of_q *= tl.exp(so_far)[:, None]
    of_k *= left[:, None]
    # The state after the chunk is scaled by all its decays.
    of_end = tl.sum(k * of_k) + tl.sum(of_whole) * tl.exp(whole)
    of_q = tl.dot(of_scores, k, of_q, input_precision="tf32x3")
    of_k = tl.dot(of_scores.T, q, of_k, input_precision="tf32x3")
    store_steps(q_grad_ptr, row, first, steps, key, keys, of_q, CHUNK)
    store_steps(k_grad_ptr, row, first, steps, key, keys, of_k, CHUNK)
    # exp(so_far) multiplies q, and exp(-so_far) multiplies k.
    of_so_far = tl.sum(q * of_q - k * of_k, axis=1)
    of_decay = tl.cumsum(of_so_far, axis=0, reverse=True) + of_end
    tl.store(
        decay_grad_ptr + row * steps + first + step, of_decay,
        mask=step < steps - first,
    )  # fmt: skip
    # --8<-- [end:own]
# --8<-- [end:gradients]


# --8<-- [start:launch]
def plan(kernel: str, dtype: torch.dtype, keys: int, values: int, rows: int = FULL) -> dict[str, int]:
    """Return tiles and warps; ``rows`` are the heads of all texts."""
    wide = max(16, triton.next_power_of_2(values))
    most = {"states": 64, "outputs": 128, "gradients": 64}[kernel]
    # So few walks would leave much of the GPU idle.
    narrow = kernel == "states" and rows * triton.cdiv(values, most) < FULL
    if dtype == torch.float32 or narrow:  # elements of float32 take twice the shared memory
        most //= 2
    return {
        "KEYS": max(16, triton.next_power_of_2(keys)),
        "BLOCK_V": min(wide, most),
        "num_warps": 8 if kernel == "gradients" else 4,
    }


def walk(k, v, log_decay, initial, chunk: int, reverse: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the state before each chunk, or with ``reverse`` after it, and the last state."""
    (batch, heads, steps, keys), values = k.shape, v.shape[3]
    states = torch.empty(batch, heads, triton.cdiv(steps, chunk), keys, values, dtype=k.dtype, device=k.device)
    final = torch.empty(batch, heads, keys, values, dtype=torch.float32, device=k.device)
    chosen = plan("states", k.dtype, keys, values, rows=batch * heads)
    grid = batch * heads, triton.cdiv(values, chosen["BLOCK_V"])
    if final.numel():
        with torch.cuda.device_of(k):  # Triton launches on the current device, which need not be theirs
            states_kernel[grid](
                k,
                v,
                log_decay,
                initial,
                states,
                final,
                k.stride()[:3],
                v.stride()[:3],
                log_decay.stride(),
                heads,
                steps,
                keys,
                values,
                REVERSE=reverse,
                CHUNK=chunk,
                **chosen,
            )
    return states, final


def forward(q, k, v, log_decay, initial, chunk: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the results, the last state, and the state before each chunk."""
    states, final = walk(k, v, log_decay, initial, chunk)
    (batch, heads, steps, keys), values = q.shape, v.shape[3]
    y = torch.empty(batch, heads, steps, values, dtype=q.dtype, device=q.device)
    chosen = plan("outputs", q.dtype, keys, values)
    grid = batch * heads * triton.cdiv(steps, chunk), triton.cdiv(values, chosen["BLOCK_V"])
    if y.numel():
        with torch.cuda.device_of(q):
            outputs_kernel[grid](
                q,
                k,
                v,
                log_decay,
                states,
                y,
                q.stride()[:3],
                k.stride()[:3],
                v.stride()[:3],
                log_decay.stride(),
                heads,
                steps,
                keys,
                values,
                CHUNK=chunk,
                **chosen,
            )
    return y, final, states


class StateScan(torch.autograd.Function):
    @staticmethod
    def forward(q, k, v, log_decay, initial, chunk):
        return forward(q, k, v, log_decay, initial, chunk)

    @staticmethod
    def setup_context(ctx, inputs, output):
        *given, _, ctx.chunk = inputs
        ctx.save_for_backward(*given, output[2])
        ctx.mark_non_differentiable(output[2])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, grad, of_final, _):
        if torch.is_grad_enabled():  # as under create_graph=True
            raise RuntimeError(
                "state_scan has no gradient of its gradient, so it refuses create_graph=True, and torch.func.grad and"
                " vjp, which always ask for it; use torch.autograd.grad"
            )
        q, k, v, log_decay, states = ctx.saved_tensors
        (batch, heads, steps, keys), values = q.shape, v.shape[3]
        if grad is None:
            grad = torch.zeros(1, dtype=q.dtype, device=q.device).expand(batch, heads, steps, values)
        grad = served(grad)
        of_final = None if of_final is None else of_final.contiguous()
        of_states, of_initial = walk(q, grad, log_decay, of_final, ctx.chunk, reverse=True)
        new = lambda *shape, dtype=q.dtype: torch.empty(batch, heads, steps, *shape, dtype=dtype, device=q.device)
        of_q, of_k, of_v, of_decay = new(keys), new(keys), new(values), new(dtype=torch.float32)
        programs = batch * heads * triton.cdiv(steps, ctx.chunk)
        if programs:
            with torch.cuda.device_of(q):
                gradients_kernel[(programs,)](
                    q,
                    k,
                    v,
                    log_decay,
                    grad,
                    states,
                    of_states,
                    of_q,
                    of_k,
                    of_v,
                    of_decay,
                    q.stride()[:3],
                    k.stride()[:3],
                    v.stride()[:3],
                    log_decay.stride(),
                    grad.stride()[:3],
                    heads,
                    steps,
                    keys,
                    values,
                    CHUNK=ctx.chunk,
                    **plan("gradients", q.dtype, keys, values),
                )
        return of_q, of_k, of_v, of_decay, of_initial if ctx.needs_input_grad[4] else None, None
# --8<-- [end:launch]


# --8<-- [start:host]
@torch.compiler.disable  # torch.compile calls it as it is
def state_scan(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    log_decay: torch.Tensor,
    initial: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return each step's result, and the last state, of linear attention with a decay.

    Args:
        q: ``(batch, heads, steps, keys)``, one of ``DTYPES``, on a GPU, or in the interpreter on the CPU. At most 128
            keys. Any strides; copied first unless a step's elements are neighbors in memory.
        k: Like ``q``. Heads that share it, as groups do in Mamba-2, may be expanded: ``k.expand(...)`` takes no memory.
        v: ``(batch, heads, steps, values)``, of the same dtype and device; at most 128 values.
        log_decay: ``(batch, heads, steps)``, float32, any strides: the logarithm of what is left of the state after a
            step; 0 keeps all, and anything below -104 nothing. Above 0 the state grows.
        initial: The state before the first step, ``(batch, heads, keys, values)``, float32; zeros if it's left out.

    Returns:
        ``(batch, heads, steps, values)``, contiguous, of the dtype of ``q``, and the state after the last step,
        ``(batch, heads, keys, values)``, float32. All tensors have gradients. Sums are in float32; the states between
        chunks are rounded to the dtype of ``q`` before they are multiplied. All runs give the same bits.

    Raises:
        ValueError: An argument is something that the kernels cannot serve.
        RuntimeError: In the backward, under ``create_graph=True``: there is no gradient of the gradient.

    >>> ones, half = torch.ones(1, 1, 3, 1), torch.full((1, 1, 3), 0.5).log()
    >>> y, state = state_scan(ones, ones, ones, half)  # each step keeps half, and adds 1
    >>> y.flatten(), state.flatten()
    (tensor([1.0000, 1.5000, 1.7500]), tensor([1.7500]))
    """
    check_arguments(q, k, v, log_decay, initial)
    near = log_decay if abs(log_decay.stride(2)) < 2**24 else log_decay.contiguous()
    start = None if initial is None else initial.contiguous().resolve_neg()
    y, final, _ = StateScan.apply(*map(served, (q, k, v)), near.resolve_neg(), start, CHUNK)
    return y, final
# --8<-- [end:host]


def served(x: torch.Tensor) -> torch.Tensor:
    """Return ``x``, copied if a step's elements are not adjacent in memory, or a chunk's steps lie 2³¹ apart."""
    near = (x.stride(3) == 1 or x.shape[3] == 1) and abs(x.stride(2)) < 2**24
    return (x if near else x.contiguous()).resolve_neg()


def check_arguments(q, k, v, log_decay, initial) -> None:
    """Raise ``ValueError`` for arguments that the kernels would compute wrongly or not at all."""
    given = {"q": q, "k": k, "v": v, "log_decay": log_decay, "initial": initial}
    for name, x in given.items():
        if x is None and name == "initial":
            continue
        if not isinstance(x, torch.Tensor):
            raise ValueError(f"{name} must be a tensor; got {x!r}")
        if x.layout != torch.strided:
            raise ValueError(f"{name} is {x.layout}; pass {name}.to_dense()")
        dtypes = DTYPES if name == "q" else (q.dtype,) if name in "kv" else (torch.float32,)
        if x.dtype not in dtypes:
            raise ValueError(f"{name}'s dtype {x.dtype} is not supported; use one of {', '.join(map(str, dtypes))}")
        if x.device != q.device:
            raise ValueError(f"q is on {q.device} and {name} on {x.device}; move them to one device")
    if q.ndim != 4 or v.ndim != 4:
        raise ValueError(
            "q, k and v must have 4 dimensions: batch, heads, steps, and keys or values; got the shapes"
            f" {tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)}"
        )
    (batch, heads, steps, keys), values = q.shape, v.shape[3]
    shapes = {
        "k": (batch, heads, steps, keys),
        "v": (batch, heads, steps, values),
        "log_decay": (batch, heads, steps),
        "initial": (batch, heads, keys, values),
    }
    for name, shape in shapes.items():
        if given[name] is not None and given[name].shape != shape:
            raise ValueError(f"{name} must be {shape} for q of {tuple(q.shape)}; got {tuple(given[name].shape)}")
    if not 1 <= keys <= WIDEST or not 1 <= values <= WIDEST:
        raise ValueError(f"{keys} keys and {values} values; from 1 to {WIDEST} of each are served")
    if batch * heads * triton.cdiv(steps, CHUNK) >= 2**31 or steps >= 2**31 - CHUNK:
        raise ValueError(f"q {tuple(q.shape)} takes more than 2**31 - 1 programs; split the batch")
    interpreted = not isinstance(states_kernel, triton.JITFunction)
    if q.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"q is on {q.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if interpreted and q.dtype == torch.bfloat16:
        raise ValueError("Triton's interpreter multiplies bfloat16 wrongly (seen in 3.6 to 3.9); use float32 there")


# --8<-- [start:in_torch]
def in_torch(q, k, v, log_decay, initial=None):
    """Compute the same by torch, step by step."""
    (batch, heads, steps, keys), values = q.shape, v.shape[3]
    state = q.new_zeros(batch, heads, keys, values) if initial is None else initial
    results = []
    for t in range(steps):
        added = k[:, :, t, :, None] * v[:, :, t, None, :]
        state = log_decay[:, :, t, None, None].exp() * state + added
        results.append((q[:, :, t, None, :] @ state).squeeze(2))
    return torch.stack(results, 2) if results else q.new_zeros(v.shape), state
# --8<-- [end:in_torch]


# --8<-- [start:main]
def main():
    device = "cuda" if isinstance(states_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    random = torch.Generator().manual_seed(0)
    new = lambda *shape, scale=1.0: (scale * torch.randn(shape, generator=random)).to(device).requires_grad_()

    print("## as step by step")
    for steps, keys, values in ((200, 32, 48), (64, 16, 16), (1, 8, 24)):
        given = (
            new(2, 3, steps, keys, scale=keys**-0.5),
            new(2, 3, steps, keys),
            new(2, 3, steps, values),
            torch.nn.functional.logsigmoid(new(2, 3, steps).detach() + 2).requires_grad_(),
            new(2, 3, keys, values),
        )
        found, wanted = state_scan(*given), in_torch(*given)
        of = [torch.randn(each.shape, generator=random).to(device) for each in found]
        pairs = zip(
            (*found, *torch.autograd.grad(found, given, of)), (*wanted, *torch.autograd.grad(wanted, given, of)),
            strict=True,
        )  # fmt: skip
        right = [torch.allclose(a, b, rtol=1e-3, atol=1e-3) for a, b in pairs]
        names = "result", "last state", "q", "k", "v", "log_decay", "initial"
        named = zip(names, right, strict=True)
        print(f"{steps} steps:", ", ".join(name if fine else f"{name} WRONG" for name, fine in named))
# --8<-- [end:main]


if __name__ == "__main__":
    main()
