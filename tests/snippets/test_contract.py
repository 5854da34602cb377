# SPDX-License-Identifier: Apache-2.0
"""Every host function refuses what it cannot serve, in words that name the argument, and serves strides as it says.

One entry a function, by the rules of ``contract``; a new snippet adds one. What only one function has to refuse, such
as a plan of its own, stands in its own tests. A refusal comes before any launch, so none of this
needs a GPU.
"""

import contextlib
import math
import sys

import pytest
import torch
from contract import LAYOUTS, READS, Host, cases, layouts_of, pattern_of
from guards import as_if_compiled, check_same_bits, without_memory

from snippets.fusion import (
    attention,
    attention_backward,
    autograd,
    decoding,
    dropout,
    long_softmax,
    norms,
    rope,
    scan,
    swiglu,
    topk,
)
from snippets.fusion import attention_variable as variable
from snippets.fusion import cross_entropy as entropy
from snippets.fusion import histogram as histograms
from snippets.fusion import linear_cross_entropy as linear_entropy
from snippets.gpu import cache_hints, coalescing, fusion_bytes, hierarchy, launch_and_latency, loads, memory
from snippets.gpu import schedule_occupancy as occupancy
from snippets.matmul import autotuned, few_rows, fused, grouped, naive, persistent, precision, split_k
from snippets.matmul import matmul as product
from snippets.models import block_scales, conv2d, convolution, int4, state, state_steps, stencil, window_attention
from snippets.models import block_scales_few_rows as few_blocks
from snippets.programs import (
    cuda_rows,
    greyscale,
    masks,
    masks_price,
    masks_ranges,
    offsets,
    offsets_plain,
    softmax,
    vector_add,
    warp_divergence,
)
from snippets.programs import programs_and_threads as threads
from snippets.programs import programs_and_threads_cuda as threads_cuda
from snippets.start import torch_compile_lifted as lifted
from snippets.start import torch_compile_rms_norm as compiled_norm
from snippets.start import when_to_write_a_kernel as recurrences

ONE = "dtype device negated gradient bfloat16 strides compiled"  # of a tensor that must be contiguous
BLOCKS = (0, -4, 3, 4.0, 2**17)  # no power of two, no integer, too large
WARPS = (0, 3, 64, 2.0)
SMALL_FLOATS = (torch.float16, torch.float32)
BEGINS = torch.tensor([0, 3], dtype=torch.int32)
ALIKE = "the same shape, dtype and device; got "


def ones(*shape, dtype=torch.float32):
    return torch.ones(shape, dtype=dtype)


def numbers(*shape, dtype=torch.float32):
    """Small whole numbers, no two neighbors alike."""
    return (torch.arange(math.prod(shape)) * 7 % 11 - 4).view(shape).to(dtype)


def expanded(*shape, dtype=torch.float32):
    """As large as one likes: one number."""
    return torch.ones((1,) * len(shape), dtype=dtype).expand(shape)


def product_of(function, a="a", b="b", turned=False, **more):
    """An entry of a matrix product: what each of them refuses alike."""
    shapes = [
        ({b: lambda x: x[0]}, "(3,)" if turned else "(4,)"),
        ({b: lambda x: x.T.contiguous()}, "(3, 4)" if turned else "(4, 3)"),
        ({a: lambda x: x[0, 0] if turned else x[0]}, "()" if turned else "(3,)"),
    ]
    given = lambda: {a: numbers(2, 3), b: numbers(4, 3) if turned else numbers(3, 4)}
    more["more"] = (*shapes, *more.get("more", ()))
    more.setdefault("refuses", "dtype alike device devices bfloat16 compiled sparse negated gradient")
    more.setdefault("dtypes", SMALL_FLOATS)
    return Host(function, more.pop("given", given), kernel=more.pop("kernel", "matmul_kernel"), **more)


TOO_LONG = [({"a": lambda _: expanded(2**30, 3)}, "below 2**30"), ({"b": lambda _: expanded(3, 2**30)}, "below 2**30")]
LONG = [({"a": lambda x: expanded(2**30 + 1, 3)}, "2**30"), ({"b": lambda x: expanded(3, 2**30 + 1)}, "2**30")]


def by(patch, function):
    """The function with a patch, by which it goes to its custom op, as under torch.compile."""

    def patched(**arguments):
        with patch():
            return function(**arguments)

    return patched


