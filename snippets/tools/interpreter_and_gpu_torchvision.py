# SPDX-License-Identifier: Apache-2.0
"""Does torchvision work in a process that runs kernels in Triton's interpreter? Imported before and after a launch.

Each case is a process of its own, with ``TRITON_INTERPRET=1`` or, for comparison, on the GPU. There a kernel turns a
picture gray, and torchvision does: by ``transforms.functional``, and by ``transforms.v2``. An operator of its own,
``nms``, is called as well, and a picture is encoded as PNG and decoded. The interpreter's tensors are on the CPU.

Source: texts of 2024 say that torchvision does not work after one has switched to the interpreter, which was written
for lecture 14 of the GPU MODE series.

Needs a GPU, and torchvision: ``pip install torchvision``. Run it with ``python interpreter_and_gpu_torchvision.py``.
"""

import os
import subprocess
import sys

import torch

CASES = {
    "in the interpreter, torchvision first": ("1", "import first"),
    "in the interpreter, a kernel first": ("1", "kernel first"),
    "on the GPU, a kernel first": ("0", "kernel first"),
}


# --8<-- [start:case]
def one_case(order: str, device: str) -> None:
    picture = (torch.arange(3 * 64 * 64, device=device) * 7 % 256).to(torch.uint8).view(3, 64, 64)
    if order == "import first":
        import torchvision  # noqa: F401
    from snippets.programs.greyscale import greyscale

    ours = greyscale(picture)

    from torchvision.io import decode_png, encode_png
    from torchvision.ops import nms
    from torchvision.transforms import functional, v2

    for name, gray in (("functional", functional.rgb_to_grayscale), ("v2", v2.functional.rgb_to_grayscale)):
        differs = (gray(picture)[0].int() - ours.int()).abs().max()
        print(f"{name}: {'right' if differs <= 1 else f'differs by {differs}'}")  # it cuts off, and we round
    boxes = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 9], [20, 20, 30, 30]], device=device)
    kept = nms(boxes, torch.tensor([0.9, 0.8, 0.7], device=device), 0.5).tolist()
    print(f"nms: {'right' if kept == [0, 2] else kept}")
    same = torch.equal(decode_png(encode_png(picture.cpu())), picture.cpu())
    print(f"PNG, there and back: {'right' if same else 'differs'}")
# --8<-- [end:case]


def found(interpret: str, order: str) -> list[str]:
    """Return what a process of its own printed, or the last line of its error."""
    device = "cpu" if interpret == "1" else "cuda"
    environment = os.environ | {"TRITON_INTERPRET": interpret}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, __file__, order, device]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    failed = [f"error: {done.stderr.strip().splitlines()[-1]}"] if done.returncode else []
    return done.stdout.splitlines() + failed


def main():
    if len(sys.argv) == 3:
        return one_case(*sys.argv[1:])
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; it compares the interpreter with one")
    try:
        import torchvision
    except ModuleNotFoundError as error:
        raise SystemExit(f"there is no {error.name}: pip install torchvision") from error
    print("torchvision", torchvision.__version__.split("+")[0])
    for case, (interpret, order) in CASES.items():
        print(f"{case}:")
        for line in found(interpret, order):
            print(f"  {line}")


if __name__ == "__main__":
    main()
