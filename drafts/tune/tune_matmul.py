"""Find the fastest Config of snippets/matmul/persistent.py for each size, against torch.matmul. Outside the repository.

    PYTHONPATH=. python3 drafts/tune/tune_matmul.py --seconds 230 --out $OUT      # on the GPU
    PYTHONPATH=. python3 drafts/tune/tune_matmul.py --check [--sizes 512]         # anywhere: compile and report only

1. All configs of all sizes are compiled in a pool of processes, which need no GPU and share TRITON_CACHE_DIR. What spills,
   or takes more than 227 KiB of shared memory, or does not compile is reported and dropped.
2. For each size (bfloat16 first): every config is checked against torch.matmul, timed in shuffled rounds between
   readings of torch.matmul (random data, L2 flushed, medians).
3. The best 6 and torch.matmul go on to a final of 8 rounds. Up to 2048 a CUDA graph repeats each call (L2 flushed before
   it), so that the host's share is left out on both sides; at 512 and 1024 also: back to back in a graph without a
   flush, plain do_bench, and microseconds of the host for a call.
4. float16 takes the best 10 of bfloat16.
Results are written after each size to matmul_tuned.json; a table per size goes to the output.
"""

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

SIZES = (512, 1024, 2048, 4096, 8192, 16384)
LIMIT = 232448  # bytes of shared memory a block may have on a Hopper GPU


def config(block, warps, stages, subtiles=1, *, group=8, per_sm=1, flatten=True, ws=False):
    """A dict, so that this file can list candidates without Triton."""
    block_m, block_n, block_k = block
    return dict(
        block_m=block_m, block_n=block_n, block_k=block_k, num_warps=warps, num_stages=stages, group_m=group,
        subtiles=subtiles, per_sm=per_sm, flatten=flatten, warp_specialize=ws, inside=ws,
    )  # fmt: skip


def each_tile(block, warps, stages, subtiles=1, **options):
    """One program for each tile; the loop over tiles runs once."""
    return config(block, warps, stages, subtiles, per_sm=0, flatten=False, **options)


