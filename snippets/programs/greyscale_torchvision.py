# SPDX-License-Identifier: Apache-2.0
"""torchvision's ``rgb_to_grayscale`` beside ours: which colors come out otherwise, and how fast each is.

torchvision multiplies by 0.2989, 0.587 and 0.114, which add up to 0.9999, in float32, and cuts off what is behind the
point. It has two such functions, in ``transforms.functional`` and in ``transforms.v2.functional``.

Shapes: planar pictures (3, height, width), uint8. Traffic: three bytes read and one written for each pixel.
Source: torchvision, https://docs.pytorch.org/vision/stable/transforms.html.

Needs a GPU, and torchvision: the version that was made for your torch, from where that came from, as in
``pip install torchvision``. Run it with ``python greyscale_torchvision.py``.
"""

import functools
from collections.abc import Callable

import torch
import triton

from snippets.programs.greyscale import greyscale
from snippets.tools.benchmarking_cold import rates


# --8<-- [start:torchvision]
def theirs(which: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return torchvision's "first" function or its "second". Raise ``ModuleNotFoundError`` if it is not installed."""
    try:
        if which == "first":
            from torchvision.transforms.functional import rgb_to_grayscale
        else:
            from torchvision.transforms.v2.functional import rgb_to_grayscale
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"greyscale_torchvision.py compares with torchvision, and there is no {error.name}: pip install torchvision"
        ) from error
    return rgb_to_grayscale
# --8<-- [end:torchvision]


def all_colors(device: str) -> torch.Tensor:
    """Return a picture of every color that three bytes can say: black comes first, white last."""
    values = torch.arange(256, dtype=torch.uint8, device=device)
    return torch.stack(torch.meshgrid(values, values, values, indexing="ij")).view(3, 4096, 4096)


def sides() -> dict[str, Callable[[torch.Tensor], torch.Tensor]]:
    return {"ours": greyscale, "first": theirs("first"), "second": theirs("second"), "copy": copy}


def copy(picture: torch.Tensor) -> torch.Tensor:
    """Copy as many bytes as turning it gray moves: half of four for each pixel are read, half are written."""
    return picture.view(-1)[: 2 * picture[0].numel()].clone()


# --8<-- [start:bandwidth]
@functools.cache
def measure(size):
    """Return GB/s by side: median, slowest and fastest round. The sides take turns, on operands in rotation."""
    side = int(size.split(" × ")[0])
    make = lambda: [torch.randint(0, 256, (3, side, side), dtype=torch.uint8, device="cuda")]
    return rates(sides(), make, 4 * side * side, rounds=6, steady=False, unit=1e9)


@triton.testing.perf_report(
    triton.testing.Benchmark(
        plot_name="sizes",
        x_names=["size"],
        x_vals=["8192 × 8192", "8191 × 8191"],
        xlabel="rows × columns",
        ylabel="GB/s",
        line_arg="provider",
        line_vals=["ours", "first", "second", "copy"],
        line_names=["ours", "torchvision", "torchvision, v2", "copy of as many bytes"],
        args={},
    )
)
def sizes(size, provider):
    """Bytes moved per second, three read and one written for each pixel, on square planar pictures of random pixels."""
    return measure(size)[provider]
# --8<-- [end:bandwidth]


def compared(device: str) -> None:
    """Print how torchvision's gray values differ from ours, over all colors."""
    colors = all_colors(device)
    block = {"block": (64, 1024), "num_warps": 32} if device == "cpu" else {}  # few programs for the interpreter
    gray = {"ours": greyscale(colors, **block)}
    gray |= {which: theirs(which)(colors).squeeze(0) for which in ("first", "second")}
    print(f"colors: {gray['ours'].numel():,}")
    for which, name in (("first", "torchvision"), ("second", "torchvision, v2")):
        difference = gray[which].int() - gray["ours"].int()
        print(f"{name}, unlike ours: {int((difference != 0).sum()):,}")
        print(f"{name}, darkest against ours: {int(difference.min())}")
        print(f"{name}, brightest against ours: {int(difference.max())}")
    for which, name in (("ours", "ours"), ("first", "torchvision"), ("second", "torchvision, v2")):
        print(f"white, {name}: {int(gray[which][-1, -1])}")


def main():
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; it compares what a GPU computes")
    theirs("first")  # which says so if it is missing
    import torchvision

    print("torchvision", torchvision.__version__.split("+")[0])
    compared("cuda")


if __name__ == "__main__":
    main()
