# SPDX-License-Identifier: Apache-2.0
"""Measure what a launch costs the host, part by part, and what that makes of a decode step.

``calls``, ``parts``, ``arguments``: microseconds of the host until a call has returned, by ``time.perf_counter``, while
nobody waits for the GPU. ``step``: a layer of a language model that decodes one token, by two clocks. ``functions``:
those that it calls, one by one.

``python launch_overhead_measured.py`` says what there is to measure; measuring needs a GPU.
"""

import functools

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from triton.runtime import driver

from snippets.gpu.launch_cost import host, queue
from snippets.library import decoding, norms
from snippets.library import rope as rope_file
from snippets.library.decoding import decode_attention
from snippets.library.matmul import linear
from snippets.library.norms import add_rms_norm, rms_norm
from snippets.library.rope import rope, rope_tables
from snippets.pytorch.compile import in_torch, plain, rms_norm_kernel
from snippets.pytorch.launch_overhead import capture, prepare
from snippets.tools.benchmarking import Timing, compare

CALLS = 200  # they fit into the queue, so that none waits for the GPU
ROUNDS = 10


def by_host(run, calls: int = CALLS) -> float:
    """Return the milliseconds of the host until a call has returned."""
    return host(run, calls) * 1e3 / calls


def by_queue(run, calls: int = CALLS) -> float:
    """Return the milliseconds from one call to the next, by the clock of the GPU."""
    return queue(run, calls) * 1e3 / calls


def microseconds(timing: Timing) -> tuple[float, float, float]:
    return tuple(1e3 * ms for ms in (timing.median, min(timing.rounds), max(timing.rounds)))


# --8<-- [start:calls]
def ways() -> dict:
    """Return the ways to launch one small RMS norm, 4 × 1024 float32, by name."""
    x, weight = torch.rand(4, 1024, device="cuda"), torch.rand(1024, device="cuda")
    out = torch.empty_like(x)
    prepared = prepare(x, weight)
    single, _ = capture(plain, x, weight)
    hundred, _ = capture(lambda x, weight: [plain(x, weight) for _ in range(100)], x, weight)
    return {
        "torch": lambda: in_torch(x, weight),
        "function": lambda: plain(x, weight),
        "launch": lambda: rms_norm_kernel[(4,)](x, weight, out, 1024, 1e-6, BLOCK=1024),
        "prepared": lambda: prepared(x, weight, out),
        "graph": single.replay,
        "graph of 100": hundred.replay,
    }


@functools.lru_cache
def measure_calls(clock: str) -> dict[str, Timing]:
    sides = ways()
    for run in sides.values():
        run()
    return compare(sides, rounds=ROUNDS, timer={"host": by_host, "queue": by_queue}[clock])


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="calls",
        x_names=["way"],
        x_vals=["torch", "function", "launch", "prepared", "graph", "graph of 100"],
        xlabel="what is called",
        ylabel="µs",
        line_arg="clock",
        line_vals=["host", "queue"],
        line_names=["until the call returns", "from call to call"],
        args={},
    )
)
def calls(way, clock):
    """Microseconds a launch of RMS norm, 4 × 1024 float32: median, fastest and slowest of 10 rounds of 200 calls.

    function: checks its arguments, allocates the result, launches. launch: the launch alone. prepared: of a compiled
    kernel. graph: a CUDA graph of one call of the function, replayed. graph of 100: of a hundred, divided by a hundred.
    """
    shared = 100 if way == "graph of 100" else 1
    return tuple(us / shared for us in microseconds(measure_calls(clock)[way]))
# --8<-- [end:calls]


# --8<-- [start:parts]
def parts_of_a_launch() -> dict:
    """Return the steps of ``kernel[grid](…)`` in Triton's ``JITFunction.run``, one by one, by name."""
    from triton.runtime.jit import compute_cache_key

    x, weight = torch.rand(4, 1024, device="cuda"), torch.rand(1024, device="cuda")
    out = torch.empty_like(x)
    given = x, weight, out, 1024, 1e-6
    options = {"BLOCK": 1024, "debug": False, "instrumentation_mode": "", "fpsan_homomorphic_casts": False}
    kernel = rms_norm_kernel[(4,)](*given, BLOCK=1024)
    device = driver.active.get_current_device()
    stream = driver.active.get_current_stream(device)
    known, keys, _, _, bind = rms_norm_kernel.device_caches[device]
    bound, specialization, found = bind(*given, **options)
    arguments = tuple(bound.values())
    assert known[compute_cache_key(keys, specialization, found)] is kernel
    return {
        "check the arguments": lambda: check(x, weight),
        "allocate the result": lambda: torch.empty_like(x),
        "ask for device and stream": lambda: driver.active.get_current_stream(driver.active.get_current_device()),
        "look at the arguments": lambda: bind(*given, **options),
        "find the compiled kernel": lambda: known.get(compute_cache_key(keys, specialization, found)),
        "hand it to CUDA": lambda: kernel.run(
            4, 1, 1, stream, kernel.function, kernel.packed_metadata, None, None, None, *arguments
        ),
        "the function": lambda: plain(x, weight),
    }