def candidates(size):
    wide, tall, square = (128, 256, 64), (256, 128, 64), (128, 128, 64)
    if size == 512:
        # 132 multiprocessors: 64 x 32 makes 128 programs. K = 512 is 4 steps of 128: all loads may be under way at once.
        return [
            *(each_tile((64, 32, 128), 4, stages) for stages in (2, 3, 4, 5)),
            *(each_tile((64, 32, 64), 4, stages) for stages in (4, 6, 8)),
            *(each_tile((64, 32, 256), 4, stages) for stages in (2, 3)),
            each_tile((64, 32, 128), 4, 4, 0),
            each_tile((64, 32, 128), 4, 4, group=1),
            each_tile((64, 32, 128), 4, 4, group=4),
            each_tile((64, 32, 64), 4, 8, 0),
            config((64, 32, 128), 4, 4),
            *(each_tile((64, 64, 128), 4, stages) for stages in (3, 4)),
            *(each_tile((64, 64, 64), 4, stages) for stages in (4, 8)),
            each_tile((64, 64, 128), 8, 4),
            *(each_tile((64, 16, 128), 4, stages) for stages in (3, 4)),
            each_tile((64, 16, 256), 4, 2),
            *(each_tile((128, 16, 128), warps, 4) for warps in (4, 8)),
            *(each_tile((128, 32, 128), warps, 4) for warps in (4, 8)),
            *(each_tile((32, 64, 128), warps, 4) for warps in (2, 4)),  # under 64 rows: no wgmma, mma instead
            *(each_tile((32, 32, 128), warps, 4) for warps in (2, 4)),
            each_tile((64, 32, 128), 4, 4, ws=True),
            each_tile((128, 64, 64), 4, 6),
        ]
    if size == 1024:
        return [
            # 128 programs
            *(each_tile((128, 64, 64), warps, stages) for warps in (4, 8) for stages in (4, 6, 8)),
            *(each_tile((128, 64, 128), warps, stages) for warps in (4, 8) for stages in (3, 4)),
            *(each_tile((64, 128, 64), 4, stages) for stages in (4, 6, 8)),
            *(each_tile((64, 128, 128), 4, stages) for stages in (3, 4)),
            each_tile((64, 128, 64), 8, 6),
            each_tile((64, 128, 64), 4, 6, 2),
            each_tile((128, 64, 64), 4, 6, 0),
            each_tile((128, 64, 64), 4, 6, group=4),
            each_tile((128, 64, 64), 4, 6, group=16),
            each_tile((64, 128, 64), 4, 6, group=4),
            config((128, 64, 64), 4, 6),
            config((128, 64, 64), 8, 6),
            config((64, 128, 64), 4, 6),
            each_tile((128, 64, 64), 4, 6, ws=True),
            each_tile((128, 64, 64), 4, 6, 0, ws=True),
            # 256 programs, two to a multiprocessor
            *(each_tile((64, 64, 64), 4, stages) for stages in (4, 5, 6)),
            *(each_tile((64, 64, 128), 4, stages) for stages in (2, 3)),
            each_tile((128, 32, 64), 4, 5),
            # 64 programs: less to read from L2
            *(each_tile((128, 128, 64), warps, stages) for warps in (4, 8) for stages in (4, 6)),
            each_tile((128, 128, 128), 8, 3),
            each_tile((64, 256, 64), 4, 5, 2),
        ]
    flattened = [
        *(config(wide, 8, 4, 2, group=group) for group in (4, 8, 16)),
        config(wide, 8, 4, 4),
        config(wide, 8, 4, 4, group=16),
        config(wide, 8, 3),
        config(wide, 8, 3, 2),
        config(wide, 8, 3, 0),
        config((128, 256, 128), 8, 2, 4),
        config(tall, 8, 4, 2),
        config(tall, 8, 4, 2, group=4),
        config(wide, 8, 3, group=16),
        config(tall, 8, 3),
        config((128, 128, 64), 8, 6),
        config((128, 128, 64), 8, 5, 2),
        config((128, 128, 128), 8, 3),
        config((128, 128, 64), 4, 5),
    ]
    two_to_a_sm = [
        config(square, 4, 3, 4, per_sm=2),
        config(square, 4, 3, 4, per_sm=2, flatten=False),
        config(square, 8, 3, 4, per_sm=2),
        config(square, 8, 3, 4, per_sm=2, flatten=False),
        config((64, 256, 64), 4, 2, 4, per_sm=2),
        config((128, 128, 32), 4, 5, 4, per_sm=2, flatten=False),
    ]
    unflattened = [
        config(wide, 8, 4, 2, flatten=False),
        config(wide, 8, 3, flatten=False),
        config(wide, 8, 4, 4, flatten=False),
        config(tall, 8, 4, 2, flatten=False),
    ]
    specialized = [
        config(wide, 4, 3, flatten=False, ws=True),
        *(config(wide, 4, 4, 0, flatten=False, ws=True, group=group) for group in (4, 8, 16)),
        config(wide, 4, 3, 0, flatten=False, ws=True),
        config(tall, 4, 3, flatten=False, ws=True),
        config(tall, 4, 4, 0, flatten=False, ws=True),
        config(square, 4, 4, flatten=False, ws=True),
        config(square, 4, 6, flatten=False, ws=True),
        config((128, 128, 128), 4, 3, flatten=False, ws=True),
    ]
    once = [each_tile(wide, 8, 4, 2), each_tile(wide, 8, 3), each_tile(tall, 8, 4, 2), each_tile(square, 4, 3, 4)]
    if size == 2048:
        once += [
            each_tile(wide, 8, 4, 4),
            each_tile(wide, 8, 4, 2, group=4),
            each_tile(wide, 8, 4, 2, group=16),
            each_tile((128, 256, 128), 8, 2, 4),
            each_tile(square, 8, 3, 4),
            each_tile((64, 256, 64), 4, 2, 4),
            each_tile((128, 128, 32), 4, 5, 4),
            each_tile(wide, 4, 4, 0, ws=True),
            each_tile(wide, 4, 3, ws=True),
        ]
        flattened = [c for c in flattened if c["group_m"] == 8]
    if size >= 8192:
        flattened += [config(wide, 8, 4, 2, group=group) for group in (6, 12, 24, 32)]
        two_to_a_sm += [config(square, 4, 3, 4, per_sm=2, flatten=False, group=16)]
        once = once[:1]
    return [*flattened, *two_to_a_sm, *unflattened, *specialized, *once]


