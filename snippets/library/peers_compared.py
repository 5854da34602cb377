# SPDX-License-Identifier: Apache-2.0
"""Each operation to copy beside torch's, for the options, shapes and dtypes of ``library/peers_cases.py``.

Each function makes tensors, calls ours and torch's, and returns whether results and gradients agree: with float64 if
they are small, else with float32. They disagree if an element is off by more than ``TOLERANCE`` of its size and of the
root mean square of its tensor; in 16 bits, if it is also off by more than twice as much as torch is in 16 bits, which
is how FlashAttention's own tests judge.
"""

import functools
import itertools
import math
import random

import torch
import triton

from snippets.library import attention as attentions
from snippets.library import cross_entropy as losses
from snippets.library import matmul as products
from snippets.library import norms, rope, scan, swiglu, topk
from snippets.library.decoding import decode_attention

F16, BF16, F32, FP8 = torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn
TOLERANCE = {F32: 1e-4, F16: 5e-3, BF16: 3e-2, FP8: 3e-2}


class Refused(Exception):
    """Our function does not serve this, and says so."""


# --8<-- [start:compare]
def agrees(ours, exact, *tensors, gradient=True, tolerance=None, floor=0.0, narrow=None) -> bool:
    """Return whether results and gradients of two functions of these tensors agree.

    ``floor`` is for gradients that are 0 but for rounding: so much of the largest counts as the size of each.
    ``narrow`` is the dtype that ours computes in, if it isn't that of the tensors, as under autocast.
    """
    wide = torch.float64 if sum(x.numel() for x in tensors) <= 2**20 else torch.float32
    narrow = narrow or max((x.dtype for x in tensors), key=TOLERANCE.get)
    tolerance = tolerance or TOLERANCE[narrow]
    try:
        found, grads = results(ours, tensors, gradient)
    except (TypeError, ValueError) as error:
        raise Refused(str(error)) from error
    right, _ = results(exact, [x.to(wide) for x in tensors], gradient, grads)
    if [x.shape for x in found] != [x.shape for x in right]:
        return False
    least = floor and floor * max(size(x) for x in right if x.numel())
    wrong = [i for i, pair in enumerate(zip(found, right, strict=True)) if not near(*pair, tolerance, least)]
    if not wrong or tolerance < TOLERANCE[F16]:
        return not wrong
    rounded, _ = results(exact, [x.to(narrow) for x in tensors], gradient, grads)
    return all(farthest(found[i], right[i]) <= 2 * farthest(rounded[i], right[i]) for i in wrong)


def results(function, tensors, gradient, grads=()):
    """Return the results and the gradients of a function, and what flowed back: ``grads``, or else random ones."""
    leaves = [x.detach().requires_grad_(bool(gradient)) for x in tensors]
    outs = function(*leaves)
    outs = outs if isinstance(outs, tuple) else (outs,)
    differ = [out for out in outs if out.requires_grad]
    if grads and [x.shape for x in grads] != [x.shape for x in differ]:
        return [], grads
    grads = [x.to(out.dtype) for x, out in zip(grads or map(torch.randn_like, differ), differ, strict=True)]
    found = torch.autograd.grad(differ, leaves, grads, materialize_grads=True) if differ else ()
    return [*(out.detach() for out in outs), *found], grads


def near(found, right, tolerance, least=0.0) -> bool:
    """Return whether a tensor is right, to some of each element and of their root mean square."""
    if not right.numel() or not found.is_floating_point():
        return torch.equal(found, right)
    scale = right.abs() + max(size(right), least)
    return bool(((found.to(right.dtype) - right).abs() <= tolerance * scale).all())


def size(x) -> float:
    return x.square().mean().sqrt().item()


def farthest(found, right) -> float:
    return (found.to(right.dtype) - right).abs().max().item()
# --8<-- [end:compare]


def numbers(*shape, dtype=F32, scale=1.0):
    """Return normal numbers, on the GPU or for the interpreter on the CPU."""
    return (torch.randn(shape, device=device()) * scale).to(dtype)


def whole(low, high, shape):
    return torch.randint(low, high, shape, device=device())


def device():
    return "cuda" if isinstance(attentions.attention_kernel, triton.JITFunction) else "cpu"


