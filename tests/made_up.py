# SPDX-License-Identifier: Apache-2.0
"""Benchmarks made up for the tests of views: small launches on 4 SMs, kernels under three ceilings, two levels."""

SMS = 4
LAUNCHES = {  # of each program: SM, begin, end
    "schedule_few": [(0, 0.0, 100.0), (2, 1.0, 100.0)],
    "schedule_one_more": [(0, 0.0, 100.0), (2, 1.0, 99.0), (1, 1.0, 100.0), (3, 1.0, 101.0), (2, 100.0, 200.0)],
    "schedule_shared": [(sm, 0.0, 50.0 + sm) for sm in (0, 1, 0, 1)] + [(0, 50.0, 125.5)],
}
CEILINGS = {"copy": 4000.0, "fp32": 50.0, "bf16": 800.0}
KERNELS = [  # name, unit, GFLOP, GB, ms
    ("add <small>", "fp32", 4e-6, 4.8e-5, 0.0045),
    ("add", "fp32", 0.1, 1.2, 0.3),
    ("powers", "fp32", 16.0, 1.0, 0.4),
    ("product", "bf16", 1100.0, 0.4, 1.5),
]


def _table(name: str, x: list[str], lines: list[str], rows: list[tuple]) -> dict:
    return {
        "name": name, "doc": f"Made up: {name}.\n\nMore of it.", "x": x, "xlabel": x[0], "ylabel": "µs",
        "x_log": False, "y_log": False, "lines": {line: line for line in lines},
        "rows": [dict(zip(x, row, strict=False)) | {k: [v] for k, v in zip(lines, row[len(x) :], strict=True)}
                 for row in rows],
    }  # fmt: skip


def schedules() -> list[dict]:
    return [
        _table(name, ["program"], ["sm", "begin", "end"], [(i, *program) for i, program in enumerate(programs)])
        for name, programs in LAUNCHES.items()
    ]


def ladders() -> list[dict]:
    levels = [("L1", 2**18, 20.0, 30_000.0), ("HBM", 140 * 2**30, 500.0, 4_200.0)]
    return [_table("ladder", ["level"], ["holds", "answers", "delivers"], levels)]


def rooflines() -> list[dict]:
    return [
        _table("ceilings", ["ceiling"], ["rate"], list(CEILINGS.items())),
        _table("roofline", ["kernel", "unit"], ["gflop", "gbyte", "ms"], KERNELS),
    ]


def product(group: int, m: int = 4, n: int = 3, k: int = 2, block: int = 2) -> dict:
    """A launch that multiplies m by k tiles by k by n tiles, its accesses in groups of rows of tiles."""
    tiles = [(i, j) for first in range(0, m, group) for j in range(n) for i in range(first, min(first + group, m))]
    size, accesses = {"M": m * block, "N": n * block, "K": k * block}, []

    def touch(pid, op, name, row, column, width):
        offsets = [(row * block + r) * width + column * block + c for r in range(block) for c in range(block)]
        accesses.append({
            "pid": [pid, 0, 0], "op": op, "tensor": name, "line": 10, "shape": [block, block], "offsets": offsets,
            "mask": [True] * block**2,
        })  # fmt: skip

    for pid, (i, j) in enumerate(tiles):
        for step in range(k):
            touch(pid, "load", "a_ptr", i, step, size["K"])
            touch(pid, "load", "b_ptr", step, j, size["N"])
        touch(pid, "store", "c_ptr", i, j, size["N"])
    tensors = {
        f"{name}_ptr": {"dtype": "float32", "shape": [size[a], size[b]], "strides": [size[b], 1], "alignment": 16}
        for name, a, b in (("a", "M", "K"), ("b", "K", "N"), ("c", "M", "N"))
    }
    blocks = {f"BLOCK_{axis}": block for axis in "MNK"}
    return {
        "kernel": "toy_kernel", "file": "snippets/programs/toy.py", "line": 6, "grid": [m * n, 1, 1],
        "arguments": {**tensors, **size, **blocks, "GROUP_M": group},
        "constexprs": [*blocks, "GROUP_M"], "options": {}, "accesses": accesses,
    }  # fmt: skip


def recorded() -> dict:
    return {"provenance": {"multiprocessors": SMS}, "benchmarks": [*schedules(), *rooflines()]}