def name(c):
    order = "one a tile" if c["per_sm"] == 0 else f"{c['per_sm']} per SM"
    extra = ", flat" * c["flatten"] + ", WS" * c["warp_specialize"]
    return (
        f"{c['block_m']}x{c['block_n']}x{c['block_k']} w{c['num_warps']} s{c['num_stages']} "
        f"sub{c['subtiles']} g{c['group_m']}, {order}{extra}"
    )


# 1. Compile, without a GPU


def compile_one(c, dtype_name):
    """Registers, spills, shared memory, instructions; or the error. Runs in a process of the pool."""
    import torch
    from triton import knobs
    from triton.runtime import driver
    from triton.tools.tensor_descriptor import TensorDescriptor

    from recorder.stages import TARGETS, CompileOnly
    from snippets.matmul import persistent

    if not isinstance(driver._active, CompileOnly) if hasattr(driver, "_active") else True:
        driver.set_active(CompileOnly(TARGETS["sm_90"]))
    dtype, side = getattr(torch, dtype_name), 1024
    block_m, block_n, block_k, subtiles = (c[key] for key in ("block_m", "block_n", "block_k", "subtiles"))
    storage = torch.empty(4096, dtype=torch.uint8)
    tensor = storage[-storage.data_ptr() % 16 :][:1024].view(dtype)
    describe = lambda *block: TensorDescriptor(tensor, [side, side], [side, 1], list(block))
    arguments = [tensor] * 3
    if not c["inside"]:
        arguments[:2] = describe(block_m, block_k), describe(block_k, block_n)
        if subtiles:
            arguments[2] = describe(block_m, block_n // subtiles)
    began = time.time()
    try:
        persistent.check_config(persistent.Config(**c))
        compiled = persistent.matmul_kernel.warmup(
            *arguments, side, side, side, side, side,
            BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP_M=c["group_m"], SUBTILES=subtiles,
            FLATTEN=c["flatten"], WARP_SPECIALIZE=c["warp_specialize"], MADE_INSIDE=c["inside"], A_TRANSPOSED=False,
            B_TRANSPOSED=False, PRECISION="ieee", num_warps=c["num_warps"], num_stages=c["num_stages"], grid=(1,),
        )  # fmt: skip
    except BaseException as error:
        return {"error": f"{type(error).__name__}: {str(error)[:200]}"}
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        usage = subprocess.run(
            [knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name], capture_output=True, text=True
        ).stdout
    number = lambda key: int(re.search(rf"\b{key}:(\d+)", usage)[1])
    ptx, ttgir = compiled.asm["ptx"], compiled.asm["ttgir"]
    return {
        "registers": number("REG"),
        "spilled": number("STACK") + number("LOCAL"),
        "shared": compiled.metadata.shared,
        "warps": compiled.metadata.num_warps,
        "wgmma": sorted(set(re.findall(r"wgmma\.mma_async\.sync\.aligned\.(m\d+n\d+k\d+)", ptx))),
        "mma": len(re.findall(r"\bmma\.sync", ptx)),
        "tma_loads": len(re.findall(r"cp\.async\.bulk\.tensor\.\dd\.shared", ptx)),
        "tma_stores": len(re.findall(r"cp\.async\.bulk\.tensor\.\dd\.global", ptx)),
        "layout_conversions": ttgir.count("ttg.convert_layout"),
        "buffers": sorted(set(re.findall(r"ttg\.local_alloc.*?!ttg\.memdesc<([\dx]+x(?:bf16|f16|f32))", ttgir))),
        "in_flight": re.findall(r"warp_group_dot_wait.*?pendings = (\d+)", ttgir),
        "seconds": round(time.time() - began, 1),
    }


def compile_all(work, jobs):
    """{(name, dtype): report}. Duplicates are compiled once."""
    unique = {(name(c), dtype): c for c, dtype in work}
    reports = {}
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as pool:
        futures = {pool.submit(compile_one, c, key[1]): key for key, c in unique.items()}
        for future in concurrent.futures.as_completed(futures):
            try:
                reports[futures[future]] = future.result()
            except Exception as error:  # a process that died: the others were lost with it, and compile in the main one
                reports[futures[future]] = {"error": f"process: {error}"}
    return reports


def pointers():
    """Tiles through pointers and cp.async, by the snippet `autotuned`, for sizes at which a descriptor's latency counts."""
    try:
        import triton

        from snippets.matmul import autotuned

        made = {}
        for blocks, warps, stages in (
            ((64, 32, 128), 4, 4), ((64, 32, 64), 4, 6), ((64, 64, 64), 4, 5), ((128, 64, 64), 4, 5),
            ((128, 128, 64), 8, 4), ((128, 256, 64), 8, 3),
        ):  # fmt: skip
            names = dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), blocks, strict=True))
            tried = triton.Config(names | {"GROUP_M": 8}, num_warps=warps, num_stages=stages)
            label = f"pointers {'x'.join(map(str, blocks))} w{warps} s{stages}"
            made[label] = (lambda tried: lambda a, b: autotuned.matmul(a, b, config=tried))(tried)
        return made
    except Exception as problem:
        print(f"without pointers: {type(problem).__name__}: {problem}")
        return {}