# --8<-- [start:operations]
def attention(batch, heads, keys, head_dim, dtype, queries=None, kv_heads=None, causal=False, window=None, alibi=False,
              softcap=None, sinks=False, scale=None, packed=False, cu_seqlens=None):  # fmt: skip
    """Compare attention: of a batch, or of sequences packed one after another, some a little shorter than others."""
    queries = queries or keys
    options = {"causal": causal, "softcap": softcap, "scale": scale, "window": (None, None)}
    if window:  # True: some to both sides; a number: so many up to itself
        options["window"] = (keys // 3, keys // 5) if window is True else (window - 1, None)
    if alibi:
        options["alibi_slopes"] = torch.rand(*([] if packed else [batch]), heads, device=device()) * 0.3
    if not packed:
        shapes = (batch, queries, heads), (batch, keys, kv_heads or heads), (batch, keys, kv_heads or heads)
        tensors = [numbers(*shape, head_dim, dtype=dtype).transpose(1, 2) for shape in shapes]
        ours = attentions.attention
        exact = lambda *given, **more: attentions.in_torch(*given, **more)[0]
    else:
        lengths = [[n - random.randrange(min(n, 20)) for _ in range(batch)] for n in (queries, keys)]
        ends = [[0, *itertools.accumulate(each)] for each in lengths] if cu_seqlens is None else [cu_seqlens] * 2
        shapes = (ends[0][-1], heads), (ends[1][-1], kv_heads or heads), (ends[1][-1], kv_heads or heads)
        tensors = [numbers(*shape, head_dim, dtype=dtype) for shape in shapes]
        cu = [torch.tensor(each, dtype=torch.int32, device=device()) for each in ends]
        ours = lambda q, k, v, **more: attentions.attention_variable(q, k, v, *cu, **more)
        exact = functools.partial(one_by_one, *ends)
    if sinks:
        tensors.append(numbers(heads))
    slopes = options.pop("alibi_slopes", None)

    def run(function, q, k, v, s=None):
        kept = slopes if slopes is None or function is ours else slopes.to(q.dtype)
        return function(q, k, v, sinks=s, alibi_slopes=kept, **options)

    sides = functools.partial(run, ours), functools.partial(run, exact)
    return agrees(*sides, *tensors, tolerance=TOLERANCE[dtype], floor=0.1)


def one_by_one(ends_q, ends_k, q, k, v, **options):
    """Compute the attention of each packed sequence by torch."""
    cut = lambda x, ends: [x[a:b].transpose(0, 1)[None] for a, b in itertools.pairwise(ends)]
    parts = zip(cut(q, ends_q), cut(k, ends_k), cut(v, ends_k), strict=True)
    return torch.cat([attentions.in_torch(*each, **options)[0][0].transpose(0, 1) for each in parts])


def decoding(heads, head_dim, dtype, batch=None, queries=None, keys=None, sequences=None, kv_heads=None,
             value_dim=None, causal=False, window=None, alibi=False, softcap=None, page_size=None, pages=None,
             cache=None, q_dtype=None):  # fmt: skip
    """Compare queries to a cache, in pages or not; queries are packed if there are lengths of sequences."""
    lengths = sequences or [(queries, random.randint(1, keys)) for _ in range(batch)]
    keys, kv_heads = max([k for _, k in lengths] + [keys or 0]), kv_heads or heads
    options = {"causal": causal, "softcap": softcap, "window": (None, None)}
    if window:
        options["window"] = (keys // 3, keys // 5) if window is True else (window - 1, None)
    slopes = torch.rand(len(lengths), heads, device=device()) * 0.3 if alibi else None
    if page_size:
        columns = triton.cdiv(keys, page_size)
        table = whole(0, pages or columns * len(lengths), (len(lengths), columns)).int()
        shape = (pages or columns * len(lengths), page_size, kv_heads)
        rows = lambda x, i: x[table[i]].flatten(0, 1)
    else:
        table, shape = None, (len(lengths), keys, kv_heads)
        rows = lambda x, i: x[i]
    k, v = (numbers(*shape, width, dtype=dtype).to(cache or dtype) for width in (head_dim, value_dim or head_dim))
    ends = [0, *itertools.accumulate(q for q, _ in lengths)]
    q = numbers(ends[-1], heads, head_dim, dtype=dtype).to(q_dtype or dtype)
    scales = {name: torch.tensor(s, device=device()) for name, s in (("k_scale", 0.5), ("v_scale", 0.25)) if cache}
    more = options | scales | {"page_table": table, "alibi_slopes": slopes}
    more["lengths"] = torch.tensor([k for _, k in lengths], device=device())
    if sequences:
        more |= {"cu_seqlens_q": torch.tensor(ends, device=device()), "max_seqlen_q": max(n for n, _ in lengths)}

    def ours(q):
        given = (k, v) if page_size else (k.transpose(1, 2), v.transpose(1, 2))
        if sequences:
            return decode_attention(q, *given, **more)
        return decode_attention(q.view(batch, queries, *q.shape[1:]).transpose(1, 2), *given, **more).transpose(1, 2)

    def exact(q):
        outs = []
        for i, (begin, (_, length)) in enumerate(zip(ends, lengths, strict=False)):
            kept = [rows(x, i)[:length].to(q.dtype).transpose(0, 1)[None] for x in (k, v)]
            kept = [x * scale for scale, x in zip(scales.values() or (1, 1), kept, strict=True)]
            each = options | ({"alibi_slopes": slopes[i]} if alibi else {})
            out, _ = attentions.in_torch(q[begin : ends[i + 1]].transpose(0, 1)[None], *kept, **each)
            outs.append(out[0].transpose(0, 1))
        return torch.cat(outs) if sequences else torch.stack(outs)

    return agrees(ours, exact, q, gradient=False, tolerance=TOLERANCE[cache or dtype])


def targets(rows, columns, ignore_index):
    """Return a column for each row, and for some of them ``ignore_index``."""
    return torch.where(torch.rand(rows, device=device()) < 0.2, ignore_index, whole(0, columns, (rows,)))


def loss(rows, columns, dtype, inner=None, bias=False, class_weight=False, autocast=None, ignore_index=-100,
         with_z_loss=False, with_accuracy=False, with_predicted=False, gradient=True, **options):  # fmt: skip
    """Compare cross-entropy of logits or, with ``inner``, of what comes before the last linear layer."""
    target = targets(rows, columns, ignore_index)
    options |= {"ignore_index": ignore_index}
    options |= {"class_weight": torch.rand(columns, device=device()) + 0.1} if class_weight else {}
    asked = lambda **details: [details[name] for name, wanted in (("z", with_z_loss), ("predicted", with_predicted),
                               ("accuracy", with_accuracy)) if wanted]  # fmt: skip
    if not inner:
        tensors, linear, function = [numbers(rows, columns, dtype=dtype)], lambda x: x, losses.cross_entropy
    else:
        tensors = [numbers(rows, inner, dtype=dtype), numbers(columns, inner, dtype=dtype, scale=inner**-0.5)]
        tensors += [numbers(columns, dtype=dtype)] if bias else []
        linear = torch.nn.functional.linear
        function = lambda x, w, *rest, **more: losses.linear_cross_entropy(x, w, rest[-1], *rest[:-1], **more)

    def ours(*tensors):
        with torch.autocast(device(), autocast, enabled=bool(autocast)):
            found = function(*tensors, target, details=True, **options)
        return found.loss, *asked(z=found.z_loss, predicted=found.predicted, accuracy=found.accuracy)

    def exact(*tensors):
        logits, given = linear(*tensors), {name: x for name, x in options.items() if name != "chunk"}
        if class_weight:
            given["class_weight"] = given["class_weight"].to(logits.dtype)
        total = losses.in_torch(logits, target, **given)[0]
        alone = losses.in_torch(logits, target, **given | {"z_loss": 0.0})[0] if with_z_loss else total
        predicted = torch.where(target == ignore_index, -1, logits.detach().argmax(-1))
        accuracy = ((predicted == target).sum() / (target != ignore_index).sum()).to(logits.dtype)
        return total, *asked(z=(total - alone).detach(), predicted=predicted, accuracy=accuracy)

    return agrees(ours, exact, *tensors, gradient=gradient, narrow=autocast)


def norm(rows, columns, dtype, weight_dtype=None, residual_dtype=None, layer=False, weight=True, bias=False, heads=None,
         strided=False, gradient=True, autocast=None, eps=1e-6, **options):  # fmt: skip
    """Compare an RMS or layer norm, perhaps of a sum, perhaps with a weight for each head."""
    shape = (heads, columns) if heads else (columns,)
    tensors = {"x": numbers(rows, *shape[:-1], columns * (1 + strided), dtype=dtype)[..., :columns]}
    if residual_dtype:
        tensors["residual"] = numbers(rows, *shape, dtype=residual_dtype)
    if weight:
        tensors["weight"] = numbers(*shape, dtype=weight_dtype or dtype)
    if bias:
        tensors["bias"] = numbers(*shape, dtype=weight_dtype or dtype)
    kind = ("add_" if residual_dtype else "") + ("layer_norm" if layer else "rms_norm")

    def ours(*given):
        with torch.autocast(device(), autocast, enabled=bool(autocast)):
            return getattr(norms, kind)(**dict(zip(tensors, given, strict=True)), eps=eps, **options)

    def exact(*given):
        kept = {name: x for name, x in options.items() if name == "offset"}
        out, total = norms.in_torch(**dict(zip(tensors, given, strict=True)), layer=layer, eps=eps, **kept)
        return (out, total) if residual_dtype else out

    return agrees(ours, exact, *tensors.values(), gradient=gradient, narrow=autocast)


def rotary(batch, tokens, heads, head_dim, dtype, kv_heads=None, rotary_dim=None, table_dtype=None, offset=None,
           positions=False, tables="shared", packed=False, strided=False, of_one=False, left_pad=False,
           gradient=True, **options):  # fmt: skip
    """Compare RoPE: of tokens in order, from offsets, at any positions, or of sequences packed one after another."""
    half, kv_heads = ((rotary_dim or head_dim) + 1) // 2, heads if kv_heads is None else kv_heads
    planes = len(options.get("sections", [0]))
    angles = torch.rand(2 * tokens, half, device=device()) * 2 * math.pi
    q, k = (numbers(batch, tokens, n, head_dim + 64 * strided, dtype=dtype)[..., :head_dim] for n in (heads, kv_heads))
    if of_one:
        q, k = torch.cat([q, k, k], dim=2).split([heads, kv_heads, kv_heads], dim=2)[:2]
    at = whole(0, 2 * tokens, (planes, batch, tokens))
    if tables == "of each":  # as transformers make them: of each sequence, and each number twice
        angles = angles[at if planes > 1 else at[0]]
    if tables != "shared":
        angles, options["repeated"] = torch.cat([angles, angles], -1), "halves"
    cos, sin = (function(angles).to(table_dtype or dtype) for function in (torch.cos, torch.sin))
    if packed:
        q, k = q.flatten(0, 1), k.flatten(0, 1)
        positions = torch.cat([torch.arange(tokens, device=device()) for _ in range(batch)])
        if offset:
            positions = positions + whole(0, tokens, (batch, 1)).expand(-1, tokens).flatten()
    elif positions:
        options["positions"] = at if planes > 1 else at[0]
    if left_pad:
        pads = torch.arange(batch, device=device()) * (tokens // (2 * batch))
        options["offset"] = -pads
        real = (torch.arange(tokens, device=device()) >= pads[:, None])[..., None, None]
    elif offset and not packed:
        options["offset"] = 5 if offset == "number" else whole(0, tokens, (batch,))
    if packed:
        options["positions"] = positions
    if options.get("heads_first"):
        q, k = q.transpose(1, 2), k.transpose(1, 2)
    tensors = [q, k] if kv_heads else [q]

    def run(function, q, k=None):
        if options.get("in_place"):
            q, k = q.clone(), None if k is None else k.clone()
        tables = (cos, sin) if function is rope.rope else (cos.to(q.dtype), sin.to(q.dtype))
        outs = function(q, k, *tables, **options)
        outs = outs if isinstance(outs, tuple) else (outs,)
        return tuple(torch.where(real, out, 0) for out in outs) if left_pad else outs

    def exact(q, k, cos, sin, *, in_place=None, **more):
        if left_pad:
            more["offset"] = more["offset"].clamp(min=0) * 0
            more["positions"] = (torch.arange(tokens, device=device()) - pads[:, None]).clamp(min=0)
        return rope.in_torch(q, k, cos, sin, **more)

    return agrees(functools.partial(run, rope.rope), functools.partial(run, exact), *tensors, gradient=gradient)


def gate(rows, columns, dtype, activation="silu", gated=True, one=False, strided=False, gradient=True, **options):
    """Compare SwiGLU or a relative, of two tensors or of one, or an activation alone."""
    if not gated:
        ours = lambda x: swiglu.activate(x, activation, **options)
        exact = lambda x: swiglu.in_torch(x, activation=activation, gated=False, **options)
        return agrees(ours, exact, numbers(rows, columns, dtype=dtype), gradient=gradient)
    tensors = [numbers(rows, columns * (1 + strided), dtype=dtype)[:, :columns] for _ in "gu"]
    tensors = [torch.cat(tensors, -1)] if one else tensors
    ours, exact = (functools.partial(each, activation=activation, **options) for each in (swiglu.glu, swiglu.in_torch))
    return agrees(ours, exact, *tensors, gradient=gradient)


def product(rows, inner, columns, dtype, b_dtype=None, a_transposed=False, b_transposed=False, out_transposed=None,
            alpha=1.0, beta=0.0, c=False, number=None, out_dtype=None, gradient=False):  # fmt: skip
    """Compare a product, with operands and result along rows or along columns, perhaps added to something."""
    scale = (inner or 1) ** -0.25
    make = lambda m, n, swapped, dtype: numbers(*(n, m) if swapped else (m, n), dtype=dtype, scale=scale)
    flip = lambda x, swapped: x.mT if swapped else x
    a, b = make(rows, inner, a_transposed, dtype), make(inner, columns, b_transposed, b_dtype or dtype)
    tensors = [flip(a, a_transposed), flip(b, b_transposed)] + ([numbers(rows, columns, dtype=dtype)] if c else [])
    out = None if out_transposed is None else flip(make(rows, columns, out_transposed, dtype), out_transposed)
    wrap = torch.tensor if number == "tensor" else lambda x, **_: x
    more = {"out": out, "out_dtype": out_dtype}
    more |= {"alpha": wrap(alpha, device=device()), "beta": wrap(beta, device=device())} if c else {}
    ours = lambda a, b, *c: products.matmul(a, b, **more, **({"c": c[0]} if c else {}))
    exact = lambda a, b, c=None: alpha * (a @ b) + (0 if c is None else beta * c)
    return agrees(ours, exact, *tensors, gradient=gradient)


def layer(rows, inner, columns, dtype, bias_dtype=None, activation=None, gated=False, strided=False, gradient=True):
    """Compare a linear layer with bias, activation and gate."""
    tensors = [numbers(rows * (1 + strided), inner, dtype=dtype)[:: 1 + strided]]
    tensors += [numbers(columns * (1 + gated), inner, dtype=dtype, scale=(inner or 1) ** -0.5)]
    tensors += [numbers(columns * (1 + gated), dtype=bias_dtype)] if bias_dtype else []
    sides = (functools.partial(f, activation=activation, gated=gated) for f in (products.linear, products.in_torch))
    return agrees(*sides, *tensors, gradient=gradient)


def best(rows, columns, best, dtype, softmax=False):
    """Compare the largest of a row, their places, and their softmax."""
    ours, exact = (functools.partial(each, k=best, softmax=softmax) for each in (topk.topk, topk.in_torch))
    return agrees(ours, exact, numbers(rows, columns, dtype=dtype))


def sums(batch, tokens, columns, dtype, reverse=False):
    exact = lambda x: x.flip(1).cumsum(1).flip(1) if reverse else x.cumsum(1)
    return agrees(lambda x: scan.cumsum(x, 1, reverse=reverse), exact, numbers(batch, tokens, columns, dtype=dtype))


def recurrence(batch, tokens, columns, dtype):
    """Compare a gated recurrence from a state."""
    gates = torch.rand(batch, tokens, columns, device=device()).to(dtype)
    tensors = [gates, numbers(batch, tokens, columns, dtype=dtype), numbers(batch, columns, dtype=dtype)]
    ours, exact = ((lambda a, x, h, f=f: f(a, x, 1, initial=h)) for f in (scan.recurrence, scan.in_torch))
    return agrees(ours, lambda *given: exact(*given)[0], *tensors)
# --8<-- [end:operations]
