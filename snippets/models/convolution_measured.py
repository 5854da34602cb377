# SPDX-License-Identifier: Apache-2.0
"""Convolutions, measured: a stencil, a causal convolution along time, and a 2-D convolution, beside torch's.

- :func:`stencil`: a blur of 3 × 3 in float32, by the side of the picture, as a share of a copy's speed
- :func:`tiles`: the same by the shape of a program's tile
- :func:`causal`: microseconds of a causal convolution of 4 taps with SiLU, bfloat16
- :func:`training`: the same, forward and backward
- :func:`pictures`: TFLOP/s of 2-D convolutions, bfloat16, channels last
- :func:`formats`: microseconds of one of them, by memory format

*torch* is torch's own operation: ``avg_pool2d``, and cuDNN's ``conv1d`` and ``conv2d`` with
``torch.backends.cudnn.benchmark``. *compiled* is a sum of shifted copies under ``torch.compile``. *loads* is our kernel
that loads each input once for each tap. *copy* moves as many bytes as the operation has to: each element of operands
and results once. In ``causal`` and ``training``, *tokens* means that the channels of a step are neighbors in memory,
*time* that the steps of a channel are.

All sides run in turns on operands in rotation, all calls in one CUDA graph (``snippets/tools/benchmarking_cold.py``),
after their results were compared.

``python convolution_measured.py`` lists the benchmarks. Each needs a GPU, and ``.run`` needs pandas and matplotlib.
"""

import functools

import torch
import triton

from snippets.models.conv2d import conv2d
from snippets.models.convolution import causal_conv1d, conv_kernel, in_torch
from snippets.models.stencil import blur
from snippets.tools.benchmarking import Timing
from snippets.tools.benchmarking_cold import compare_in_rotation, rates

SIDES = [1024, 4096, 8192]
TILES = [(1, 256), (1, 1024), (4, 64), (8, 256), (32, 32)]  # of rows and columns
TILED_PIXELS = 8192
WIDTH = 4
BLOCKS = 128, 32  # channels and steps of a tile, where a step's channels are neighbors
TEXTS = {  # layout, batch, channels, steps
    "tokens, 4 × 4096 × 4096": ("tokens", 4, 4096, 4096),
    "tokens, 3 × 1500 × 3001": ("tokens", 3, 1500, 3001),
    "time, 4 × 4096 × 4096": ("time", 4, 4096, 4096),
}
PICTURES = {  # N, C, height and width, F, side of the filter, stride, padding
    "56², 64 → 64, 3 × 3": (32, 64, 56, 64, 3, 1, 1),
    "28², 128 → 128, 3 × 3": (32, 128, 28, 128, 3, 1, 1),
    "14², 256 → 256, 3 × 3": (32, 256, 14, 256, 3, 1, 1),
    "7², 512 → 512, 3 × 3": (32, 512, 7, 512, 3, 1, 1),
    "56², 128 → 128, 3 × 3, stride 2": (32, 128, 56, 128, 3, 2, 1),
    "56², 64 → 256, 1 × 1": (32, 64, 56, 256, 1, 1, 0),
    "224², 3 → 64, 7 × 7, stride 2": (32, 3, 224, 64, 7, 2, 3),
    "64², 512 → 512, 3 × 3": (8, 512, 64, 512, 3, 1, 1),
}


def check_alike(name: str, found: torch.Tensor, wanted: torch.Tensor, most: float = 0.02) -> None:
    """Raise ``RuntimeError`` if results differ by more than rounding does."""
    error = ((found.float() - wanted.float()).norm() / wanted.float().norm()).item()
    if not error < most:
        raise RuntimeError(f"{name} differs by {error:.2g}")


def check_sides(sides, given, of=lambda result: result) -> None:
    """Compare the results of all sides with those of the last one."""
    *others, last = sides
    wanted = sides[last](*given)
    for name in others:
        for found, right in zip(of(sides[name](*given)), of(wanted), strict=True):
            check_alike(name, found, right)


def report(plot_name, x_name, x_vals, xlabel, ylabel, lines, **options):
    benchmark = triton.testing.Benchmark(
        plot_name=plot_name,
        x_names=[x_name],
        x_vals=x_vals,
        xlabel=xlabel,
        ylabel=ylabel,
        line_arg="way",
        line_vals=list(lines),
        line_names=list(lines.values()),
        args={},
        **options,
    )
    return triton.testing.perf_report(benchmark)