def fits(report):
    if "error" in report:
        return report["error"].startswith("process:")
    return report["spilled"] == 0 and report["shared"] <= LIMIT


def show_reports(reports):
    print(f"{'config':60} dtype     regs spill  shared warps wgmma       mma TMA l/s conv  buffers; in flight")
    for (label, dtype), r in sorted(reports.items()):
        if "error" in r:
            print(f"{label:60} {dtype:9} {r['error']}")
        else:
            print(
                f"{label:60} {dtype:9} {r['registers']:4} {r['spilled']:5} {r['shared']:7} {r['warps']:5} "
                f"{','.join(r['wgmma']):11} {r['mma']:3} {r['tma_loads']:3}/{r['tma_stores']} {r['layout_conversions']:4}  "
                f"{' '.join(r['buffers'])}; {','.join(r['in_flight'])}" + ("" if fits(r) else "   DROPPED")
            )


# 2. Time


def timer(flush, runs):
    """Milliseconds of a call: the median of `runs`, each after `flush` bytes were zeroed, which also hides the launch."""
    import torch

    other = torch.empty(flush, dtype=torch.uint8, device="cuda")

    def read(run):
        pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(runs)]
        for begin, end in pairs:
            other.zero_()
            begin.record()
            run()
            end.record()
        torch.cuda.synchronize()
        return statistics.median(begin.elapsed_time(end) for begin, end in pairs)

    return read


def host_microseconds(run, calls=200):
    import torch

    run(), torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(calls):
        run()
    spent = time.perf_counter() - began
    torch.cuda.synchronize()
    return spent / calls * 1e6


def rounds_of(sides, number, read, again=("torch",)):
    """{side: [ms]}: shuffled in each round; torch is read twice a round."""
    readings = {side: [] for side in sides}
    for _ in range(number):
        order = [*sides, *(side for side in again if side in sides)]
        random.shuffle(order)
        for side in order:
            readings[side].append(read(sides[side]))
    return readings


STATE = Path(tempfile.gettempdir()) / "tune-matmul-state.json"  # which side runs for the first time, for the supervisor


def first_time(label):
    """Say which side is about to run for the first time; a watchdog ends the process if it does not come back."""
    STATE.write_text(json.dumps({"label": label, "since": time.time()}))


def watch(limit=40):
    def look():
        while True:
            time.sleep(2)
            state = json.loads(STATE.read_text() or "{}") if STATE.exists() else {}
            if state.get("label") and time.time() - state["since"] > limit:
                print(f"HANGS: {state['label']}", flush=True)
                os._exit(3)

    threading.Thread(target=look, daemon=True).start()