FOUR_BITS = int4.pack(numbers(3, 128).int() + 4, ones(3, 1), ones(3, 1).int())
HOSTS = {
    # programs
    "vector_add.add": Host(
        vector_add.add, lambda: {"x": numbers(2, 3), "y": numbers(2, 3)},
        refuses=f"alike devices {ONE}", dtypes=vector_add.DTYPES, kernel="add_kernel",
        on_gpu=lambda on: vector_add.check_arguments(on(3), on(3), 16),
        options={"block_size": (*BLOCKS, 1023)}, reads={"alike": f"{ALIKE}.*torch.float32.*{{dtype}}"},
        more=[
            ({"y": lambda y: y.T.contiguous()}, f"{ALIKE}(2, 3)"),
            ({"y": lambda y: y[:1]}, f"{ALIKE}(2, 3) torch.float32 on cpu and (1, 3)"),
            ({"x": lambda x: x[:0], "y": lambda y: y[:0], "block_size": 3}, "power of two"),
            ({"x": lambda _: without_memory(2**31), "y": lambda _: without_memory(2**31), "block_size": 1},
             "too many for block_size 1; use a larger block_size"),
        ],
    ),
    **{
        f"softmax.{function.__name__}": Host(
            function, lambda: {"x": numbers(2, 3)}, refuses=ONE, dtypes=softmax.DTYPES, kernel="softmax_kernel",
            on_gpu=lambda on: softmax.check_arguments(on(2, 3)),
            serves="gaps", reads={"strides": "x has strides {strides}.*neighbors in memory; pass x.contiguous()"},
            more=[
                ({"x": lambda x: x[0]}, "2 dimensions, rows and columns; got the shape (3,)"),
                ({"x": lambda x: x[None]}, "(1, 2, 3)"),
                ({"x": lambda _: ones(1, 2**15 + 1)}, "32769 columns, at most 32768 are served: one program holds"),
                ({"x": lambda _: ones(0, 2**15 + 1)}, "a longer one needs a loop"),
                ({"x": lambda _: expanded(2**31, 1)}, "2147483648 rows are too many for one launch"),
            ],
        )
        for function in (softmax.softmax, softmax.log_softmax)
    },
    **{
        f"masks.{function.__name__}": Host(
            function, lambda: {"x": numbers(2, 3)},
            refuses="dtype device negated gradient bfloat16 compiled", serves="strides",
            dtypes=masks.DTYPES, kernel="row_sum_kernel", on_gpu=lambda on: masks.check_arguments(on(2, 3), 2),
            options={"tile": ((3, 4), (4, 0), (2.0, 4), (2**9, 2**8), (2**17, 1))},
            more=[
                ({"x": lambda x: x[0]}, "2 dimensions"), ({"x": lambda x: x[None]}, "(1, 2, 3)"),
                ({"x": lambda x: x[:0], "tile": (3, 4)}, "powers of two"),
                ({"x": lambda _: expanded(1, 2**31)}, "too many for one program"),
                ({"x": lambda _: expanded(2**31, 1), "tile": (1, 4)}, "too many for a tile of 1"),
            ],
        )
        for function in (masks.row_sum, masks.row_max, masks.row_prod)
    },
    **{
        f"masks.{function.__name__}": Host(
            function, lambda: {"x": numbers(3)}, refuses=ONE, dtypes=masks.DTYPES, kernel="row_sum_kernel",
            makes=function is masks.pad, options={"block_size": BLOCKS},
            more=[
                ({"x": lambda x: x[None]}, "1 dimension;"),
                ({"x": lambda x: x[:0], "block_size": 0}, "power of two"),
                ({"x": lambda _: without_memory(2**31, dtype=torch.int8), "block_size": 1}, "for block_size 1"),
            ],
        )
        for function in (masks.pad, masks.relu_)
    },
    "masks_price.copy": Host(
        masks_price.copy, lambda: {"x": numbers(6)}, refuses="dtype device negated gradient strides",
        dtypes=masks_price.DTYPES, options={"mask": ("first",), "block_size": (*BLOCKS, 6)},
        reads={"dtype": "{dtype} is not supported; copy a view"},
        more=[({"mask": "none", "block_size": 4}, "do not fill blocks of 4")],
    ),
    "masks_ranges.element": Host(
        masks_ranges.element, lambda: {"x": numbers(4), "i": 0},
        refuses="dtype device negated gradient strides", dtypes=masks_ranges.DTYPES, options={"i": (4, -1, 1.0)},
        more=[({"x": lambda x: x.view(2, 2)}, "1 dimension;")],
    ),
    "masks_ranges.front": Host(
        masks_ranges.front, lambda: {"x": numbers(4), "k": 2}, options={"k": (3, 8, 0, 2.0)},
        more=[({"x": lambda _, n=n: ones(n)}, "power of two of elements") for n in (0, 5)],
    ),
    "masks_ranges.halves": Host(
        masks_ranges.halves, lambda: {"x": numbers(4)},
        more=[({"x": lambda _: ones(1)}, "no halves"), ({"x": lambda _: ones(2**14)}, "at most 2**13")],
    ),
    "masks_ranges.row_sum_two_ranges": Host(
        masks_ranges.row_sum_two_ranges, lambda: {"x": numbers(2, 3)},
        more=[
            *(({"x": lambda _, n=n: ones(2, n)}, "sum of two powers of two") for n in (4, 7, 0)),
            ({"x": lambda _: ones(0, 2**16 + 1)}, "at most 2**16"), ({"x": lambda _: ones(12)}, "2 dimensions"),
        ],
    ),
    "greyscale": Host(
        greyscale.greyscale, lambda: {"picture": numbers(3, 2, 4, dtype=torch.uint8)},
        refuses="dtype device compiled", serves="strides", dtypes=(torch.uint8,), kernel="greyscale_kernel",
        on_gpu=lambda on: greyscale.check_arguments(on(3, 2, 2).to(torch.uint8), 0, (1, 1), 1),
        options={"channel_dim": (3, -4, "c"), "num_warps": WARPS[:3],
                 "block": ((3, 4), (4, 0), (-2, 4), (2.0, 4), (4,), (2, 2, 2))},
        reads={"dtype": "picture has dtype {dtype}; it takes torch.uint8", "channel_dim": "channel_dim is {value}; it"},
        more=[
            ({"picture": lambda x: x[None]}, "(1, 3, 2, 4); it takes one picture: three dimensions"),
            ({"picture": lambda x: x[0]}, "three dimensions"),
            ({"picture": lambda x: x.permute(1, 2, 0)}, "2 channels in dimension 0; it takes 3: set channel_dim"),
            ({"picture": lambda x: x[[0, 1, 2, 2]]}, "or slice off"),
            ({"picture": torch._neg_view}, "negated lazily; pass picture.resolve_neg()"),
            ({"block": (512, 256)}, "at most 2**16"),
            ({"picture": lambda _: expanded(3, 65536, 1, dtype=torch.uint8)}, "65536 rows take a block of more rows"),
        ],
    ),
    "greyscale_flat": Host(
        greyscale.greyscale_flat, lambda: {"picture": numbers(3, 4, 8, dtype=torch.uint8)}, refuses="dtype",
        dtypes=(torch.uint8,), reads={"dtype": "picture has dtype {dtype}"},
        more=[
            *(({"picture": lambda x, h=h, w=w: x[:, :h, :w]}, "gaps between its rows; use greyscale")
              for h, w in ((4, 5), (2, 5), (4, 1))),
            ({"picture": lambda _: expanded(3, 1, 2**31, dtype=torch.uint8), "block_size": 1}, "larger block_size"),
        ],
    ),
    "offsets.contiguous": Host(
        offsets.contiguous, lambda: {"x": numbers(2, 4)}, refuses="device sparse negated gradient compiled",
        serves="strides", kernel="copy_kernel",
        options={"num_warps": (3, 64), "block": ((1, 2, 4), (1, 3), (0, 4), (1, 4.0))},
        more=[
            ({"x": lambda x: x[None, None]}, "(1, 1, 2, 4); it takes up to three"),
            ({"x": lambda x: x.to(torch.complex128)}, "complex128 has 16 bytes; it takes dtypes of 1, 2, 4 or 8"),
            ({"x": lambda x: (x * 1j).conj()}, "x is conjugated lazily; pass x.resolve_conj()"),
            ({"block": (128, 256)}, "131072 bytes; it takes at most 2**16"),
            ({"x": lambda _: expanded(65536, 1), "flat": False, "block": (1, 1)},
             "65536 programs along axis 1 with block (1, 1); CUDA starts at most 65535"),
            ({"x": lambda _: expanded(65536, 1, 1), "flat": False}, "65536 programs along axis 2"),
            ({"x": lambda _: expanded(2**31, dtype=torch.int8), "block": (1, 1)}, "2147483648 programs along axis 0"),
        ],
    ),
    "offsets.copy_by_descriptor": Host(
        offsets.copy_by_descriptor, lambda: {"x": numbers(4, 8)}, refuses="gradient",
        more=[
            ({"x": lambda x: x[0]}, "(8,); it takes a matrix"), ({"x": lambda x: x[None]}, "(1, 4, 8); it takes a mat"),
            ({"x": lambda x: x.T}, "x has strides (1, 8), and the last must be 1"),
            ({"x": lambda x: x[:, ::2]}, "strides (8, 2), and the last must be 1"),
            ({"x": lambda _: ones(3, 5)}, "stride of a row"), ({"x": lambda x: x[:, :5]}, "length of a row"),
            ({"x": lambda _: ones(3, 12)[:, 1:9]}, "start of x"),
            ({"block": (4, 2)}, "at least 16 bytes"), ({"block": (4, 512)}, "sides up to 256"),
            ({"block": (128, 256)}, "131072 bytes"),
        ],
    ),
    "offsets_plain.copy_matrix": Host(
        offsets_plain.copy_matrix, lambda: {"x": numbers(2, 4)}, refuses="device sparse negated gradient compiled",
        serves="strides", kernel="copy_matrix_kernel", on_gpu=lambda on: offsets_plain.check_matrix(on(2, 3)),
        options={"block": ((1, 2, 4), (1, 3), (0, 4), (1, 4.0))},
        more=[
            ({"x": lambda x: x[0]}, "(4,); it takes a matrix"), ({"x": lambda x: x[None]}, "(1, 2, 4); it takes a mat"),
            ({"x": lambda x: x.to(torch.complex128)}, "complex128 has 16 bytes; it takes dtypes of 1, 2, 4 or 8"),
            ({"x": lambda x: (x * 1j).conj()}, "x is conjugated lazily; pass x.resolve_conj()"),
            ({"block": (128, 256)}, "131072 bytes; it takes at most 2**16"),
            ({"x": lambda _: expanded(131071, 1), "block": (2, 1)}, "131071 rows are too many"),
            ({"x": lambda _: expanded(65536, 1), "block": (1, 1)}, "at most 65,535"),
            ({"x": lambda _: expanded(1, 2**31 + 1, dtype=torch.int8)}, "offset 2147483648"),
        ],
    ),
    "programs_and_threads.count": Host(
        threads.count, lambda: {"n": 3, "block_size": 4, "num_warps": 1, "device": "cpu"},
        options={"num_warps": WARPS, "block_size": BLOCKS, "n": (2**31 - 3,)},
    ),
    "programs_and_threads.add_on_warps": Host(
        threads.add_on_warps, lambda: {"x": ones(3), "y": ones(3)}, options={"num_warps": WARPS},
        more=[({"y": lambda y: y[1:]}, "same shape")],
    ),
    "programs_and_threads.axes": Host(
        threads.axes, lambda: {"grid": (1, 1, 1), "device": "cpu"},
        options={"grid": ((1, 1), (0, 1, 1), (1, 11, 1), (1, 1, 2.0))},
    ),
    **{
        f"programs_and_threads_cuda.{function.__name__}": Host(
            function, lambda: {"x": ones(8), "y": ones(8)}, refuses="alike device devices negated gradient strides",
            makes=False, options={"threads": (0, 1025, 2.5)}, reads={"alike": f"{ALIKE}.*{{dtype}}"},
            more=[
                ({"y": lambda y: y[1:]}, f"{ALIKE}(8,)"),
                ({n: lambda x: x.double() for n in "xy"}, "of float32; got 1 dimensions of torch.float64"),
                ({n: lambda x: x[None] for n in "xy"}, "must be one-dimensional"),
            ],
        )
        for function in (threads_cuda.add_cuda, threads_cuda.add_numba)
    },
    **{
        f"cuda_rows.{function.__name__}": Host(
            function, lambda: {"x": ones(4)}, refuses="dtype device negated gradient strides", dtypes=(torch.float32,),
            reads=dict.fromkeys(("dtype", "strides"), "x must be contiguous float32 with one dim"),
            options={"num_warps": WARPS, "num_ctas": (16,)} if function is cuda_rows.total else {},
            more=[
                ({"x": lambda x: x[None]}, "with one dimension; got torch.float32, (1, 4)"),
                *(({"x": lambda _, n=n: ones(n)}, f"at most 16,384; got {n}") for n in (0, 3, 2**15)),
            ],
        )
        for function in (cuda_rows.total, cuda_rows.doubled)
    },
    **{
        f"warp_divergence {side}": Host(
            run, lambda: {"x": ones(4), "decider": "all", "steps": 8}, refuses="dtype negated gradient strides",
            dtypes=(torch.float32,), makes=side != "cuda", options={"decider": ("warp",), "steps": (-8, 12, 8.0)},
            reads=dict.fromkeys(("dtype", "negated", "strides"), "x must be one-dimensional, float32 and contiguous"),
            more=[({"x": lambda x: x.view(2, 2)}, "x must be one-dimensional")],
        )
        for side, run in warp_divergence.SIDES.items()
    },
    # gpu
    "cache_hints.copy": Host(
        cache_hints.copy, lambda: {"x": ones(6)}, refuses="dtype device negated gradient strides compiled",
        dtypes=(torch.float32,), kernel="copy_kernel",
        reads={"dtype": "got {dtype}", "negated": "negated True", "gradient": "requires_grad True",
               "strides": "x must be contiguous .*strides {strides}", "device": "on meta; kernels run on the CPU,"},
        options={"load": (".cs",), "store": (".ca",), "policy": ("first",)}, makes=False,
        more=[
            ({"x": lambda x: x.view(3, 2)}, "of 1 dimensions; got torch.float32, shape (3, 2)"),
            ({"load": ".cg", "policy": "evict_last"}, "exclude each other"),
            ({"store": ".cs", "policy": "evict_last"}, "exclude each other"),
        ],
    ),
    "cache_hints.add_table": Host(
        cache_hints.add_table, lambda: {"x": ones(2, 3), "table": ones(3)},
        options={name: ("no",) for name in ("stream", "keep", "result")},
        more=[({"table": lambda x: x[1:]}, "got 2 on cpu for 3 columns"), ({"x": lambda x: x[0]}, "shape (3,)")],
    ),
    "coalescing.take_every": Host(
        coalescing.take_every, lambda: {"x": numbers(6), "step": 1}, refuses="dtype device negated gradient strides",
        dtypes=coalescing.DTYPES, reads={"strides": "x must be contiguous .*strides {strides}"},
        options={"step": (0, 1.0), "block_size": BLOCKS, "num_warps": (5,)},
        more=[({"x": lambda x: x[None]}, "1 dimension;")],
    ),
    "coalescing.gather": Host(
        coalescing.gather, lambda: {"x": numbers(6), "index": ones(2).int()}, refuses="dtype devices negated gradient",
        dtypes=coalescing.DTYPES, options={"block_size": (3,)},
        more=[({"index": lambda x: x.float()}, "index: dtype torch.float32"),
              ({"index": lambda x: x.to("meta")}, "index is on meta"), ({"x": lambda x: x[None]}, "x must be")],
    ),
    "coalescing.transpose": Host(
        coalescing.transpose, lambda: {"x": numbers(6, 2)}, refuses="strides",
        options={"rows": (3,), "columns": (3,)}, reads={"strides": "x must be contiguous .*strides {strides}"},
        more=[({"x": lambda x: x[0]}, "2 dimensions;"), ({"rows": 512, "columns": 256}, "got 131072")],
    ),
    "fusion_bytes.matmul": product_of(
        fusion_bytes.matmul, "x", "w", serves="strides",
        refuses="dtype alike device devices bfloat16 compiled negated gradient",
        on_gpu=lambda on: fusion_bytes.check_arguments(on(2, 3), on(3, 4)),
        reads={"alike": "torch.float32 on cpu and w {dtype} on cpu; they must be alike", "devices": "must be alike"},
        more=[({"x": lambda _: expanded(2**30 + 1, 3)}, "at most 2**30"),
              ({"w": lambda _: expanded(3, 2**30 + 1)}, "at most 2**30")],
    ),
    "hierarchy.total": Host(
        hierarchy.total, lambda: {"x": numbers(8)}, refuses="dtype device negated gradient strides",
        dtypes=(torch.int8, torch.uint8, torch.int16, torch.int32, torch.float32),
        reads={"dtype": "integers of at most 32 bits; got {dtype}", "strides": "must be contiguous.*{strides}"},
        options={"block_size": BLOCKS, "num_warps": (0, 64, 0.5)},
        more=[({"x": lambda x: x[None]}, "with one dimension; got shape (1, 8)")],
    ),
    "launch_and_latency.powers": Host(
        launch_and_latency.powers, lambda: {"x": ones(4), "k": 1},
        refuses="dtype device negated gradient bfloat16 strides", dtypes=launch_and_latency.DTYPES,
        options={"k": (-1, 2**31, 2.0, True)},
    ),
    "loads.product": Host(
        loads.product, lambda: {"x": ones(2, 3, dtype=torch.float16), "w": ones(3, 2, dtype=torch.float16),
                                "num_stages": 1},
        refuses="gradient", options={"num_stages": (5,)}, makes=False,
        more=[({"w": lambda w: w.T}, "(2, 3) and (2, 3)"),
              ({n: lambda x: x.float() for n in "xw"}, "must be float16; got torch.float32")],
    ),
    "loads.center": Host(
        loads.center, lambda: {"x": numbers(2, 3)}, refuses="dtype device negated gradient strides",
        dtypes=(torch.float32,), options={"num_warps": (3,)}, makes=False,
        reads={"dtype": "{dtype}", "negated": "negated lazily True", "gradient": "requires_grad True",
               "strides": "strides {strides}"},
        more=[({"x": lambda _: ones(2, 2**15 + 1)}, "got shape (2, 32769)"), ({"x": lambda x: x[0]}, "shape (3,)")],
    ),
    "memory.chase": Host(
        memory.chase, lambda: {"following": memory.cycle(3, device="cpu"), "steps": 1}, refuses="device",
        options={"modifier": (".cs",)},
        more=[
            ({"following": lambda x: x[::16]}, "strides (16,)"), ({"following": lambda x: x.int()}, "torch.int32"),
            ({"following": lambda x: x.view(1, -1)}, "shape (1, 48)"), ({"following": lambda x: x[:0]}, "not empty"),
            ({"steps": 0}, "got 0 and 0"), ({"warmup": -1}, "got 1 and -1"), ({"steps": 2**31}, "less than 2**31"),
        ],
    ),
    "memory.sums": Host(
        memory.sums, lambda: {"x": numbers(8), "programs": 1, "block": 8},
        refuses="dtype device negated gradient strides",
        dtypes=(torch.float32,), makes=False, options={"block": (0, 3, 2**17), "modifier": ("cg",)},
        reads={"dtype": "{dtype}", "negated": "negated lazily True", "gradient": "requires_grad True",
               "strides": "strides {strides}"},
        more=[
            ({"programs": 3, "block": 1}, "do not fill 3 parts"), ({"programs": 2}, "do not fill 2 parts"),
            ({"x": lambda x: x[:0], "block": 1}, "the 0 elements"), ({"programs": 0}, "got 0 and 1"),
            ({"passes": 0}, "got 1 and 0"), ({"programs": 2**31, "block": 1}, "programs and passes must be"),
            ({"passes": 2**31, "block": 1}, "programs and passes must be"),
        ],
    ),
    "memory.copy": Host(
        memory.copy, lambda: {"x": numbers(8), "programs": 1, "block": 8},
        refuses="dtype device negated gradient strides",
        dtypes=(torch.float32,), makes=False,
        reads={"dtype": "{dtype}", "negated": "negated lazily True", "gradient": "requires_grad True",
               "strides": "strides {strides}"},
    ),
    "schedule_occupancy.copy": Host(
        occupancy.copy, lambda: {"x": ones(8), "out": torch.zeros(8), "programs": 1},
        refuses="alike device negated gradient strides", makes=False,
        reads={"alike": "the same shape", "gradient": "a gradient is required.*no_grad",
               **dict.fromkeys(("negated", "strides"), "x and out must be contiguous, and not negated lazily")},
        more=[
            ({"out": lambda x: x[1:]}, "x and out must have the same shape, dtype and device"),
            *(({"programs": n}, f"got {n} and") for n in (0, 2**31)),
            *(({"block_size": n}, f"block_size a power of two; got 1 and {n}") for n in (0, 3, 2**17)),
        ],
    ),
    # matmul
    "naive.matmul": product_of(
        naive.matmul, serves="strides", on_gpu=lambda on: naive.check_arguments(on(2, 3), on(3, 2)),
        reads={"alike": "torch.float32 on cpu and b {dtype} on cpu; they must be alike", "devices": "must be alike"},
        options={"tile": ((16, 16), (16, 16, 24), (0, 16, 16), (16.0, 16, 16))},
        more=[
            *LONG, ({"b": lambda _: ones(3, 3, 3)}, "b (K, N); got (2, 3) and (3, 3, 3)"),
            *(({"tile": tile}, f"to fit in a multiprocessor (with float32, in one of an A100 or H200); got {tile}")
              for tile in ((16, 16, 8), (256, 128, 16), (128, 256, 16), (128, 128, 128), (1, 1024, 16), (1024, 1, 16))),
            ({"a": lambda _: expanded(2**30, 1), "b": lambda _: expanded(1, 2**30)}, "2**31 - 1 is the limit"),
        ],
    ),
    "grouped.matmul": product_of(
        grouped.matmul, serves="strides", on_gpu=lambda on: grouped.check_arguments(on(2, 3), on(3, 2)),
        reads={"dtype": "a and b must be of one dtype of .*; got {dtype}", "alike": "one dtype of .*got .*{dtype}",
               "device": "one GPU; got meta and meta", "devices": "on one GPU; got .*meta",
               "tile": "tile must be three powers of two.*got {value}"},
        options={"tile": ((16, 16), (16, 24, 16), (16, 16, 0), (16, 16.0, 16)), "num_warps": (3,), "group": (0, 2.0)},
        more=[
            *LONG, ({"group": 2**31}, "the group is too large"),
            ({"a": lambda _: expanded(2**16, 1), "b": lambda _: expanded(1, 2**17), "tile": (2, 2, 16)},
             "too many tiles"),
        ],
    ),
    **{
        f"{module.__name__.rpartition('.')[2]}.matmul": product_of(
            module.matmul, serves="strides", on_gpu=lambda on, m=module: m.check_arguments(on(2, 3), on(3, 2), "ieee"),
            reads={"dtype": "a is {dtype}; it must be one of", "alike": "of one dtype .* and .* of {dtype} on",
                   "devices": "(a|b) is on meta"},
            options={"input_precision": ("tf16",)},
            more=[({"a": lambda x: x[..., None]}, "a must have 2 dimensions, each below 2**30; got shape (2, 3, 1)"),
                  ({"a": lambda _: expanded(2**30, 3)}, "a must have 2 dimensions, each below 2**30"),
                  ({"b": lambda _: expanded(3, 2**30)}, "b must have 2 dimensions, each below 2**30")],
        )
        for module in (autotuned, split_k)
    },
    "persistent.matmul": product_of(
        persistent.matmul, serves="strides", on_gpu=lambda on: persistent.check_arguments(on(2, 3), on(3, 2), "ieee"),
        reads={"dtype": "one dtype.*{dtype}", "alike": "one dtype.*{dtype}", "device": "on one GPU",
               "devices": "on one GPU"},
        options={"programs": (0, 1.5), "input_precision": ("bf16",)},
        more=[({"a": lambda x: x[..., None]}, "(2, 3, 1)"), ({"b": lambda x: x[..., None]}, "(3, 4, 1)"),
              *TOO_LONG],
    ),
    "precision.matmul": product_of(
        precision.matmul, serves="strides",
        on_gpu=lambda on: precision.check_arguments(on(2, 3), on(3, 2), "ieee", torch.float32, torch.bfloat16),
        reads={"dtype": "dtypes are .*; got {dtype}", "alike": "and b {dtype} on cpu; they must be alike",
               "devices": "must be alike"},
        options={"input_precision": ("tf16",)},
        more=[
            *LONG, ({"out_dtype": torch.int32}, "torch.int32 for the result"),
            ({"a": lambda x: x.double(), "b": lambda x: x.double(), "out_dtype": torch.float32}, "dtypes are"),
            ({"out_dtype": torch.bfloat16}, "interpreter computes bfloat16 wrongly"),
            ({"sums": torch.float16}, "sums must be torch.float32, or torch.float16 for float16; got torch.float16"),
            ({"a": lambda x: x.half(), "b": lambda x: x.half(), "sums": torch.bfloat16}, "sums must be torch.float32"),
        ],
    ),
    "fused.linear": product_of(
        fused.linear, "x", "weight", turned=True, serves="strides", kernel="linear_kernel",
        on_gpu=lambda on: fused.check_arguments(on(2, 3), on(4, 3), on(4), "relu"),
        reads={"alike": "and weight {dtype} on cpu; not alike", "devices": "(weight torch.float32 on meta|x is)"},
        options={"activation": ("selu",)},
        more=[
            ({"weight": lambda x: x[None]}, "(1, 4, 3)"), ({"bias": ones(3)}, "bias must be (N,), here (4,); got (3,)"),
            ({"bias": ones(4).half()}, "bias torch.float16 on cpu; not alike"),
            ({"x": lambda _: expanded(2**30 + 1, 3), "weight": lambda w: w[:0]}, "2**30"),
        ],
    ),
    "few_rows": product_of(
        few_rows.few_rows, kernel="few_rows_kernel", on_gpu=lambda on: few_rows.check_arguments(on(2, 3), on(3, 2)),
        reads={"alike": "of one dtype .*{dtype} on", "devices": "one device; got .*meta"},
        more=[
            ({"a": lambda _: ones(65, 3)}, "at most 64 rows"), ({"b": lambda _: expanded(3, 2**30)}, "below 2**30"),
            ({"a": lambda _: expanded(1, 2**30), "b": lambda _: expanded(2**30, 1)}, "below 2**30"),
            ({"b": lambda _: ones(6, 8)[::2, ::2]}, "contiguous along N or along K; got strides (16, 2); pass b."),
        ],
    ),
    "matmul.matmul": product_of(
        product.matmul, kernel="tile_kernel", serves="strides",
        on_gpu=lambda _: product.check_arguments((2, 3), (3, 2), *[torch.bfloat16] * 2, *[torch.device("cuda")] * 2),
        reads={"alike": "of one dtype.*{dtype}", "devices": "meta"},
        more=TOO_LONG,
    ),
    # models
    "stencil.blur": Host(
        stencil.blur, lambda: {"x": numbers(4, 5)}, refuses=f"{ONE} sparse", serves="gaps", dtypes=SMALL_FLOATS,
        kernel="blur_kernel", on_gpu=lambda on: stencil.check_arguments(on(4, 5), 8, 256),
        options={"rows": (*BLOCKS, True), "columns": (*BLOCKS, 1023)},
        more=[
            ({"x": lambda x: x[0]}, "x must be (height, width), both less than 2**30; got (5,)"),
            ({"x": lambda _: expanded(2**30, 1)}, "both less than 2**30"),
            ({"rows": 2**10, "columns": 2**7}, "a tile of 1024 × 128 is too large"),
        ],
    ),
    "convolution.causal_conv1d": Host(
        convolution.causal_conv1d,
        lambda: {"x": numbers(2, 3, 5), "weight": numbers(3, 4), "bias": numbers(3), "silu": True},
        # A result lies as x does; test_convolution.py tries other strides.
        refuses="dtype alike device devices sparse bfloat16 compiled", serves="gaps expanded", dtypes=SMALL_FLOATS,
        second="causal_conv1d has no gradient", keeps="x", kernel="conv_kernel",
        on_gpu=lambda on: convolution.check_arguments(on(2, 3, 5), on(3, 4), on(3), None, False),
        options={"silu": (1, None, "silu")},
        more=[
            ({"x": lambda x: x[0]}, "x must be (batch, channels, steps) and weight (channels, width); got (3, 5)"),
            ({"weight": lambda w: w[:2]}, "weight must be (3, 4) for x of (2, 3, 5); got (2, 4)"),
            ({"weight": None}, "weight must be a tensor; got None"),
            ({"weight": lambda _: ones(3, 9)}, "weight has 9 taps; from 1 to 8 are served"),
            ({"bias": lambda b: b[:2]}, "bias must be (3,)"),
            ({"initial": lambda _: numbers(2, 3, 2)}, "initial must be (2, 3, 3)"),
            ({"initial": lambda _: numbers(2, 3, 3).half()}, "initial's dtype torch.float16 is not supported"),
            ({"initial": lambda _: numbers(2, 3, 3).to("meta")}, "x is on cpu and initial on meta"),
            ({"initial": lambda _: numbers(2, 3, 3).to_sparse()}, "pass initial.to_dense()"),
            ({"initial": lambda _: numbers(2, 3, 3).requires_grad_()}, "pass initial.detach()"),
            ({"x": lambda _: expanded(2**20, 2**10, 2**10), "weight": lambda _: ones(2**10, 4), "bias": None},
             "split the batch"),
        ],
    ),
    "conv2d.conv2d": Host(
        conv2d.conv2d, lambda: {"x": numbers(2, 3, 4, 5), "weight": numbers(2, 3, 3, 2)},
        refuses="dtype alike device devices bfloat16 compiled sparse negated gradient", serves="strides",
        dtypes=SMALL_FLOATS, kernel="conv2d_kernel",
        on_gpu=lambda on: conv2d.check_arguments(on(2, 3, 4, 5), on(2, 3, 3, 2), 1, 0),
        options={"stride": (0, -1, 1.0, True, 2**15), "padding": (-1, 0.5, "same", 2**15)},
        reads={"device": "on meta; kernels run", "devices": "must be alike"},
        more=[
            ({"x": lambda x: x[0]}, "x must be (N, C, H, W) and weight (F, C, R, S); got (3, 4, 5)"),
            ({"weight": lambda w: w[:, :2]}, "got (2, 3, 4, 5) and (2, 2, 3, 2)"),
            ({"weight": lambda _: ones(1, 3, 5, 1)}, "a filter of 5 × 1 does not fit into 4 × 5 pixels"),
            ({"weight": lambda _: ones(1, 3, 0, 1)}, "a filter of 0 × 1 does not fit"),
            ({"x": lambda _: expanded(1, 1, 2**30, 1), "weight": lambda _: ones(1, 1, 1, 1)}, "is too large"),
        ],
    ),
    "int4.int4_matmul": Host(
        int4.int4_matmul, lambda: {"x": numbers(2, 128, dtype=torch.float16), "weight": FOUR_BITS},
        refuses="dtype device bfloat16 compiled sparse negated gradient", serves="strides", dtypes=int4.DTYPES[:1],
        kernel="int4_kernel",
        on_gpu=lambda on: int4.check_arguments(
            on(2, 128), FOUR_BITS._replace(words=on(1, 3, 32).short(), scales=on(1, 3).int())
        ),
        more=[
            ({"x": lambda x: x[0]}, "x must be (M, 128) for this weight; got (128,)"),
            ({"x": lambda x: x[:, 1:]}, "got (2, 127)"),
            ({"weight": lambda w: w.words}, "what pack or quantize returns"),
        ],
    ),
    **{
        f"{module.__name__.rsplit('.', 1)[1]}.{function.__name__}": Host(
            function, lambda: {n: numbers(2, 1, 3, 4) for n in "qkv"} | {
                "log_decay": -numbers(2, 1, 3).abs() / 4, "initial": numbers(2, 1, 4, 4)},
            refuses="dtype alike device devices sparse" + " compiled" * bool(second), serves="strides",
            dtypes=SMALL_FLOATS, second=second, keeps="k" if second else "", kernel="states_kernel" if second else "",
            on_gpu=(lambda on: state.check_arguments(*[on(1, 1, 2, 16)] * 3, on(1, 1, 2).float(), None))
            if second else None,
            more=[
                ({"q": lambda x: x[0]}, "q, k and v must have 4 dimensions"),
                ({"k": lambda x: x[:1]}, "k must be (2, 1, 3, 4) for q of (2, 1, 3, 4); got (1, 1, 3, 4)"),
                ({"k": None}, "k must be a tensor; got None"),
                ({"v": lambda x: x[:, :, :2]}, "v must be (2, 1, 3, 4)"),
                ({"log_decay": lambda x: x[..., None]}, "log_decay must be (2, 1, 3)"),
                ({"initial": lambda x: x[0]}, "initial must be (2, 1, 4, 4)"),
                ({n: lambda _: ones(2, 1, 3, 129) for n in "qk"} | {"initial": None}, "129 keys and 4 values; from 1"),
                ({"v": lambda _: ones(2, 1, 3, 0), "initial": None}, "4 keys and 0 values"),
                ({n: lambda _: expanded(2**20, 2**11, 3, 4) for n in "qkv"}
                 | {"log_decay": lambda _: expanded(2**20, 2**11, 3), "initial": None}, "split the batch"),
            ],
        )
        for module, function, second in (
            (state, state.state_scan, "state_scan has no gradient"), (state_steps, state_steps.step_by_step, ""),
        )
    },
    "block_scales.quantize": Host(
        block_scales.quantize, lambda: {"x": numbers(4, 16)}, refuses="dtype device compiled sparse negated gradient",
        serves="strides", dtypes=block_scales.IN_DTYPES, kernel="block_scaled_kernel",
        reads={"dtype": "x has dtype {dtype}; use one of"}, more=[({"x": lambda x: x[0]}, "x must be (M, K)")],
    ),
    "block_scales.norm_and_quantize": Host(
        block_scales.norm_and_quantize, lambda: {"x": numbers(4, 16), "weight": numbers(16)},
        refuses="device devices compiled sparse negated gradient", serves="strides", kernel="block_scaled_kernel",
        more=[
            ({"x": lambda x: x.int()}, "x has dtype torch.int32; use one of"),
            ({"weight": lambda w: w[1:]}, "weight must be (16,) on cpu"),
            ({"weight": lambda w: w.int()}, "got (16,) of torch.int32"),
            ({"eps": -1}, "eps is -1; it must not be negative"),
        ],
    ),
    **{
        f"{module.__name__.rpartition('.')[2]}.{function.__name__}": Host(
            function,
            lambda: {
                "x": numbers(4, 16).to(block_scales.E4M3), "w": numbers(8, 16).to(block_scales.E4M3),
                "x_scales": numbers(4, 1), "w_scales": numbers(1, 1), "out_dtype": torch.float32,
            },
            refuses=f"device devices {compiled} negated gradient", kernel="block_scaled_kernel",
            more=[
                ({"x": lambda x: x.float()}, "x must be of torch.float8_e4m3fn; got torch.float32: see quantize"),
                ({"out_dtype": torch.int8}, "out_dtype must be one of"),
            ],
        )
        for module, function, compiled in (  # the second leaves it to the first to know where kernels run
            (block_scales, block_scales.block_scaled_matmul, "compiled"),
            (few_blocks, few_blocks.block_scaled_few_rows, ""),
        )
    },
    # start
    **{
        f"torch_compile_lifted.{function.__name__}": Host(
            function, lambda: {"h": ones(32, 256), "weight": ones(256)},
            refuses="devices dtype negated gradient strides", dtypes=(torch.float32,), makes=False,
            reads={"devices": "on one device", "dtype": "h must be float32 and contiguous; got {dtype}",
                   **dict.fromkeys(("negated", "strides"), "{name} must be float32 and contiguous; got torch.float32")},
            more=[
                ({"h": lambda h: h[0]}, "h must be"), ({"weight": lambda w: w[1:]}, "h must be"),
                ({"weight": lambda w: w.double()}, "weight must be float32"),
            ],
        )
        for function in (lifted.lifted, lifted.rms_norm_silu)
    },
    "torch_compile_rms_norm.rms_norm": Host(
        compiled_norm.rms_norm, lambda: {"x": numbers(3, 4), "weight": ones(4)}, refuses=f"alike devices {ONE}",
        dtypes=compiled_norm.DTYPES, kernel="rms_norm_kernel", reads={"alike": "one dtype.*{dtype}"},
        on_gpu=lambda on: compiled_norm.check_arguments(on(3, 4), on(4)),
        more=[
            ({"x": lambda x: x[0]}, "x must be (rows, columns)"), ({"weight": lambda w: w[:3]}, "(3,)"),
            ({"x": lambda x: x[None], "weight": lambda _: ones(3, 4)}, "x must be (rows, columns)"),
            ({"x": lambda _: ones(0, 2**16 + 1), "weight": lambda _: ones(2**16 + 1)}, "at most 2**31 - 1 rows"),
            ({"x": lambda _: ones(2**31, 0), "weight": lambda _: ones(0)}, "at most 2**31 - 1 rows"),
        ],
    ),
    "when_to_write_a_kernel.recurrence": Host(
        recurrences.recurrence, lambda: {"a": ones(2, 3, 4), "b": numbers(2, 3, 4)},
        refuses=f"alike devices {ONE}", kernel="recurrence_kernel",
        on_gpu=lambda on: recurrences.check_arguments(on(2, 3, 4), on(2, 3, 4), 16),
        dtypes=recurrences.DTYPES, options={"block": (*BLOCKS[:4], 2048)}, reads={"alike": "the same shape.*{dtype}"},
        more=[
            ({"b": lambda b: b[..., :1].contiguous()}, "the same shape"),
            ({n: lambda x: x[0] for n in "ab"}, "a must be (series, time, channels); got the shape (3, 4)"),
        ],
    ),
    # fusion
    "autograd.silu_mul": Host(
        autograd.silu_mul, lambda: {"x": numbers(2, 3), "y": numbers(2, 3)}, ways=(autograd.silu_mul_op,),
        refuses="dtype alike device devices sparse bfloat16 compiled", serves="strides", dtypes=autograd.DTYPES,
        second="silu_mul has no gradient", keeps="x",
        kernel="silu_mul_kernel", on_gpu=lambda on: autograd.check_arguments(x=on(2, 3), y=on(2, 3)),
        reads={"alike": f"x and y must have {ALIKE}.*{{dtype}}", "sparse": "is torch.sparse_coo|torch.float32"},
        more=[({"y": lambda y: y[:1]}, f"{ALIKE}(2, 3) torch.float32"), ({"y": lambda y: y[..., None]}, "(2, 3, 1)"),
              ({n: lambda x: x.to_sparse() for n in "xy"}, "x is torch.sparse_coo; pass x.to_dense()")],
    ),
    "long_softmax.softmax": Host(
        long_softmax.softmax, lambda: {"x": numbers(2, 3)}, ways=(long_softmax.softmax_op,),
        refuses="dtype device sparse bfloat16 compiled", serves="strides", dtypes=long_softmax.DTYPES,
        second="softmax has no gradient", keeps="result",
        kernel="whole_kernel", on_gpu=lambda on: long_softmax.check_arguments(x=on(2, 3)),
        more=[({"x": lambda x: x[0, 0]}, "x has no dimension, and softmax is over the last one; pass x[None]"),
              ({"x": lambda _: expanded(2**31, 1)}, "2147483648 rows are too many for one launch; split x")],
    ),
    "norms.rms_norm": Host(
        norms.rms_norm, lambda: {"x": numbers(2, 3), "weight": numbers(3)},
        refuses="dtype alike device devices sparse bfloat16 compiled", serves="strides", dtypes=norms.DTYPES,
        second="rms_norm has no gradient", keeps="x",
        kernel="rms_norm_kernel", on_gpu=lambda on: norms.check_arguments(x=on(2, 3), weight=on(3)),
        reads={"alike": "dtype of x or float32.*{dtype}", "devices": "on meta.*; move them to"},
        more=[({"weight": lambda w: w[1:]}, "weight must have the shape (3,)"),
              ({"weight": lambda w: w[None]}, "got (1, 3) torch.float32 for x (2, 3) torch.float32"),
              ({"weight": lambda _: None}, "weight is None; pass torch.ones("),
              ({"x": lambda x: x[0, 0], "weight": lambda w: w[:1]}, "x must have a dimension or more")],
    ),
    "swiglu.swiglu": Host(
        swiglu.swiglu, lambda: {"gate": numbers(2, 4), "up": numbers(2, 4)},
        refuses="dtype alike device devices sparse bfloat16 compiled", serves="strides", dtypes=swiglu.DTYPES,
        second="swiglu and geglu have no gradient", keeps="gate",
        kernel="glu_kernel", on_gpu=lambda on: swiglu.check_arguments(activation="silu", gate=on(2, 3), up=on(2, 3)),
        reads={"alike": f"gate and up must have {ALIKE}.*and .*{{dtype}} on", "devices": "same shape, .*meta"},
        more=[
            ({"up": lambda x: x[:, :2]}, f"gate and up must have {ALIKE}(2, 4) torch.float32"),
            ({n: lambda x: x[0, 0] for n in ("gate", "up")}, "gate must have a dimension or more"),
            ({"gate": lambda x: x[:, :3], "up": None}, "two halves, (..., 2 * columns); got the shape (2, 3)"),
            ({"gate": lambda x: x[0, 0], "up": None}, "one tensor must have two halves"),
        ],
    ),
    "rope.rope": Host(
        rope.rope, lambda: {"q": ones(2, 3, 2, 4), "k": ones(2, 3, 1, 4), "cos": ones(5, 2), "sin": ones(5, 2)},
        refuses="device devices sparse bfloat16 compiled", kernel="rope_kernel",
        on_gpu=lambda on: rope.check_arguments(q=on(3, 2, 4), k=on(3, 2, 4), cos=on(3, 2), sin=on(3, 2)),
        reads={"devices": "on meta.*; move them to one device"},
        more=[
            ({"q": lambda x: x[0, 0]}, "q must be (batch, tokens, heads, head_dim) or (tokens, heads, head_dim)"),
            *(({n: lambda x, d=d: x[..., :d] for n in "qk"}, f"with an even head_dim; got (2, 3, 2, {d})")
              for d in (0, 3)),
            ({"k": lambda x: x.half()}, "but for the number of heads; got (2, 3, 2, 4) torch.float32 and (2, 3, 1"),
            ({"k": lambda x: x[:, :2]}, "and (2, 2, 1, 4) torch.float32"), ({"k": lambda x: x[0]}, "and (3, 1, 4)"),
            ({n: lambda x: x.int() for n in "qk"}, "dtype torch.int32 is not supported; use one of"),
            ({"cos": lambda x: x[:, :1]}, "cos must be (positions, 2), a number for each pair of a head"),
            ({"sin": lambda x: x.half()}, "sin must be (positions, 2)"),
            ({"sin": lambda x: x[1:]}, "cos and sin must have the same shape and dtype; got (5, 2) torch.float32 and"),
            ({n: lambda x: x[:2] for n in ("cos", "sin")}, "cos and sin have 2 positions, for 3 tokens"),
            ({"cos": lambda x: x.requires_grad_()}, "cos requires a gradient, which is not computed; pass cos.de"),
        ],
    ),
    **{
        f"{module.__name__.rpartition('.')[2]}.{function.__name__}": Host(
            function, given, refuses=f"device sparse bfloat16 {'compiled' if kernel else ''} {more}", kernel=kernel,
            on_gpu=on_gpu,
            second=f"{function.__name__} has no gradient" if module is attention_backward else "",
            keeps="q" if module is attention_backward else "",
            reads={"gradient": "(q, k or v|q, k, v or sinks) requires a gradient.*no_grad",
                   "sparse": f"{READS['sparse']}|{{name}} must be int32, contiguous"},
        )
        for module, function, given, kernel, more, on_gpu in (
            (attention, attention.attention, lambda: dict.fromkeys("qkv", ones(1, 1, 2, 16)), "attention_kernel",
             "devices gradient", lambda on: attention.check_arguments(1.0, **dict.fromkeys("qkv", on(1, 1, 2, 16)))),
            (attention_backward, attention_backward.attention, lambda: dict.fromkeys("qkv", ones(1, 1, 2, 16)), "",
             "devices", None),
            (variable, variable.attention_variable,
             lambda: dict.fromkeys("qkv", ones(3, 1, 16)) | dict.fromkeys(("cu_seqlens_q", "cu_seqlens_k"), BEGINS),
             "", "devices gradient", None),
            (window_attention, window_attention.window_attention,
             lambda: dict.fromkeys("qkv", ones(1, 1, 2, 16)) | {"sinks": ones(1)}, "",
             "devices gradient", None),
            (decoding, decoding.decode_attention, lambda: dict.fromkeys("qkv", ones(1, 1, 2, 16)), "parts_kernel",
             "devices gradient", lambda on: decoding.check_arguments(*[on(1, 1, 2, 16)] * 3)),
            (dropout, dropout.dropout, lambda: {"x": ones(2, 3)}, "add_dropout_kernel", "",
             lambda on: dropout.check_arguments(on(2, 3), on(2, 3), on(1).long(), 0.5)),
            (dropout, dropout.add_dropout, lambda: {"x": ones(2, 3), "residual": ones(2, 3)}, "add_dropout_kernel",
             "devices", None),
            (entropy, entropy.cross_entropy, lambda: {"logits": ones(2, 3), "target": torch.zeros(2).long()},
             "cross_entropy_kernel", "devices", None),
            (linear_entropy, linear_entropy.linear_cross_entropy,
             lambda: {"hidden": ones(2, 3), "weight": ones(5, 3), "target": torch.zeros(2).long()},
             "", "devices", None),
            (scan, scan.cumsum, lambda: {"x": ones(2, 3)}, "recurrence_kernel", "",
             lambda on: scan.check_arguments(0, x=on(2, 3))),
        )
    },
    "scan.recurrence": Host(
        scan.recurrence, lambda: {"a": ones(2, 3), "x": numbers(2, 3)}, refuses="dtype alike device devices sparse",
        serves="strides", dtypes=scan.DTYPES,
        second="recurrence has no gradient", keeps="a",
        reads={"alike": "x and a must have the same shape, dtype and device", "device": "x is on meta; kernels",
               "devices": "must have the same shape, dtype and device.*meta"},
        more=[
            ({"x": lambda x: x[:1]}, "the same shape, dtype and device; got (1, 3) torch.float32 on cpu"),
            *(({"dim": d}, f"dim must be one of x's 2 dimensions; got {d}") for d in (2, -3)),
            ({n: lambda x: x[0, 0] for n in "ax"}, "dim must be one of x's 0 dimensions; got -1"),
        ],
    ),
    "topk.topk": Host(
        topk.topk, lambda: {"x": numbers(2, 3), "k": 1}, refuses="dtype device sparse compiled", serves="strides",
        dtypes=tuple(topk.INTEGERS), kernel="topk_kernel",
        on_gpu=lambda on: topk.check_arguments(on(2, 3), 1),
        more=[
            *(({"k": k}, f"k must be an int from 0 to 3 for 3 columns; got {k}") for k in (4, -1, 1.0, None)),
            ({"x": lambda _: ones(1, 2000), "k": 1025}, "k must be an int from 0 to 1024"),
            ({"x": lambda x: x[0, 0]}, "x must have a dimension or more"),
            ({"x": lambda _: without_memory(1, 2**31 - 2**12)}, "too many rows or columns"),
            ({"x": lambda _: without_memory(2**31, 2)}, "too many rows or columns"),
        ],
    ),
    **{
        f"histogram.{function.__name__}": Host(
            function, lambda: {"x": ones(3, dtype=torch.int32), "bins": 4}, refuses="dtype device sparse compiled",
            dtypes=(*histograms.DTYPES, torch.bool), kernel="histogram_kernel", options={"bins": (-1, 2049)},
            more=[({"x": lambda _: without_memory(2**40 + 1, dtype=torch.uint8)}, "elements are too many")],
        )
        for function in (histograms.histogram, histograms.each_forward)
    },
}  # fmt: skip