def check(x, weight):
    from snippets.pytorch.compile import check_arguments

    check_arguments(x, weight)


PARTS = [
    "check the arguments", "allocate the result", "ask for device and stream", "look at the arguments",
    "find the compiled kernel", "hand it to CUDA",
]  # fmt: skip


@functools.lru_cache
def measure_parts() -> dict[str, Timing]:
    return compare(parts_of_a_launch(), rounds=ROUNDS, timer=by_host)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="parts",
        x_names=["part"],
        x_vals=[*PARTS, "the rest", "the function"],
        xlabel="part",
        ylabel="µs",
        line_arg="clock",
        line_vals=["host"],
        line_names=["the host's time"],
        args={},
    )
)
def parts(part, clock):
    """Microseconds of the host for each part of one call of RMS norm, 4 × 1024: median, fastest, slowest of 10 rounds.

    The rest: what the function takes beside the parts, such as Triton's check that no global variable has changed.
    """
    found = measure_parts()
    if part == "the rest":
        return 1e3 * (found["the function"].median - sum(found[each].median for each in PARTS))
    return microseconds(found[part])
# --8<-- [end:parts]


# --8<-- [start:arguments]
@triton.jit
def one_kernel(a):
    pass


@triton.jit
def eight_kernel(a, b, c, d, e, f, g, h):
    pass


@triton.jit
def thirty_two_kernel(
    a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p,  # noqa: E741
    q, r, s, t, u, v, w, x, y, z, aa, bb, cc, dd, ee, ff,
):  # fmt: skip
    pass


@triton.jit
def constants_kernel(
    a: tl.constexpr, b: tl.constexpr, c: tl.constexpr, d: tl.constexpr,
    e: tl.constexpr, f: tl.constexpr, g: tl.constexpr, h: tl.constexpr,
):  # fmt: skip
    pass
# --8<-- [end:arguments]


@functools.lru_cache
def measure_arguments() -> dict[str, Timing]:
    from triton.tools.tensor_descriptor import TensorDescriptor

    tensors = [torch.rand(64, 64, device="cuda") for _ in range(32)]
    described = [TensorDescriptor.from_tensor(x, [32, 32]) for x in tensors[:8]]
    kernels = {1: one_kernel, 8: eight_kernel, 32: thirty_two_kernel}
    sides = {f"{n} tensors": functools.partial(kernels[n][(1,)], *tensors[:n]) for n in kernels}
    sides |= {f"{n} integers": functools.partial(kernels[n][(1,)], *range(100, 100 + n)) for n in kernels}
    sides["8 constexprs"] = functools.partial(constants_kernel[(1,)], *range(100, 108))
    sides["8 descriptors"] = functools.partial(eight_kernel[(1,)], *described)
    sides["8 descriptors, made anew"] = lambda: eight_kernel[(1,)](
        *(TensorDescriptor.from_tensor(x, [32, 32]) for x in tensors[:8])
    )
    for run in sides.values():
        run()
    return compare(sides, rounds=ROUNDS, timer=by_host)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="arguments",
        x_names=["given"],
        x_vals=[
            "1 tensors", "8 tensors", "32 tensors", "1 integers", "8 integers", "32 integers", "8 constexprs",
            "8 descriptors", "8 descriptors, made anew",
        ],
        xlabel="arguments",
        ylabel="µs",
        line_arg="clock",
        line_vals=["host"],
        line_names=["until the call returns"],
        args={},
    )
)
def arguments(given, clock):
    """Microseconds of the host for launching an empty kernel: median, fastest and slowest of 10 rounds of 200 calls."""
    return microseconds(measure_arguments()[given])