def tune(size, dtype_name, chosen, extras, deadline):
    import torch

    from snippets.matmul import persistent

    dtype = getattr(torch, dtype_name)
    torch.manual_seed(0)
    a, b = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
    reference = torch.matmul(a, b)
    norm = reference.float().norm()
    exact = a[:256].double() @ b.double()
    error = lambda out: ((out[:256].double() - exact).norm() / exact.norm()).item()
    sides, failed = {"torch": lambda: torch.matmul(a, b)}, {}
    runs = {name(c): (lambda made: lambda: persistent.matmul(a, b, config=made))(persistent.Config(**c)) for c in chosen}
    runs |= {label: (lambda f: lambda: f(a, b))(f) for label, f in extras.items()}
    for label, run in runs.items():
        first_time(label)
        try:
            out = run()
            torch.cuda.synchronize()
            far = ((out.float() - reference.float()).norm() / norm).item()
            if not far < 1e-2:
                raise ValueError(f"wrong: relative difference {far:.2e} from torch")
            sides[label] = run
        except Exception as problem:
            failed[label] = f"{type(problem).__name__}: {str(problem)[:200]}"
            print(f"  FAILED {label}: {failed[label]}")
            if "CUDA error" in str(problem) or "illegal" in str(problem):
                os._exit(3)  # the context is lost: the supervisor goes on without this side
    first_time(None)
    flops = 2 * size**3
    small = size <= 2048
    plain = dict(sides)
    if small:  # by a CUDA graph, so that the host cannot be late; L2 is flushed before each replay all the same
        for label in list(sides):
            try:
                sides[label] = persistent.captured(sides[label])
            except Exception as problem:
                failed[label] = f"capture: {type(problem).__name__}: {str(problem)[:200]}"
                print(f"  FAILED {label}: {failed[label]}")
                del sides[label]
    read = timer(2**30 if small else 2**28, 8 if small else 2 if size >= 8192 else 4)
    for run in sides.values():
        run()
    first = rounds_of(sides, 3 if size == 16384 else 5, read)
    middle = {side: statistics.median(found) for side, found in first.items()}
    ranked = sorted((side for side in sides if side != "torch"), key=middle.get)
    best = {side: sides[side] for side in ("torch", *ranked[:6])}
    number = 8 if time.time() < deadline else 4
    final = rounds_of(best, number, timer(2**30 if small else 2**28, 20 if small else 4), again=())
    result = {
        "size": size, "dtype": dtype_name, "failed": failed,
        "first": {side: flops / ms / 1e9 for side, ms in middle.items()},  # TFLOP/s
        "final": {
            side: {"tflops": flops / statistics.median(found) / 1e9, "ms": found,
                   "ratio": statistics.median(final["torch"]) / statistics.median(found)}
            for side, found in final.items()
        },
        "error": {"torch": error(reference), **({ranked[0]: error(sides[ranked[0]]())} if ranked else {})},
    }  # fmt: skip
    if size <= 1024:
        from triton.testing import do_bench, do_bench_cudagraph

        in_graph = lambda run: do_bench_cudagraph(run, rep=20, return_mode="median")  # L2 not flushed, back to back
        graphs = rounds_of({side: plain[side] for side in best}, 3, in_graph, again=())
        result["graph"] = {side: statistics.median(found) for side, found in graphs.items()}
        result["do_bench"] = {  # as a caller would meet it: if the host needs longer than the flush, that is in it
            side: do_bench(plain[side], warmup=5, rep=20, return_mode="median") for side in ("torch", ranked[0])
        }
        result["host_us"] = {side: host_microseconds(plain[side]) for side in ("torch", ranked[0])}
    return result


