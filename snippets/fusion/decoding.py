# SPDX-License-Identifier: Apache-2.0
"""Attention of one new query, or a few, to many keys, as when a language model writes: split the keys, then combine.

With one query a sequence there are few tiles of queries, and most multiprocessors would have none. So the keys of a
sequence are split into parts. A program goes through a part, by online softmax, and stores the maximum ``m`` of its
scores, the sum ``s`` of the weights ``exp(score - m)`` and the weighted sum of values ``a``. A second kernel combines
the parts::

    m = max(m_i)
    out = sum(exp(m_i - m) * a_i) / sum(exp(m_i - m) * s_i)

- :func:`decode_attention`: the function to call. Keys and values may lie in pages, and each sequence may have a length
  of its own. It has no gradient: it is for inference.

Shapes: ``q``, result ``(batch, heads, queries, head_dim)``; ``k``, ``v`` ``(batch, kv_heads, keys, head_dim)``, or
``(pages, page_size, kv_heads, head_dim)`` with a page table ``(batch, pages of a sequence)``.
Traffic, in elements: ``k`` and ``v`` are read once, up to the lengths, by all heads of a group together, at least if
these have no more than 16 queries (32 in 16 bits); each part of each query is written and read once, ``head_dim + 2``
numbers. Nothing is added up by atomics, so every run gives the same bits.
Source: Dao, Haziza, Massa and Sizov, *Flash-Decoding for long-context inference*, 2023; Kwon et al., *Efficient Memory
Management for Large Language Model Serving with PagedAttention*, 2023.

Run it on a GPU with ``python decoding.py``, or with ``TRITON_INTERPRET=1 python decoding.py`` in the interpreter.
"""

import functools
import operator

import torch
import triton
import triton.language as tl

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
HEAD_DIMS = (16, 32, 64, 128, 256)
LONGEST = 2**30  # keys of a sequence, so that a key beyond the last one is still counted in 32 bits
MOST_SPLITS = 512
TOGETHER = 3  # programs of a multiprocessor at a time, by the tiles of default_tile