def microseconds(timing: Timing) -> tuple[float, float, float]:
    return tuple(1e3 * each for each in (timing.median, min(timing.rounds), max(timing.rounds)))


# --8<-- [start:stencil]
def shifted(x):
    """Blur by nine shifted views of a padded picture."""
    padded = torch.nn.functional.pad(x, (1, 1, 1, 1))
    height, width = x.shape
    return sum(padded[i : i + height, j : j + width] for i in range(3) for j in range(3)) / 9


@functools.cache
def measure_stencil(pixels: int) -> dict[str, Timing]:
    """Return the milliseconds of each side."""
    torch.manual_seed(0)
    make = lambda: [torch.randn(pixels, pixels, device="cuda")]
    sides = {
        "ours": blur,
        "torch": lambda x: torch.nn.functional.avg_pool2d(x[None], 3, stride=1, padding=1)[0],
        "compiled": torch.compile(shifted, dynamic=False),
    }
    check_sides(sides, make(), of=lambda result: [result])
    return compare_in_rotation(sides | {"copy": torch.neg}, make, rounds=3)


BLURS = {"ours": "our kernel", "torch": "torch’s avg_pool2d", "compiled": "torch.compile", "copy": "a copy"}


@report("stencil", "pixels", SIDES, "side of the picture", "µs", BLURS, x_log=True, y_log=True)
def stencil(pixels, way):
    """Microseconds of a blur: median, fastest and slowest of 3 rounds."""
    return microseconds(measure_stencil(pixels)[way])
# --8<-- [end:stencil]


# --8<-- [start:tiles]
@functools.cache
def measure_tiles() -> dict[str, Timing]:
    """Return the milliseconds of each tile, and of a copy."""
    torch.manual_seed(0)
    sides = {f"{rows} × {columns}": functools.partial(blur, rows=rows, columns=columns) for rows, columns in TILES}
    make = lambda: [torch.randn(TILED_PIXELS, TILED_PIXELS, device="cuda")]
    return compare_in_rotation(sides | {"copy": torch.neg}, make, rounds=3)


TILED = {"ours": "our kernel", "copy": "a copy"}


@report("tiles", "tile", [f"{rows} × {columns}" for rows, columns in TILES], "rows × columns of a tile", "µs", TILED)
def tiles(tile, way):
    """Microseconds of a blur of 8192 × 8192: median, fastest and slowest of 3 rounds."""
    return microseconds(measure_tiles()[tile if way == "ours" else way])
# --8<-- [end:tiles]


# --8<-- [start:causal]
def by_conv1d(x, weight, bias):
    """Convolve by torch's operation, whose window sees both sides unless the end is cut off."""
    y = torch.nn.functional.conv1d(x, weight[:, None], bias, padding=WIDTH - 1, groups=len(weight))
    return torch.nn.functional.silu(y[:, :, : x.shape[2]])


def by_loads(x, weight, bias):
    """Convolve by the kernel that loads an input once for each tap, where ours would walk."""
    (batch, channels, steps), y = x.shape, torch.empty_like(x)
    grid = batch * triton.cdiv(channels, BLOCKS[0]) * triton.cdiv(steps, BLOCKS[1])
    conv_kernel[(grid,)](
        x, weight, bias, None, y, x.stride(), x.stride(), y.stride(), channels, steps,
        WIDTH=WIDTH, SILU=True, BLOCK_C=BLOCKS[0], BLOCK_T=BLOCKS[1],
    )  # fmt: skip
    return y


@functools.cache
def measure_causal(text: str, backward: bool) -> dict[str, Timing]:
    """Return the milliseconds of each side."""
    layout, batch, channels, steps = TEXTS[text]
    torch.manual_seed(0)
    torch._dynamo.reset()
    torch.backends.cudnn.benchmark = True
    normal = lambda *shape: torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    weight, bias = normal(channels, WIDTH) / 2, normal(channels)
    new = lambda: normal(batch, channels, steps) if layout == "time" else normal(batch, steps, channels).mT

    def both(function):
        def run(x, grad):
            leaves = [each.detach().requires_grad_() for each in (x, weight, bias)]
            return torch.autograd.grad(function(*leaves), leaves, grad)

        return run

    def once(function):
        return lambda x, grad: [function(x, weight, bias)]

    functions = {
        "ours": functools.partial(causal_conv1d, silu=True),
        "torch": by_conv1d,
        "compiled": torch.compile(functools.partial(in_torch, silu=True), dynamic=False),
    }
    if not backward:
        functions = {"loads": by_loads if layout == "tokens" else functions["ours"], **functions}
    sides = {name: (both if backward else once)(function) for name, function in functions.items()}
    make = lambda: [new(), new()]
    check_sides(sides, make())
    # The forward reads x and writes y; the backward reads x and y's gradient and writes x's.
    copy = lambda x, grad: (torch.neg(x), torch.add(x, grad)) if backward else torch.neg(x)
    return compare_in_rotation(sides | {"copy": copy}, make, rounds=3)