CASES = [
    pytest.param(host, rule, changes, names, way, id=f"{name}{' as op' * (way > 0)}: {label}".replace("[", "("))
    for name, host in HOSTS.items()
    for label, rule, changes, names in cases(host)
    for way in range(1 + len(host.ways) * (rule not in ("device", "devices", "sparse", "compiled", "negated")))
]
SERVED = [
    pytest.param(host, argument, layout, id=f"{name}: {argument} {layout}")
    for name, host in HOSTS.items()
    for argument, x in host.tensors().items()
    for layout in layouts_of(x)
    if {"strides", layout} & {*host.serves.split()}
]


def hosts(has):
    return pytest.mark.parametrize("host", [pytest.param(host, id=name) for name, host in HOSTS.items() if has(host)])


def as_if_on_a_gpu(host):
    return as_if_compiled(sys.modules[host.function.__module__], host.kernel)


def results(host, arguments):
    found = host.function(**arguments)
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("host, rule, changes, names, way", CASES)
def test_refuses(host, rule, changes, names, way):
    arguments = host.changed(changes)
    refused = pytest.raises(ValueError, match=pattern_of(host, rule, names, arguments))
    with as_if_on_a_gpu(host) if rule == "compiled" else contextlib.nullcontext(), refused:
        (host.function, *host.ways)[way](**arguments)