# --8<-- [start:kernel]
@triton.jit
def parts_kernel(
    q_ptr, k_ptr, v_ptr, lengths_ptr, table_ptr, part_ptr, maximum_ptr, total_ptr,
    q_batch, q_head, q_row, k_page, k_head, k_row, v_page, v_head, v_row, table_row,
    kv_heads, group, queries, keys, tiles, splits,
    SCALE: tl.constexpr, CAUSAL: tl.constexpr, PAGE_SIZE: tl.constexpr, WHOLE: tl.constexpr, COMPUTE: tl.constexpr,
    HEAD_DIM: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    # --8<-- [start:begin]
    pid = tl.program_id(axis=0)  # neighbors read neighboring heads of the same keys
    tile, kv_head = pid % tiles, pid // tiles % kv_heads
    split, batch = pid // (tiles * kv_heads) % splits, (pid // (tiles * kv_heads) // splits).to(tl.int64)
    # --8<-- [end:begin]
    # --8<-- [start:rows]
    row, column = tile * ROWS + tl.arange(0, ROWS), tl.arange(0, HEAD_DIM)
    there = row < group * queries
    head = (kv_head * group + row // queries).to(tl.int64)
    query = (row % queries).to(tl.int64)
    q_rows = q_ptr + (batch * q_batch + head * q_head + query * q_row)
    q = tl.load(
        q_rows[:, None] + column[None, :], mask=there[:, None], other=0.0
    )  # fmt: skip
    # --8<-- [end:rows]
    # --8<-- [start:part]
    length = keys
    if lengths_ptr is not None:
        length = tl.maximum(tl.load(lengths_ptr + batch), 0)
        length = tl.minimum(length, keys).to(tl.int32)
    steps = tl.cdiv(length, BLOCK)
    # the first `more` parts have one step more
    each, more = steps // splits, steps % splits
    begin = split * each + tl.minimum(split, more)
    end = begin + each + (split < more).to(tl.int32)
    # --8<-- [end:part]
    k_ptr += kv_head.to(tl.int64) * k_head
    v_ptr += kv_head.to(tl.int64) * v_head
    maximum = tl.full((ROWS,), -float("inf"), COMPUTE)
    total = tl.zeros((ROWS,), COMPUTE)
    accumulator = tl.zeros((ROWS, HEAD_DIM), COMPUTE)
    # --8<-- [start:loop]
    for step in range(begin, end):
        key = step * BLOCK + tl.arange(0, BLOCK)
        inside = key < length
        # --8<-- [start:pages]
        page, place = batch, key.to(tl.int64)
        if table_ptr is not None:
            entry = table_ptr + batch * table_row + key // PAGE_SIZE
            page = tl.load(entry, mask=inside, other=0).to(tl.int64)
            place = key % PAGE_SIZE
        k_rows = k_ptr + (page * k_page + place * k_row)
        v_rows = v_ptr + (page * v_page + place * v_row)
        # --8<-- [end:pages]
        k_ptrs = k_rows[:, None] + column[None, :]
        v_ptrs = v_rows[:, None] + column[None, :]
        k = tl.load(k_ptrs, mask=inside[:, None], other=0.0)
        v = tl.load(v_ptrs, mask=inside[:, None], other=0.0)
        score = tl.dot(q, tl.trans(k), input_precision="ieee") * SCALE
        seen = inside[None, :]
        if CAUSAL:  # the last query sees the last key
            seen = seen & (key[None, :] <= query[:, None] + (length - queries))
        score = tl.where(seen, score, -float("inf"))
        new_maximum = tl.maximum(maximum, tl.max(score, axis=1))
        # no key seen yet: -inf - 0, not -inf - -inf, which is NaN
        shift = tl.where(new_maximum == -float("inf"), 0.0, new_maximum)
        rescale = tl.exp(maximum - shift)
        weight = tl.exp(score - shift[:, None])
        total = total * rescale + tl.sum(weight, axis=1)
        weight, accumulator = weight.to(v.dtype), accumulator * rescale[:, None]
        accumulator = tl.dot(
            weight, v, accumulator, input_precision="ieee", out_dtype=COMPUTE
        )
        maximum = new_maximum
    # --8<-- [end:loop]
    # --8<-- [start:end]
    number = (batch * kv_heads + kv_head) * group * queries + row  # of the query, of all
    part = number * splits + split
    if WHOLE:  # the only part: there is nothing to combine
        accumulator = accumulator / tl.where(total == 0.0, 1.0, total)[:, None]
    else:
        tl.store(maximum_ptr + part, maximum, mask=there)
        tl.store(total_ptr + part, total, mask=there)
    tl.store(part_ptr + part[:, None] * HEAD_DIM + column[None, :], accumulator, mask=there[:, None])
    # --8<-- [end:end]
# --8<-- [end:kernel]


# --8<-- [start:combine]
@triton.jit
def combine_kernel(
    part_ptr, maximum_ptr, total_ptr, out_ptr, splits,
    COMPUTE: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    number, column = (
        tl.program_id(axis=0).to(tl.int64), tl.arange(0, HEAD_DIM)
    )  # fmt: skip
    maximum, total = (
        tl.full((), -float("inf"), COMPUTE), tl.zeros((), COMPUTE)
    )  # fmt: skip
    accumulator = tl.zeros((HEAD_DIM,), COMPUTE)
    for begin in range(0, splits, BLOCK):
        split = begin + tl.arange(0, BLOCK)
        there, part = split < splits, number * splits + split
        part_maximum = tl.load(
            maximum_ptr + part, mask=there, other=-float("inf")
        )  # fmt: skip
        part_total = tl.load(total_ptr + part, mask=there, other=0.0)
        part_ptrs = part_ptr + part[:, None] * HEAD_DIM + column[None, :]
        part_accumulator = tl.load(
            part_ptrs, mask=there[:, None], other=0.0
        )  # fmt: skip
        new_maximum = tl.maximum(maximum, tl.max(part_maximum, axis=0))
        # no key seen yet
        shift = tl.where(new_maximum == -float("inf"), 0.0, new_maximum)
        rescale, factor = (
            tl.exp(maximum - shift), tl.exp(part_maximum - shift)
        )  # fmt: skip
        total = total * rescale + tl.sum(factor * part_total, axis=0)
        added = tl.sum(factor[:, None] * part_accumulator, axis=0)
        accumulator = accumulator * rescale + added
        maximum = new_maximum
    # zeros if no key is seen
    out = accumulator / tl.where(total == 0.0, 1.0, total)
    tl.store(out_ptr + number * HEAD_DIM + column, out)
# --8<-- [end:combine]


@functools.lru_cache(maxsize=4096)
def choose_splits(programs: int, steps: int, multiprocessors: int = 132) -> int:
    """Return how many parts to split each sequence's keys into: few, but no multiprocessor is idle for long.

    A multiprocessor has room for ``TOGETHER`` programs. So they run in waves of so many for each, and the last wave
    should be nearly full.

    Args:
        programs: How many there are without a split: batch * kv_heads, more if a group has many rows.
        steps: Of the longest sequence, tiles of keys. A part gets two at least.
        multiprocessors: Of the GPU; 132 has an H200.

    >>> choose_splits(8, 1024), choose_splits(128, 128), choose_splits(5000, 128)
    (48, 3, 1)
    """
    # --8<-- [start:choose]
    room = TOGETHER * multiprocessors  # programs of a wave
    most = max(1, min(steps // 2, MOST_SPLITS))
    full = {}
    for splits in range(1, most + 1):
        waves = triton.cdiv(programs * splits, room)
        full[splits] = programs * splits / (waves * room)
    enough = 0.95 * max(full.values())
    return next(splits for splits, share in full.items() if share >= enough)
    # --8<-- [end:choose]


def default_tile(dtype: torch.dtype, head_dim: int, rows: int) -> tuple[int, int, int, int]:
    """Return rows of q and keys of a tile, warps of a program, and stages of its loop.

    In float64, some registers spill.

    In 16 bits a tile of keys has 16 KiB: with three stages, three programs have room on a multiprocessor of an H200,
    and one on any GPU that has 99 KiB.

    >>> default_tile(torch.bfloat16, 128, rows=4)
    (16, 64, 4, 3)
    """
    if dtype.itemsize > 2:
        return 16, max(16, (2048 if dtype == torch.float32 else 512) // head_dim), 4, 2
    return min(32, max(16, triton.next_power_of_2(rows))), min(128, 8192 // head_dim), 4, 3


# --8<-- [start:launch]
def forward(q, k, v, lengths, page_table, causal: bool, scale: float, splits: int | None, tile=None) -> torch.Tensor:
    check_arguments(q, k, v, lengths, page_table, splits)
    (batch, heads, queries, head_dim), (kv_heads, keys) = q.shape, sizes(k, page_table)
    if not q.numel():
        return torch.empty(q.shape, dtype=q.dtype, device=q.device)
    group = heads // kv_heads
    rows, block, num_warps, num_stages = tile or default_tile(q.dtype, head_dim, group * queries)
    if page_table is not None:  # it is loaded ahead of what it points to, and that takes stages, too
        num_stages = 2 * num_stages - 1
    tiles, steps = triton.cdiv(group * queries, rows), triton.cdiv(keys, block)
    programs = batch * kv_heads * tiles
    splits = splits or choose_splits(programs, steps, multiprocessors_of(q.device))
    if programs * splits >= 2**31:  # CUDA's limit along one axis
        raise ValueError(
            f"{tuple(q.shape)} takes {programs * splits} programs; 2**31 - 1 is the limit: split the batch"
        )
    q = (q if q.stride(3) == 1 else q.contiguous()).resolve_neg()
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    whole, compute = splits == 1, dtype_inside(q)
    part, maximum, total = out, None, None
    if not whole:
        part = torch.empty(batch, heads, queries, splits, head_dim, dtype=compute, device=q.device)
        maximum, total = torch.empty(2, batch, heads, queries, splits, dtype=compute, device=q.device)
    if page_table is None:
        page_size, table_row, k_strides, v_strides = 1, 0, k.stride()[:3], v.stride()[:3]
    else:  # of a page, a head, a row
        page_size, table_row = k.shape[1], page_table.stride(0)
        k_strides, v_strides = ((x.stride(0), x.stride(2), x.stride(1)) for x in (k, v))
    COMPUTE = tl.float64 if compute == torch.float64 else tl.float32
    with torch.cuda.device_of(q):  # Triton launches on the current device, which need not be that of the tensors
        parts_kernel[(programs * splits,)](
            q, k, v, lengths, page_table, part, maximum, total, *q.stride()[:3], *k_strides, *v_strides, table_row,
            kv_heads, group, queries, keys, tiles, splits,
            SCALE=scale, CAUSAL=causal and queries > 1, PAGE_SIZE=page_size, WHOLE=whole, COMPUTE=COMPUTE,
            HEAD_DIM=head_dim, ROWS=rows, BLOCK=block, num_warps=num_warps, num_stages=num_stages,
        )  # fmt: skip
        if not whole:
            combine_kernel[(batch * heads * queries,)](
                part, maximum, total, out, splits, COMPUTE=COMPUTE, HEAD_DIM=head_dim,
                BLOCK=min(triton.next_power_of_2(splits), 8192 // head_dim), num_warps=4,
            )  # fmt: skip
    return out
# --8<-- [end:launch]


def sizes(k: torch.Tensor, page_table: torch.Tensor | None) -> tuple[int, int]:
    """Return the heads of ``k``, and how many keys a sequence has at most."""
    return tuple(k.shape[1:3]) if page_table is None else (k.shape[2], page_table.shape[1] * k.shape[1])


def dtype_inside(x: torch.Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


@functools.cache
def multiprocessors_of(device: torch.device) -> int:
    """Return the number of multiprocessors; in the interpreter, that of an H200."""
    return 132 if device.type != "cuda" else torch.cuda.get_device_properties(device).multi_processor_count


# --8<-- [start:op]
@torch.library.custom_op("triton_by_example::decode_attention", mutates_args=())
def decode_attention_op(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lengths: torch.Tensor | None, page_table: torch.Tensor | None,
    causal: bool, scale: float, splits: int | None,
) -> torch.Tensor:  # fmt: skip
    return forward(q, k, v, lengths, page_table, causal, scale, splits)


@decode_attention_op.register_fake
def _(q, k, v, lengths, page_table, causal, scale, splits):
    return q.new_empty(q.shape)
# --8<-- [end:op]


def as_int(name: str, value) -> int:
    """Return a whole number of Python or NumPy, or of a tensor on the CPU, as Python's ``int``."""
    if isinstance(value, int):
        return value
    try:
        if getattr(value, "is_cuda", False):  # to read it, the host would wait for the GPU
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be a whole number, not on a GPU; got {value!r}") from None


def as_float(name: str, value) -> float:
    """Return a number of Python or NumPy, or of a tensor on the CPU, as Python's ``float``."""
    if isinstance(value, float):
        return value
    try:
        if isinstance(value, str) or getattr(value, "is_cuda", False):  # the host would wait for the GPU
            raise TypeError
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"{name} must be a number, not on a GPU; got {value!r}") from None


# --8<-- [start:host]
def decode_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, lengths: torch.Tensor | None = None,
    page_table: torch.Tensor | None = None, causal: bool = False, scale: float | None = None, splits: int | None = None,
) -> torch.Tensor:  # fmt: skip
    """Return ``softmax(scale * q @ kᵀ) @ v`` of each head, for few queries and many keys; without a gradient.

    Args:
        q: ``(batch, heads, queries, head_dim)`` on a GPU (in the interpreter: on the CPU), of one of ``DTYPES``;
            head_dim one of ``HEAD_DIMS``, any strides. For many queries a sequence, ``attention.py`` is faster.
        k: ``(batch, kv_heads, keys, head_dim)``; with a page table ``(pages, page_size, kv_heads, head_dim)``. The
            elements of a row are neighbors in memory, all else may lie anywhere. It is never copied. heads is a
            multiple of kv_heads, and ``heads // kv_heads`` heads in a row share a head of ``k`` and ``v``.
        v: Of the shape of ``k``.
        lengths: ``(batch,)``, int32 or int64: how many keys each sequence has. What is below 0 counts as 0, what is
            above the most as the most. Keys and values behind a length are not read.
        page_table: ``(batch, pages of a sequence)``, int32 or int64: key ``i`` of a sequence is row ``i % page_size``
            of page ``page_table[sequence, i // page_size]``. The kernel trusts it: each entry up to the length must be
            the number of a page, or foreign memory is read. Those behind the length are not read.
        causal: Whether a query sees only keys that are no later. The last query and the last key, by its length, are
            of the same time.
        scale: Of the scores; ``head_dim ** -0.5`` unless told. Each value is compiled anew, and so is each page_size.
        splits: Into how many parts the keys of each sequence are split, 1 to ``MOST_SPLITS``; unless told, as
            :func:`choose_splits` says. With a fixed number, a sequence's result does not depend on the rest of the
            batch, to the last bit.

    Returns:
        A new contiguous tensor of the shape and dtype of ``q``, computed in float32 (in float64 for float64), with the
        weights rounded to the dtype of ``v`` before they meet it. A query that sees no key gets zeros. The same bits
        in every run on one kind of GPU. Nothing waits for the GPU: lengths and page table are read by the kernel, which
        may still be running when the result is returned.

    Raises:
        ValueError: If an argument is something the kernels can't serve, such as a tensor that requires a gradient.

    >>> q, k = torch.zeros(2, 1, 1, 16), torch.zeros(2, 1, 4, 16)
    >>> v = torch.arange(4.0).view(1, 1, 4, 1).repeat(2, 1, 1, 16)
    >>> decode_attention(q, k, v, lengths=torch.tensor([3, 0]))[:, 0, 0, 0]
    tensor([1., 0.])
    """
    scale = q.shape[-1] ** -0.5 if scale is None else as_float("scale", scale)
    splits = None if splits is None else as_int("splits", splits)
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        raise ValueError(
            "q, k or v requires a gradient, which decode_attention does not compute; use torch.no_grad(), or attention"
        )
    call = decode_attention_op if torch.compiler.is_compiling() else forward
    return call(q, k, v, lengths, page_table, bool(causal), scale, splits)
# --8<-- [end:host]


# --8<-- [start:check]
def check_arguments(q, k, v, lengths=None, page_table=None, splits=None) -> None:
    """Raise ``ValueError`` for arguments that the kernels would get wrong, or can't serve at all."""
    layout = "(batch, kv_heads, keys, head_dim)" if page_table is None else "(pages, page_size, kv_heads, head_dim)"
    for name, x in {"q": q, "k": k, "v": v}.items():
        if x.ndim != 4:
            raise ValueError(
                f"{name} must be {'(batch, heads, queries, head_dim)' if name == 'q' else layout}; "
                f"got the shape {tuple(x.shape)}"
            )
        if x.dtype != q.dtype or x.device != q.device:
            raise ValueError(
                f"q and {name} must have the same dtype and device; got {q.dtype} on {q.device} and {x.dtype} on "
                f"{x.device}"
            )
        if x.layout != torch.strided:
            raise ValueError(f"{name} is {x.layout}; pass {name}.to_dense()")
        if name != "q" and (x.is_neg() or (x.stride(3) != 1 and x.numel())):
            raise ValueError(
                f"the elements of a row of {name} must be neighbors in memory, not negated lazily; got strides "
                f"{x.stride()}; {name}.contiguous().resolve_neg() copies it, so keep that copy for all steps"
            )
    if v.shape != k.shape:
        raise ValueError(f"v must have the shape of k, {tuple(k.shape)}; got {tuple(v.shape)}")
    batch, heads, queries, head_dim = q.shape
    for name, x, ndim in (("lengths", lengths, 1), ("page_table", page_table, 2)):
        if x is None:
            continue
        if x.ndim != ndim or len(x) != batch or x.dtype not in (torch.int32, torch.int64) or x.device != q.device:
            raise ValueError(
                f"{name} must be {'(batch,)' if ndim == 1 else '(batch, pages of a sequence)'} with the batch of "
                f"{batch} of q, int32 or int64, on {q.device}; got {tuple(x.shape)} of {x.dtype} on {x.device}"
            )
        if x.shape[-1] > 1 and x.stride(-1) != 1:
            raise ValueError(f"{name} must have neighbors along its last axis; got strides {x.stride()}")
    kv_heads, keys = sizes(k, page_table)
    if head_dim != k.shape[3] or (page_table is None and len(k) != batch):
        raise ValueError(f"q and k must have the same batch and head_dim; got {tuple(q.shape)} and {tuple(k.shape)}")
    if page_table is not None and page_table.numel() and not k.shape[0] * k.shape[1]:
        raise ValueError(f"the page table has {page_table.numel()} entries, but k, {tuple(k.shape)}, has no pages")
    if heads and (not kv_heads or heads % kv_heads):
        raise ValueError(f"the {heads} heads of q must be a multiple of the {kv_heads} of k and v")
    if head_dim not in HEAD_DIMS:
        raise ValueError(f"head_dim {head_dim} is not supported; use one of {', '.join(map(str, HEAD_DIMS))}")
    if keys > LONGEST or heads * queries > LONGEST:
        raise ValueError(f"{keys} keys, {heads} heads and {queries} queries are too many: at most 2**30 are served")
    if splits is not None and not 1 <= splits <= MOST_SPLITS:
        raise ValueError(f"splits must be from 1 to {MOST_SPLITS}; got {splits}")
    if q.dtype not in DTYPES:
        raise ValueError(f"dtype {q.dtype} is not supported; use one of {', '.join(map(str, DTYPES))}")
    interpreted = not isinstance(parts_kernel, triton.JITFunction)
    if q.device.type != ("cpu" if interpreted else "cuda"):  # "cuda" is also torch's name for AMD's GPUs
        raise ValueError(f"q is on {q.device}; kernels run on {'the CPU, interpreted' if interpreted else 'a GPU'}")
    if q.dtype == torch.bfloat16 and interpreted:
        raise ValueError("Triton's interpreter rounds bfloat16 wrongly (seen in 3.7.1); use float32 there, or a GPU")
# --8<-- [end:check]


# --8<-- [start:in_torch]
def gathered(cache: torch.Tensor, page_table: torch.Tensor) -> torch.Tensor:
    """Return pages as ``(batch, kv_heads, keys, head_dim)``, copied."""
    return cache[page_table].flatten(1, 2).transpose(1, 2)


def in_torch(q, k, v, *, lengths=None, page_table=None, causal=False, scale=None):
    """Compute the same by operations of torch."""
    if page_table is not None:
        k, v = gathered(k, page_table), gathered(v, page_table)
    (batch, heads, queries, head_dim), (kv_heads, keys) = q.shape, k.shape[1:3]
    k, v = (x.repeat_interleave(heads // kv_heads, dim=1) for x in (k, v))
    lengths = torch.full((batch,), keys, device=q.device) if lengths is None else lengths.clamp(0, keys)
    key, query = torch.arange(keys, device=q.device), torch.arange(queries, device=q.device)
    last = lengths[:, None] - queries + query if causal else lengths[:, None] - 1 + 0 * query
    seen = (key <= last[..., None])[:, None]
    v = v.masked_fill((key >= lengths[:, None])[:, None, :, None], 0)  # it may be NaN, and 0 * NaN is NaN
    scores = (q @ k.mT * (head_dim**-0.5 if scale is None else scale)).masked_fill(~seen, -float("inf"))
    return scores.softmax(dim=-1).masked_fill(~seen, 0) @ v
# --8<-- [end:in_torch]


def main():
    device = "cuda" if isinstance(parts_kernel, triton.JITFunction) else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run this in Triton's interpreter, on the CPU")
    print("## lengths")
    q, k = torch.zeros(3, 1, 1, 16, device=device), torch.zeros(3, 1, 5, 16, device=device)
    v = torch.arange(1.0, 6, device=device).view(1, 1, 5, 1).repeat(3, 1, 1, 16)
    lengths = torch.tensor([5, 2, 0], dtype=torch.int32, device=device)
    for length, value in zip(lengths.tolist(), decode_attention(q, k, v, lengths=lengths)[:, 0, 0, 0], strict=True):
        print(f"{length} keys of 1 2 3 4 5: {value:.1f}")


if __name__ == "__main__":
    main()