TRAINED = {"ours": "our kernels", "torch": "cuDNN", "compiled": "torch.compile", "copy": "a copy"}
CAUSAL = {"ours": "our kernels", "loads": "four loads", **TRAINED}


@report("causal", "text", list(TEXTS), "layout, texts × channels × steps", "µs", CAUSAL)
def causal(text, way):
    """Microseconds of the forward: median, fastest and slowest of 3 rounds."""
    return microseconds(measure_causal(text, False)[way])


@report("training", "text", list(TEXTS), "layout, texts × channels × steps", "µs", TRAINED)
def training(text, way):
    """Microseconds of forward and backward: median, fastest and slowest of 3 rounds."""
    return microseconds(measure_causal(text, True)[way])
# --8<-- [end:causal]


# --8<-- [start:pictures]
@functools.cache
def measure_pictures(layer: str) -> dict[str, tuple[float, float, float]]:
    """Return TFLOP/s of each side."""
    pictures, channels, pixels, filters, taps, stride, padding = PICTURES[layer]
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    normal = lambda *shape: torch.randn(shape, device="cuda", dtype=torch.bfloat16).to(
        memory_format=torch.channels_last
    )
    make = lambda: [normal(pictures, channels, pixels, pixels), normal(filters, channels, taps, taps)]
    options = {"stride": stride, "padding": padding}
    sides = {
        "ours": functools.partial(conv2d, **options),
        "torch": functools.partial(torch.nn.functional.conv2d, **options),
    }
    given = make()
    check_sides(sides, given, of=lambda result: [result])
    out = sides["ours"](*given)
    return rates(sides, make, 2 * out.numel() * channels * taps**2, rounds=3)


RIVALS = {"ours": "our kernel", "torch": "cuDNN"}


@report("pictures", "layer", list(PICTURES), "pixels, channels → filters, filter", "TFLOP/s", RIVALS)
def pictures(layer, way):
    """TFLOP/s of a 2-D convolution of 32 pictures, of 8 in the last: median, slowest and fastest of 3 rounds."""
    return measure_pictures(layer)[way]
# --8<-- [end:pictures]


# --8<-- [start:formats]
FORMATS = {"channels_last": torch.channels_last, "contiguous": torch.contiguous_format}


@functools.cache
def measure_formats(form: str) -> dict[str, Timing]:
    """Return the milliseconds of each side."""
    pictures, channels, pixels, filters, taps, stride, padding = PICTURES["28², 128 → 128, 3 × 3"]
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    normal = lambda *shape: torch.randn(shape, device="cuda", dtype=torch.bfloat16).to(memory_format=FORMATS[form])
    make = lambda: [normal(pictures, channels, pixels, pixels), normal(filters, channels, taps, taps)]
    options = {"stride": stride, "padding": padding}
    sides = {
        "ours": functools.partial(conv2d, **options),
        "torch": functools.partial(torch.nn.functional.conv2d, **options),
    }
    check_sides(sides, make(), of=lambda result: [result])
    return compare_in_rotation(sides, make, rounds=3)


@report("formats", "form", list(FORMATS), "memory format", "µs", RIVALS)
def formats(form, way):
    """Microseconds of a layer of 28 × 28 pixels by memory format: median, fastest and slowest of 3 rounds."""
    return microseconds(measure_formats(form)[way])
# --8<-- [end:formats]


def main():
    """Say what there is to measure: what comes out is different every time."""
    for benchmark in (stencil, tiles, causal, training, pictures, formats):
        print(f"{benchmark.fn.__name__}.run(print_data=True)  # {benchmark.fn.__doc__.splitlines()[0]}")


if __name__ == "__main__":
    main()