def show(result):
    print(f"## {result['size']} {result['dtype']}: error {result['error']}")
    final = sorted(result["final"].items(), key=lambda item: -item[1]["tflops"])
    for side, found in final:
        spread = (max(found["ms"]) - min(found["ms"])) / statistics.median(found["ms"])
        graph = f"  graph {result['graph'][side] * 1e3:7.2f} us" if "graph" in result else ""
        ms = statistics.median(found["ms"])
        print(f"  {found['ratio']:.3f}  {found['tflops']:6.1f} TFLOP/s  {ms * 1e3:9.2f} us  +-{spread:4.1%}{graph}  {side}")
    for key in ("host_us", "do_bench"):
        if key in result:
            print(f"  {key}: {result[key]}")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=230)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--dtypes", nargs="*", default=["bfloat16", "float16"])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", default=os.environ.get("OUT", "/tmp"))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--worker", action="store_true", help="what the supervisor starts")
    parser.add_argument("--began", type=float, default=time.time())
    parser.add_argument("--without", nargs="*", default=[], help="sides to leave out")
    options = parser.parse_args()
    began = options.began
    os.environ.setdefault("TRITON_CACHE_DIR", str(Path(tempfile.gettempdir()) / "tune-cache"))
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if not options.worker and not options.check:
        return supervise(options)
    lists = {size: [c for c in candidates(size) if name(c) not in options.without] for size in options.sizes}
    work = [(c, dtype) for dtype in options.dtypes for found in lists.values() for c in found]
    reports = compile_all(work, options.jobs)
    if options.check:
        show_reports(reports)
    dropped = {key: r for key, r in reports.items() if not fits(r)}
    print(f"compiled {len(reports)} kernels in {time.time() - began:.0f} s, dropped {len(dropped)}")
    for (label, dtype), r in dropped.items():
        print(f"  dropped {label} {dtype}: {r.get('error') or (r['spilled'], r['shared'])}")
    if options.check:
        return
    watch()
    extras = pointers()
    for snippet in ("split_k", "grouped"):
        try:
            module = __import__(f"snippets.matmul.{snippet}", fromlist=["matmul"])
            extras[snippet] = module.matmul
        except Exception as problem:
            print(f"without {snippet}: {type(problem).__name__}: {problem}")
    extras = {label: run for label, run in extras.items() if label not in options.without}
    out, results, best = Path(options.out), [], {}
    if (out / "matmul_tuned.json").exists():
        results = json.loads((out / "matmul_tuned.json").read_text())["results"]
        for r in results:
            best.setdefault(r["size"], set(sorted(r["first"], key=lambda side: -r["first"][side])[:11]))
    plan = [(dtype, size) for dtype in options.dtypes for size in options.sizes]
    for done, (dtype, size) in enumerate(plan):
        if any((r["dtype"], r["size"]) == (dtype, size) for r in results):
            continue
        left = options.seconds - (time.time() - began)
        if left < 5:
            print(f"out of time before {size} {dtype}: {plan[done:]}")
            break
        chosen = [c for c in lists[size] if fits(reports[name(c), dtype])]
        if size in best:
            chosen = [c for c in chosen if name(c) in best[size]]
        try:
            deadline = time.time() + left / (len(plan) - done)
            result = tune(size, dtype, chosen, extras if size <= 2048 else {}, deadline)
        except Exception as problem:
            traceback.print_exc()
            if "CUDA error" in str(problem) or "illegal" in str(problem):
                os._exit(4)
            continue
        ranked = sorted((side for side in result["first"] if side != "torch"), key=lambda s: -result["first"][s])
        best.setdefault(size, set(ranked[:10]))
        results.append(result)
        show(result)
        report = {f"{label} | {dt}": r for (label, dt), r in reports.items()}
        (out / "matmul_tuned.json").write_text(json.dumps({"results": results, "compiled": report}, indent=1))
        print(f"  [{time.time() - began:.0f} s]")
    for dtype in options.dtypes:
        ratios = [
            max(f["ratio"] for side, f in r["final"].items() if side != "torch")
            for r in results if r.get("dtype") == dtype and "final" in r
        ]  # fmt: skip
        if ratios:
            print(f"{dtype}: best ratios {[round(r, 3) for r in ratios]}, geometric mean {statistics.geometric_mean(ratios):.3f}")


def supervise(options):
    """Run the tuning in a process of its own; if a side hangs or loses the CUDA context, go on without it."""
    (Path(options.out) / "matmul_tuned.json").unlink(missing_ok=True)
    without = list(options.without)
    for _ in range(6):
        STATE.write_text("{}")
        command = [sys.executable, __file__, "--worker", "--seconds", str(options.seconds), "--began", str(options.began)]
        command += ["--out", options.out, "--jobs", str(options.jobs), "--sizes", *map(str, options.sizes)]
        command += ["--dtypes", *options.dtypes, "--without", *without]
        code = subprocess.run(command).returncode
        guilty = json.loads(STATE.read_text() or "{}").get("label")
        if code == 0 or time.time() - options.began > options.seconds - 20:
            break
        print(f"the process ended with {code}; going on without {guilty!r}", flush=True)
        if guilty is None:
            break
        without.append(guilty)


if __name__ == "__main__":
    main()
