# SPDX-License-Identifier: Apache-2.0
"""Run the cases that other libraries test with the files to copy: which pass, which are refused, what is missing.

Each peer's tests list shapes, dtypes and options. What they list is written down anew in ``library/peers_attention.py``
and five more; for each case our function is called, and compared with torch, results and gradients
(``library/peers_compared.py``). A case counts once, however many tests have it. What a peer can choose that changes
time or memory but no result is left out: an order that is the same in every run, a buffer that is written over,
``torch.compile``, the number of splits.

- missing: it needs an option that our function does not have
- run: all others, or of more than ``MOST`` so many that each option has met each value of another parameter
- pass, refused, wrong: of those that ran. Refused means an error that says what is not served

Run such a file on a GPU, or with TRITON_INTERPRET=1 on a CPU, where it takes a few cases, and makes them small.
"""

import collections
import concurrent.futures
import heapq
import inspect
import itertools
import math
import multiprocessing
import random

import torch

from snippets.library import peers_compared as compared
from snippets.library.peers_compared import BF16, F16, F32

HALF, BASIC, FLOATS, ON = [F16, BF16], [F32, BF16], [F16, BF16, F32], [False, True]
MOST = 40
FEW = 2  # cases of each operation in the interpreter
# Processes that share the GPU: many, for compiling takes longest; fewer for cases of more elements, to fit in memory.
WORKERS = {2**26: 14, 2**28: 4, math.inf: 1}
# Sizes, which need not meet each other; and how large they may be in the interpreter.
SIZES = {"batch": 2, "queries": 20, "keys": 40, "rows": 5, "columns": 160, "inner": 40, "tokens": 9, "pages": 64,
         "heads": None, "kv_heads": None, "head_dim": None, "rotary_dim": None, "sequences": None, "cu_seqlens": None,
         "sections": None}  # fmt: skip


def grid(axes: dict[str, list], **fixed) -> list[dict]:
    """Return each combination of values; what is off, None or False, is left out."""
    rows = []
    for values in itertools.product(*axes.values()):
        row = dict(fixed)
        for names, value in zip(axes, values, strict=True):
            row |= zip(names.split(), value if " " in names else [value], strict=True)
        rows.append({name: value for name, value in row.items() if value is not None and value is not False})
    return rows


def parameters(*functions) -> set[str]:
    return {name for function in functions if function for name in inspect.signature(function).parameters}


def missing(known: set[str], case: dict) -> list[str]:
    """Return the options of a case that are not among those known."""
    return [name for name in case if name not in known]


def outcome(operation, case: dict) -> str:
    """Return "pass"; "refused" and why; or "wrong" or "failed" and the case."""
    torch.manual_seed(0)
    random.seed(0)
    try:
        return "pass" if operation(**case) else f"wrong: {case}"
    except compared.Refused as error:
        return f"refused: {error}"
    except Exception as error:
        return f"failed: {type(error).__name__}: {str(error)[:80]}: {case}"
    finally:
        if compared.device() == "cuda":
            torch.cuda.empty_cache()  # other processes want it, too


def distinct(grids: list[list[dict]]) -> list[dict]:
    return [*{tuple(sorted(case.items())): case for case in itertools.chain(*grids)}.values()]


def chosen(cases: list[dict]) -> list[dict]:
    """Return all, or so many that each option has met each value of another parameter.

    The next is always one that brings the most new pairs, among equals the first of a shuffled order. How many pairs a
    case brings only shrinks, so a case that is still on top when it has been counted again is that one.
    """
    if len(cases) <= MOST:
        return cases
    names, kept, met = sorted({name for case in cases for name in case}), [], set()
    pairs = [pair for pair in itertools.combinations(names, 2) if not SIZES.keys() >= {*pair}]
    cases = random.Random(0).sample(cases, len(cases))
    new = [{(a, case.get(a), b, case.get(b)) for a, b in pairs} for case in cases]
    heap = [(-len(pairs), i) for i in range(len(cases))]  # the top brings most
    while heap:
        i = heap[0][1]
        new[i] -= met
        heapq.heapreplace(heap, (-len(new[i]), i))
        if heap[0][1] != i:
            continue
        if not new[i]:  # nor does any other bring one
            break
        kept.append(cases[i])
        met |= new[i]
    return kept


