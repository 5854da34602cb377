# SPDX-License-Identifier: Apache-2.0
"""What a host function takes, as one entry of a table, and the calls that follow: which it must refuse, which serve."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch

# How a refusal reads where an entry says nothing else: it names the argument, and says what came and what to pass.
READS = {
    "dtype": "{dtype} is not supported; use one of",
    "alike": "{dtype}",
    "device": "{name} is on meta",
    "devices": "meta",
    "sparse": r"{name} (is|has layout) torch\.sparse_coo.*pass {name}\.to_dense\(\)",
    "negated": r"{name} is negated lazily; pass {name}\.resolve_neg\(\)",
    "gradient": r"{name} requires a gradient.*torch\.no_grad\(\)",
    "strides": r"{name} has strides {strides}.*{name}\.contiguous\(\)",
    "bfloat16": r"interpreter \w+ (to )?bfloat16 wrongly",
    "compiled": "{name} is on (the CPU; move it to a GPU|cpu; kernels run on a GPU)",
    "option": "{name} must be .*got '?{value}",
}
DTYPES = (torch.bool, torch.int32, torch.float16, torch.float64, torch.complex64, torch.float8_e4m3fn)
LAYOUTS = {  # of a tensor of this shape, with its values except in the last
    "every second": lambda x: torch.stack([x, x], -1)[..., 0],
    "gaps": lambda x: torch.cat([x, x], -1)[..., : x.shape[-1]],
    "turned": lambda x: x.transpose(0, -1).contiguous().transpose(0, -1),
    "expanded": lambda x: x.flatten()[:1].expand(x.shape),
}


@dataclass(frozen=True)
class Host:
    """A host function, and what it takes.

    Attributes:
        function: It, or a function that calls it.
        given: Makes arguments that are served: small tensors on the CPU, and what else has no default.
        refuses: Names of ``READS``: of these rules, each is checked for every tensor that it is about.
        serves: "strides", or names of ``LAYOUTS``, where the result must be that of a contiguous copy.
        dtypes: What the first tensor may be of; those of its dtype in ``given`` must be alike.
        options: Values that an option must refuse, by its name.
        more: Other changes of what is given, and words of the refusal. A function is applied to what is given.
        reads: How a refusal reads, by rule or option, where it is not as in ``READS``.
        ways: The same function by other ways, such as its custom op.
        makes: Whether it returns a new tensor, and needs no GPU for that.
        second: How the refusal of a second gradient begins, of a function that has a first.
        keeps: What its backward needs: the name of an argument, or "result".
        kernel: The kernel that its module asks whether it is compiled, for the rule "compiled".
        on_gpu: Calls the function's checks with what ``as_if_compiled`` makes; they must pass.
    """

    function: Callable
    given: Callable[[], dict]
    refuses: str = ""
    serves: str = ""
    dtypes: tuple = ()
    options: dict = field(default_factory=dict)
    more: tuple = ()
    reads: dict = field(default_factory=dict)
    ways: tuple = ()
    makes: bool = True
    second: str = ""
    keeps: str = ""
    kernel: str = ""
    on_gpu: Callable | None = None

    def tensors(self) -> dict[str, torch.Tensor]:
        return {name: x for name, x in self.given().items() if isinstance(x, torch.Tensor)}

    def changed(self, changes: dict) -> dict:
        given = self.given()
        return given | {name: to(given.get(name)) if callable(to) else to for name, to in changes.items()}


def layouts_of(x: torch.Tensor) -> list[str]:
    """Return the names of the layouts in which a tensor of this shape is not contiguous."""
    return [name for name, lay in LAYOUTS.items() if x.ndim and not lay(x).is_contiguous()]


def cases(host: Host) -> Iterator[tuple[str, str, dict, dict]]:
    """Yield a label, a rule, how the arguments are changed, and what its refusal must name."""
    tensors = host.tensors()
    first, *_ = [*tensors, ""]
    alike = [name for name, x in tensors.items() if x.dtype == tensors[first].dtype]
    of = lambda names, change: dict.fromkeys(names, change)
    for rule in host.refuses.split():
        if rule == "dtype":
            for dtype in DTYPES:
                if dtype not in host.dtypes:
                    yield f"{rule} {dtype}", rule, of(alike, lambda x, d=dtype: x.to(d)), {"dtype": dtype}
        elif rule == "alike":
            for name in alike[1:]:
                dtype = torch.float16 if tensors[name].dtype != torch.float16 else torch.float32
                yield f"{rule} {name}", rule, {name: lambda x, d=dtype: x.to(d)}, {"name": name, "dtype": dtype}
        elif rule == "bfloat16":
            yield rule, rule, of(alike, lambda x: x.bfloat16()), {}
        elif rule in ("device", "compiled"):
            change = (lambda x: x.to("meta")) if rule == "device" else (lambda x: x)
            yield rule, rule, of(tensors, change), {"name": first}
        elif rule == "strides":
            for name, x in tensors.items():
                for layout in (each for each in layouts_of(x) if each not in host.serves.split()):
                    yield f"{rule} {name} {layout}", rule, {name: LAYOUTS[layout]}, {"name": name}
        else:
            change = {
                "devices": lambda x: x.to("meta"),
                "sparse": lambda x: x.to_sparse(),
                "negated": lambda x: torch._neg_view(x),
                "gradient": lambda x: x.clone().requires_grad_(),
            }[rule]
            for name, x in tensors.items():
                if x.is_floating_point() or rule in ("devices", "sparse"):
                    yield f"{rule} {name}", rule, {name: change}, {"name": name}
    for option, values in host.options.items():
        for value in values:
            rule = option if option in host.reads else "option"
            yield f"{option} {value!r}", rule, {option: lambda _, v=value: v}, {"name": option, "value": value}
    for changes, words in host.more:
        yield words, "", changes, {"words": words}


def pattern_of(host: Host, rule: str, names: dict, arguments: dict) -> str:
    """Return what the refusal must match."""
    if not rule:
        return re.escape(names["words"])
    changed = arguments.get(names.get("name"))
    strides = changed.stride() if rule == "strides" else ""
    escaped = {name: re.escape(str(value)) for name, value in (names | {"strides": strides}).items()}
    return host.reads.get(rule, READS.get(rule)).format(**escaped)
