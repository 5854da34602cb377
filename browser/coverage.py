# SPDX-License-Identifier: Apache-2.0
"""Say what of Triton is not modeled, and where the model differs from Triton's interpreter or from a GPU, and why.

A page shows these; a test checks that each public name of ``triton.language`` is modeled or stands here.
"""

from dataclasses import dataclass

NOT_MODELED = {  # names of triton.language
    "condition": "a hint for the compiler's loops",
    "const": "only an annotation of pointers",
    "constexpr_type": "of the compiler",
    "dot_scaled": "microscaling formats need tensor cores of a kind; Triton's interpreter has it neither",
    "float8e4b15": "fp8", "float8e4nv": "fp8", "float8e4b8": "fp8", "float8e5": "fp8", "float8e5b16": "fp8",
    "inline_asm_elementwise": "PTX needs a GPU; Triton's interpreter has it neither",
    "map_elementwise": "Triton's interpreter has it neither",
    "slice": "of the compiler",
    "target_info": "there is no target",
}  # fmt: skip

# Names of torch and Triton that are not modeled, but look like one that is.
LIKE_MODELED = """
BoolTensor ByteTensor CharTensor Device Gradient HalfTensor IntTensor LongTensor ModuleDict ModuleList
TensorType abs_ acos acos_ acosh addmm addmm_ addmv addmv_ addr addr_ amp argwhere as_strided as_strided_
as_tensor asin asin_ asinh atan atanh atanh_ bilinear bmm byte cdouble ceil_ celu cfloat chalf clamp_
clamp_max clamp_max_ clamp_min clamp_min_ clip compile complex cos_ cosh cosh_ cross dsplit dstack dtype elu
elu_ erf_ erfc erfc_ exp2_ exp_ expm1 expm1_ fill fliplr flipud floor_ fmax fmin frexp functional geqrf ger
get_device glu gradient greater hardsigmoid hsplit hstack int1 int2 int3 int4 int5 int6 int7
is_anomaly_enabled is_autocast_cache_enabled is_autocast_cpu_enabled is_autocast_ipu_enabled
is_autocast_xla_enabled is_cpu is_nonzero is_shared is_sparse_csr is_tensor is_xla isin isneginf isposinf
ldexp ldexp_ log10 log1p log1p_ log2_ log_ logcumsumexp logical_and logical_and_ logical_or logical_or_
logical_xor logical_xor_ logit logsigmoid logspace median modules msort neg_ new normal os prelu qint32 qint8
quint8 randint_like random range real reciprocal_ relu6 relu_ renorm requires_grad reshape_as resize
resolve_conj round_ rrelu rrelu_ rsqrt_ rsub scatter_ scatter_add selu set_autocast_cache_enabled
set_autocast_cpu_enabled set_autocast_enabled set_autocast_ipu_enabled set_autocast_xla_enabled set_device sgn
sgn_ shape sigmoid_ signal sin_ sinc sinc_ sinh sinh_ smm sqrt_ square_ tan tan_ tanh_ tensordot tile
to_sparse transpose_copy types uint1 uint2 uint3 uint4 uint5 uint6 uint7 unsqueeze_copy vsplit vstack xlogy
zero_
"""


@dataclass(frozen=True)
class Difference:
    """``interpreter`` and ``gpu`` say whether the model does as they do; ``why``, in a sentence or two."""

    what: str
    interpreter: bool
    gpu: bool
    why: str


