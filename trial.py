"""Trial: configurations of the product for few rows; steps ahead in Gluon."""
import functools, importlib, pathlib, re, time
import torch, triton
from snippets.models import block_scales_measured as m, block_scales_few_rows as f
from snippets.tools.benchmarking_cold import compare_in_rotation
t0 = time.time()
src = pathlib.Path("snippets/models/block_scales_gluon.py").read_text()
mods = {}
for a in (1, 2, 4, 8):
    pathlib.Path(f"snippets/models/bsg_{a}.py").write_text(src.replace("gl.constexpr(4)", f"gl.constexpr({a})"))
    mods[a] = importlib.import_module(f"snippets.models.bsg_{a}")
for n, k in m.WEIGHTS:
    torch.manual_seed(0)
    sides = {f"ahead {a}": (lambda q, s, w, ws, *_, mod=mod: mod.block_scaled_matmul(q, w, s, ws)) for a, mod in mods.items()}
    sides |= {x: m.SIDES[x] for x in ("ours", "torch", "one", "bfloat16")}
    t = compare_in_rotation(sides, functools.partial(m.operands, 4096, n, k), rounds=3, steady=True)
    print(4096, n, k, {s: f"{1e3 * v.median:.0f} {t['one'].median / v.median:.3f}" for s, v in t.items()}, round(time.time() - t0), flush=True)
for M in (16, 4, 64):
    for n, k in m.WEIGHTS:
        torch.manual_seed(0)
        sides, steps = {}, k // 128
        for bn in (64, 128):
            tiles = n // bn
            for parts in sorted({max(1, min(round(p * 132 / tiles), steps // 2)) for p in (1, 2, 3, 4)}):
                for stages in ((3, 6, 8) if M == 16 else (4, 6)):
                    rows = max(16, triton.next_power_of_2(M))
                    if (rows + bn) * 128 * stages > 220_000: continue
                    c = f.Config(rows, bn, parts, 4, stages)
                    sides[f"{bn} {parts} {stages}"] = lambda q, s, w, ws, *_, c=c: f.product(q, w, s, ws, torch.bfloat16, config=c)
        sides |= {x: m.SIDES[x] for x in ("ours", "one", "bfloat16")}
        if M % 16 == 0: sides["torch"] = m.SIDES["torch"]
        try:
            t = compare_in_rotation(sides, functools.partial(m.operands, M, n, k), rounds=1)
        except Exception as e:
            print(M, n, k, repr(e)[:300], flush=True); continue
        best = sorted(t.items(), key=lambda x: x[1].median)
        print(M, n, k, [f"{s}: {1e3 * v.median:.2f}" for s, v in best], round(time.time() - t0), flush=True)