# --8<-- [start:step]
HIDDEN, HEADS, KV_HEADS, WIDTH, INNER, KEYS = 2048, 16, 4, 128, 5632, 2048


class Layer:
    """A layer of a language model that decodes one token: random weights, bfloat16, a cache of ``KEYS`` keys."""

    def __init__(self):
        made = torch.Generator("cuda").manual_seed(0)
        options = {"device": "cuda", "dtype": torch.bfloat16, "generator": made}
        self.query_key_value = 0.02 * torch.randn((HEADS + 2 * KV_HEADS) * WIDTH, HIDDEN, **options)
        self.output = 0.02 * torch.randn(HIDDEN, HEADS * WIDTH, **options)
        self.gate_up = 0.02 * torch.randn(2 * INNER, HIDDEN, **options)
        self.down = 0.02 * torch.randn(HIDDEN, INNER, **options)
        self.norms = 1 + 0.1 * torch.randn(2, HIDDEN, **options)
        self.keys, self.values = torch.randn(2, 1, KV_HEADS, KEYS, WIDTH, **options)
        self.cos, self.sin = rope_tables(KEYS, WIDTH, device="cuda")
        self.position = torch.full((1, 1), KEYS - 1, device="cuda")

    def split(self, projected):
        heads = projected.view(1, 1, HEADS + 2 * KV_HEADS, WIDTH)
        return heads.split([HEADS, KV_HEADS, KV_HEADS], dim=2)

    def keep(self, k, v):
        self.keys.index_copy_(2, self.position[0], k.transpose(1, 2))
        self.values.index_copy_(2, self.position[0], v.transpose(1, 2))

    # --8<-- [start:ours]
    def ours(self, x):
        normal = rms_norm(x, self.norms[0])
        q, k, v = self.split(linear(normal, self.query_key_value))
        q, k = rope(q, k, self.cos, self.sin, positions=self.position)
        self.keep(k, v)
        mixed = decode_attention(q.transpose(1, 2), self.keys, self.values)
        attended = linear(mixed.transpose(1, 2).reshape(1, -1), self.output)
        normal, x = add_rms_norm(attended, x, self.norms[1])
        inner = linear(normal, self.gate_up, activation="silu", gated=True)
        return x + linear(inner, self.down)
    # --8<-- [end:ours]

    # --8<-- [start:mixed]
    def mixed(self, x):
        normal = rms_norm(x, self.norms[0])
        q, k, v = self.split(F.linear(normal, self.query_key_value))
        q, k = rope(q, k, self.cos, self.sin, positions=self.position)
        self.keep(k, v)
        mixed = decode_attention(q.transpose(1, 2), self.keys, self.values)
        attended = F.linear(mixed.transpose(1, 2).reshape(1, -1), self.output)
        normal, x = add_rms_norm(attended, x, self.norms[1])
        gate, up = F.linear(normal, self.gate_up).chunk(2, dim=-1)
        return x + F.linear(F.silu(gate) * up, self.down)
    # --8<-- [end:mixed]

    def torchs(self, x):
        normal = F.rms_norm(x, (HIDDEN,), self.norms[0], 1e-6)
        q, k, v = self.split(F.linear(normal, self.query_key_value))
        q, k = self.turned(q), self.turned(k)
        self.keep(k, v)
        mixed = F.scaled_dot_product_attention(q.transpose(1, 2), self.keys, self.values, enable_gqa=True)
        x = x + F.linear(mixed.transpose(1, 2).reshape(1, -1), self.output)
        normal = F.rms_norm(x, (HIDDEN,), self.norms[1], 1e-6)
        gate, up = F.linear(normal, self.gate_up).chunk(2, dim=-1)
        return x + F.linear(F.silu(gate) * up, self.down)

    def turned(self, x):
        cos, sin = (table[self.position][:, :, None].to(x.dtype) for table in (self.cos, self.sin))
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


STEPS = [
    "ours", "ours, products by torch", "torch",
    "ours, in a graph", "ours, products by torch, in a graph", "torch, in a graph",
]  # fmt: skip