DIFFERENCES = [
    Difference(
        "bfloat16", interpreter=False, gpu=True,
        why="The interpreter keeps its bits as integers, so comparisons, sums and float64 go wrong, and it does "
        "not round ties to even. Here it rounds as a GPU does.",
    ),
    Difference(
        "a NaN in tl.maximum, tl.minimum, tl.clamp", interpreter=False, gpu=True,
        why="The interpreter always gives NaN. By Triton's own rule, and on a GPU, the number wins unless "
        "propagate_nan=tl.PropagateNan.ALL is given.",
    ),
    Difference(
        "tl.dot of float32 without input_precision", interpreter=False, gpu=True,
        why="A GPU multiplies only TF32's ten digits; the interpreter all of them. Here the others are cut off, "
        "as the coach of the exercises does.",
    ),
    Difference(
        "what only the compiler refuses", interpreter=False, gpu=True,
        why="A `break`, a lambda, a helper without @triton.jit, a global that is no constant, a name that changes its "
        "type in a loop or between two branches: the interpreter takes them, here they are refused.",
    ),
    Difference(
        "functions of triton.language outside of a kernel", interpreter=False, gpu=True,
        why="Only kernels have them; the interpreter lets some pass.",
    ),
    Difference(
        "and, or, not of blocks", interpreter=False, gpu=True,
        why="The compiler takes them lane by lane; the interpreter takes a block for true, so it keeps one of two "
        "masks.",
    ),
    Difference(
        "an `if` of a block, a chain of comparisons of blocks", interpreter=False, gpu=True,
        why="The compiler refuses them; the interpreter takes a block for true.",
    ),
    Difference(
        "a float argument of a kernel", interpreter=False, gpu=True,
        why="On a GPU it is a float32, so that float16 times it is float32. The interpreter leaves it a Python "
        "number, which adopts the other's dtype.",
    ),
    Difference(
        "reductions as methods, such as x.max()", interpreter=False, gpu=True,
        why="The compiler knows them, the interpreter not.",
    ),
    Difference(
        "`other=0.0` of a scalar load", interpreter=False, gpu=True,
        why="The interpreter takes a zero for none; what is loaded is 0 all the same, unless memory is poisoned.",
    ),
    Difference(
        "a reduction along an axis of a scalar", interpreter=False, gpu=True,
        why="The interpreter has no scalars but blocks of one element, so it lets that pass.",
    ),
    Difference(
        "xor_sum and tl.reduce along axis -1", interpreter=False, gpu=True,
        why="The interpreter takes a negative axis for a slice of the shape, and returns another shape.",
    ),
    Difference(
        ".T of three axes or more", interpreter=False, gpu=True,
        why="The compiler swaps the last two; the interpreter reverses all.",
    ),
    Difference(
        "what a lane that is off gets of an atomic", interpreter=False, gpu=True,
        why="Undefined; here 0.",
    ),
    Difference(
        "the sum of integers that wraps around to a scalar", interpreter=False, gpu=True,
        why="NumPy refuses to store it.",
    ),
    Difference(
        "~x of unsigned integers", interpreter=False, gpu=True,
        why="The interpreter raises an error: -1 is no unsigned number.",
    ),
    Difference(
        "tl.umulhi of signed integers", interpreter=False, gpu=True,
        why="The interpreter extends the sign; a GPU multiplies them as unsigned ones.",
    ),
    Difference(
        "tl.join, tl.interleave, tl.cat of two dtypes", interpreter=False, gpu=True,
        why="The compiler refuses them; the interpreter lets NumPy choose a dtype.",
    ),
    Difference(
        "tl.histogram of a number past the last bin", interpreter=False, gpu=True,
        why="The interpreter counts the number of bins itself as in the last one.",
    ),
    Difference(
        "tl.full of integers by a fraction", interpreter=False, gpu=True,
        why="The compiler refuses it; the interpreter cuts it off.",
    ),
    Difference(
        "sorting NaNs", interpreter=False, gpu=False,
        why="Their order is nobody's promise.",
    ),
    Difference(
        "exp, log, sin, … of float32", interpreter=False, gpu=False,
        why="Here they are right to the last bit, almost always; NumPy and a GPU's fast functions are off by one "
        "or two.",
    ),
    Difference(
        "the order of a float sum", interpreter=True, gpu=False,
        why="Along the last axis as NumPy adds (in pairs), along others one after the other; a GPU adds in a tree "
        "over threads. Only last bits differ.",
    ),
    Difference(
        "tl.dot's sums", interpreter=False, gpu=False,
        why="Each sum of products is exact to a float64 and rounded once, then the accumulator is added. BLAS and "
        "tensor cores have orders of their own. Only last bits differ.",
    ),
    Difference(
        "tl.fma", interpreter=True, gpu=False,
        why="The product is rounded, too. A GPU rounds once, and contracts x * y + z as well.",
    ),
    Difference(
        "a float that does not fit an integer", interpreter=True, gpu=False,
        why="Undefined; here mostly the lowest integer.",
    ),
    Difference(
        "an integer divided by 0", interpreter=True, gpu=False,
        why="Undefined on a GPU; here 0.",
    ),
    Difference(
        "booleans added", interpreter=True, gpu=False,
        why="True + True is True, as NumPy has it; bits wrap around on a GPU.",
    ),
    Difference(
        "programs", interpreter=True, gpu=False,
        why="One after the other, in order or at random; on a GPU many at a time.",
    ),
    Difference(
        "a lane between a tensor's elements, or past its end", interpreter=False, gpu=False,
        why="It raises an error, or is noted. Elsewhere it reads or writes whatever lies there.",
    ),
    Difference(
        "triton.autotune", interpreter=False, gpu=False,
        why="Nothing is timed: the first config, or each in turn, is taken.",
    ),
    Difference(
        "sums, means and products of torch", interpreter=False, gpu=False,
        why="Exact to a float64, then rounded once; torch's last bits differ. Random numbers are torch's to the "
        "bit, but for the last digits of randn.",
    ),
    Difference(
        "gradients of torch's own operations", interpreter=False, gpu=False,
        why="Not modeled: only torch.autograd.Function is.",
    ),
]  # fmt: skip