def small(case: dict) -> dict:
    """Return a case for the interpreter: few elements, and float32 for bfloat16, which it gets wrong."""
    case = {name: (F16 if name == "autocast" else F32) if x is BF16 else x for name, x in case.items()}
    cut = {name: min(x, SIZES[name]) if SIZES.get(name) else x for name, x in case.items()}
    if case.get("kv_heads") and not case["heads"] % case["kv_heads"]:
        cut["kv_heads"] = min(case["kv_heads"], 2)
        cut["heads"] = min(case["heads"] // case["kv_heads"], 3) * cut["kv_heads"]
    elif "heads" in case and "tokens" in case:
        cut["heads"] = min(case["heads"], 4)
    if "sequences" in case:
        cut["sequences"] = tuple((min(q, 9), min(k, 40)) for q, k in case["sequences"])
    if "cu_seqlens" in case and case["cu_seqlens"] is not True:
        cut["cu_seqlens"] = tuple(min(n, 20 * i) for i, n in enumerate(case["cu_seqlens"]))
    return cut


def elements(case: dict) -> int:
    return math.prod(case.get(name, 1) for name in ("batch", "heads", "queries", "keys", "rows", "columns"))


def outcomes(work: list[tuple]) -> list[str]:
    """Run cases: on a GPU in several processes at once, the small ones first."""
    if compared.device() == "cpu":
        return [outcome(operation, small(case)) for operation, case in work]
    order, done = random.Random(0).sample(range(len(work)), len(work)), {}  # so that not all that are large meet
    for most, workers in WORKERS.items():
        with concurrent.futures.ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
            now = [i for i in order if i not in done and elements(work[i][1]) <= most]
            waiting = {i: pool.submit(outcome, *work[i]) for i in now}
        for i, future in waiting.items():
            done[i] = f"failed: {work[i][1]}" if future.exception() else future.result()
    return [done[i] for i in range(len(work))]


def tally(peers: dict, ours: dict, few: int | None = None) -> list[tuple]:
    """Return for each peer and operation: cases, and a count of what became of them, with the reasons.

    ``ours``: by operation, the function that it passes all other options on to, if any.
    """
    rows, work = [], []
    for (peer, name), (operation, grids) in peers.items():
        cases = distinct(grids)
        known = parameters(operation, ours.get(operation))
        lacking = [missing(known, case) for case in cases]
        takes = chosen([case for case, names in zip(cases, lacking, strict=True) if not names])[:few]
        rows.append((peer, name, len(cases), lacking, len(takes)))
        work += [(operation, case) for case in takes]
    found, table = iter(outcomes(work)), []
    for peer, name, cases, lacking, run in rows:
        why = collections.Counter(f"missing: {each}" for names in lacking for each in names)
        became = [next(found) for _ in range(run)]
        why.update(each for each in became if ":" in each)
        counts = collections.Counter(each.split(":")[0] for each in became)
        table.append((peer, name, cases, sum(map(bool, lacking)), run, counts, why))
    return table


def report(peers: dict, ours: dict | None = None):
    """Run the cases of a family and print what became of them."""
    if compared.device() == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU found; set TRITON_INTERPRET=1 to run few cases in Triton's interpreter, on the CPU")
    table = tally(peers, ours or {}, None if compared.device() == "cuda" else FEW)
    print("## cases")
    print(f"{'peer':24}{'operation':30}{'cases':>8}{'missing':>9}{'run':>6}{'pass':>6}{'refused':>9}{'wrong':>7}")
    for peer, name, cases, lacking, run, counts, _ in table:
        wrong = counts["wrong"] + counts["failed"]
        print(f"{peer:24}{name:30}{cases:8}{lacking:9}{run:6}{counts['pass']:6}{counts['refused']:9}{wrong:7}")
    print("## why not")
    for peer, name, *_, why in table:
        for reason, times in sorted(why.items()):
            print(f"{peer}, {name}: {reason.replace(chr(10), ' ')[:300]} ({times})")
    print("## in all")
    total = lambda *names: sum(row[5][name] for row in table for name in names)
    print(f"cases: {sum(row[2] for row in table)}\nmissing: {sum(row[3] for row in table)}")
    print(f"run: {sum(row[4] for row in table)}\npass: {total('pass')}\nrefused: {total('refused')}")
    print(f"wrong: {total('wrong', 'failed')}")
