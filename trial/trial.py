"""Trial: check NAME D CAUSAL | list | time"""
import itertools, json, math, os, sys, time
import torch
from trial import variants as m

V = {
    "waiting": dict(way="waiting"), "flying": dict(way="flying"), "spec": dict(way="specialized"),
    "turns": dict(way="turns"), "pers": dict(way="persistent"),
    "spec-l": dict(way="specialized", later=True), "turns-l": dict(way="turns", later=True),
    "pers-l": dict(way="persistent", later=True), "pers-l-p8": dict(way="persistent", later=True, poly=8),
    "pers-l-p16": dict(way="persistent", later=True, poly=16), "pers-l-p4": dict(way="persistent", later=True, poly=4),
    "spec-l-p8": dict(way="specialized", later=True, poly=8),
    "pers-l-o1": dict(way="persistent", later=True, order=1), "turns-l-o2": dict(way="turns", later=True, order=2),
    "pers-l-o2": dict(way="persistent", later=True, order=2),
    "turns-l-b3": dict(way="turns", later=True, buffers=3), "turns-l-g3": dict(way="turns", later=True, groups=3),
    "spec-l-g3": dict(way="specialized", later=True, groups=3),
    "flying-k64": dict(way="flying", block_k=64, buffers=3), "turns-l-k64": dict(way="turns", later=True, block_k=64, buffers=4),
}
def wanted(name, D, causal):
    if ("b3" in name or "g3" in name) and D == 128: return False
    if ("-o" in name) and not causal: return False
    if name == "flying-k64" and causal: return False
    if "p4" in name and D == 128: return False
    return True
ALL = [(n, D, c) for D in (64, 128) for c in (False, True) for n in V if wanted(n, D, c)]
def ref(q, k, v, causal):
    g = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(g, 1) for x in (k, v))
    s = q.double() @ k.double().mT / math.sqrt(q.shape[-1])
    if causal: s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool, device="cuda").triu(1), float("-inf"))
    return s.softmax(-1) @ v.double()
out = os.environ.get("OUT", "/tmp") + "/attn/"
def main():
    what = sys.argv[1]
    if what == "list":
        for n, D, c in ALL: print(n, D, int(c))
    if what == "check":
        n, D, c = sys.argv[2], int(sys.argv[3]), bool(int(sys.argv[4]))
        torch.manual_seed(0)
        worst = 0.0
        for b, h, kv, rows, keys in ((1, 2, 1, 300, 300), (2, 4, 4, 1000, 1000), (1, 1, 1, 1, 1), (3, 8, 2, 513, 513), (1, 4, 4, 200, 777), (2, 16, 16, 2048, 2048)):
            if c and rows != keys: continue
            q = torch.randn(b, h, rows, D, device="cuda", dtype=torch.bfloat16)
            k, v = (torch.randn(b, kv, keys, D, device="cuda", dtype=torch.bfloat16) for _ in range(2))
            for _ in range(2):
                o = m.attention(q, k, v, causal=c, **V[n])
                torch.cuda.synchronize()
            e = ref(q, k, v, c)
            err = (o.double() - e).abs().max().item() / e.abs().max().item()
            if not err < 0.01:
                print(f"WRONG {n} {D} {int(c)} at {b, h, kv, rows, keys}: {err}"); return
            worst = max(worst, err)
        print(f"ok {n} {D} {int(c)} {worst:.5f}")
    if what == "time":
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from snippets.library.attention import attention as lib
        found = [f for f in (out + "check.txt", "/tmp/attn_check.txt") if os.path.exists(f)]
        ok = {tuple(l.split()[1:4]) for l in open(found[0]) if l.startswith("ok")} if found else {(n, str(D), str(int(c))) for n, D, c in ALL}
        begin = time.time()
        def ms(f, n):
            for _ in range(n): f()
            a, z = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            a.record()
            for _ in range(n): f()
            z.record(); z.synchronize()
            return a.elapsed_time(z) / n
        for D, c, N in itertools.product((128, 64), (False, True), (8192, 2048, 16384)):
            q, k, v = (torch.randn(4, 16, N, D, device="cuda", dtype=torch.bfloat16) for _ in range(3))
            fl = 4 * 64 * N * N * D * (0.5 if c else 1)
            def cudnn():
                with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=c)
            sides = {"cudnn": cudnn, "library": lambda: lib(q, k, v, causal=c)}
            for n, o in V.items():
                if (n, str(D), str(int(c))) in ok and (N == 8192 or n in ("turns", "pers", "turns-l", "pers-l", "pers-l-o1", "pers-l-p8", "pers-l-p16", "turns-l-b3", "turns-l-o2", "pers-l-o2", "waiting", "flying")):
                    sides[n] = lambda o=o: m.attention(q, k, v, causal=c, **o)
            n = {2048: 60, 8192: 8, 16384: 3}[N]
            rates = {}
            for name, f in sides.items():
                try: rates[name] = fl / ms(f, n) / 1e9
                except Exception as e: print("failed", name, repr(e)[:200])
            for name, f in sides.items():
                if name in rates: rates[name] = max(rates[name], fl / ms(f, n) / 1e9)
            base = rates["cudnn"]
            print(f"## D={D} causal={c} N={N} ({time.time() - begin:.0f} s)")
            for name, r in rates.items(): print(f"  {name:12} {r:6.0f} {r / base:.3f}", flush=True)
main()