@pytest.mark.parametrize("host, argument, layout", SERVED)
def test_serves_strides(host, argument, layout):
    """As a contiguous copy; the result is contiguous, what is given stays as it is."""
    arguments = host.changed({argument: LAYOUTS[layout]})
    x = arguments[argument].clone()
    plain = results(host, arguments | {argument: x.contiguous()})
    for found, wanted in zip(results(host, arguments), plain, strict=True):
        assert found.is_contiguous() and found.device == x.device
        check_same_bits(found, wanted)
    assert torch.equal(arguments[argument], x)


@hosts(lambda host: host.makes and "gradient" in host.refuses)
def test_takes_what_requires_a_gradient_where_none_is_computed(host):
    floating = [name for name, x in host.tensors().items() if x.is_floating_point()]
    arguments = host.changed(dict.fromkeys(floating, lambda x: x.clone().requires_grad_()))
    with torch.no_grad():
        assert not any(found.requires_grad for found in results(host, arguments))


@hosts(lambda host: host.on_gpu)
def test_checks_of_what_is_compiled_pass_bfloat16(host):
    with as_if_on_a_gpu(host) as on_gpu:
        host.on_gpu(on_gpu)


def differentiable(host):
    """Arguments of which all that can do require a gradient, and the sum of what comes of them."""
    floating = [name for name, x in host.tensors().items() if x.is_floating_point()]
    arguments = host.changed(dict.fromkeys(floating, lambda x: (x / 2).requires_grad_()))
    found = results(host, arguments)
    return arguments | {"result": found[0]}, sum(each.sum() for each in found if each.requires_grad)


@hosts(lambda host: host.second)
def test_a_second_gradient_is_refused(host):
    """Also where torch.func asks for one, which always does."""
    arguments, total = differentiable(host)
    first = next(x for x in arguments.values() if isinstance(x, torch.Tensor) and x.requires_grad)
    with pytest.raises(
        RuntimeError, match=f"^{host.second} of (its|their) gradient.*torch.func.grad and vjp.*use torch"
    ):
        torch.autograd.grad(total, first, create_graph=True)
    name = next(iter(arguments))
    function = lambda x: results(host, arguments | {name: x})[0].sum()
    arguments = host.given()
    with pytest.raises(RuntimeError, match=rf"^{host.second}.*torch.func.grad and vjp.*use torch.autograd.grad"):
        torch.func.grad(function)(arguments[name] / 2)


@hosts(lambda host: host.keeps)
def test_what_the_backward_needs_must_not_change(host):
    arguments, total = differentiable(host)
    with torch.no_grad():
        arguments[host.keeps].mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()