@functools.lru_cache
def measure_step(clock: str) -> dict[str, Timing]:
    layer = Layer()
    x = torch.randn(1, HIDDEN, device="cuda", dtype=torch.bfloat16)
    close = torch.testing.assert_close
    sides = {}
    for name, run in {"ours": layer.ours, "ours, products by torch": layer.mixed, "torch": layer.torchs}.items():
        close(run(x), layer.torchs(x), rtol=0.05, atol=0.05)
        sides[name] = functools.partial(run, x)
        sides[f"{name}, in a graph"] = capture(run, x)[0].replay
    for run in sides.values():
        run()
    timer = {"host": by_host, "queue": by_queue}[clock]
    return compare(sides, rounds=ROUNDS, timer=lambda run: timer(run, 50))


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="step",
        x_names=["way"],
        x_vals=STEPS,
        xlabel="one layer, one token",
        ylabel="µs",
        line_arg="clock",
        line_vals=["host", "queue"],
        line_names=["until the call returns", "from step to step"],
        args={},
    )
)
def step(way, clock):
    """Microseconds of a layer that decodes one token, bfloat16, hidden size 2048, 2,048 keys: median, fastest, slowest.

    10 rounds of 50 calls. From step to step is what a user waits for: the host's time or the GPU's, whichever is longer.
    """  # noqa: E501
    return microseconds(measure_step(clock)[way])
# --8<-- [end:step]


# --8<-- [start:functions]
FUNCTIONS = ["rms_norm", "add_rms_norm", "rope", "decode_attention", "linear"]
SIDES = {
    "torch": "PyTorch's own operations",
    "ours": "ours",
    "new": "ours, of a shape that it has not met",
    "recorded": "ours, with a gradient to record",
}


def forgetting(run):
    """Return ``run`` as it is before any launch is prepared, though all is compiled."""

    def forgetful():
        for module in (norms, rope_file, decoding):
            module.PLANS.clear()
        return run()

    return forgetful


@functools.lru_cache
def measure_functions() -> dict[str, Timing]:
    layer = Layer()
    x, residual = torch.randn(2, 1, HIDDEN, device="cuda", dtype=torch.bfloat16)
    weight, tables = layer.norms[0], (layer.cos, layer.sin)
    q, k, _ = layer.split(linear(x, layer.query_key_value))
    query = q.transpose(1, 2)
    learned = x.clone().requires_grad_()
    heads = q.clone().requires_grad_()
    attention = functools.partial(F.scaled_dot_product_attention, enable_gqa=True)

    def torch_add_norm():
        total = x + residual
        return F.rms_norm(total, (HIDDEN,), weight, 1e-6), total

    torchs = [
        lambda: F.rms_norm(x, (HIDDEN,), weight, 1e-6),
        torch_add_norm,
        lambda: (layer.turned(q), layer.turned(k)),
        lambda: attention(query, layer.keys, layer.values),
        lambda: F.linear(x, layer.query_key_value),
    ]
    ours = [
        lambda x=x, **_: rms_norm(x, weight),
        lambda x=x, **_: add_rms_norm(x, residual, weight),
        lambda q=q, **_: rope(q, k, *tables, positions=layer.position),
        lambda **_: decode_attention(query, layer.keys, layer.values),
        lambda x=x, **_: linear(x, layer.query_key_value),
    ]
    sides = {}
    for name, theirs, run in zip(FUNCTIONS, torchs, ours, strict=True):
        sides[f"{name}, torch"], sides[f"{name}, ours"] = theirs, run
        if name != "linear":
            sides[f"{name}, new"] = forgetting(run)
        if name != "decode_attention":
            sides[f"{name}, recorded"] = functools.partial(run, x=learned, q=heads)
    for run in sides.values():
        run()
    return compare(sides, rounds=ROUNDS, timer=by_host)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="functions",
        x_names=["function"],
        x_vals=FUNCTIONS,
        xlabel="as the layer calls it",
        ylabel="µs",
        line_arg="side",
        line_vals=list(SIDES),
        line_names=list(SIDES.values()),
        args={},
    )
)
def functions(function, side):
    """Microseconds of the host for one call, as of ``step``: median, fastest and slowest of 10 rounds of 200 calls.

    Not met: with what was prepared for the shape thrown away before each call, while Triton keeps what it compiled.
    """
    found = measure_functions().get(f"{function}, {side}")
    return float("nan") if found is None else microseconds(found)
# --8<-- [end:functions]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for mark in (calls, parts, arguments, step, functions):
        print(f"{mark.benchmarks.plot_name}.run(print_data=True)  # {mark.fn.__doc__.splitlines()[0]}")


if __name__ == "__main__":
    main()
