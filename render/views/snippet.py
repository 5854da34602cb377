# SPDX-License-Identifier: Apache-2.0
"""A snippet as something to copy: the view ``snippet``, all of it from its file and its recordings.

What can be copied is a public host function that says what it raises; not so those in files that show a fault or
measure something, which say so by their names.
"""

import ast
import re
import textwrap
from dataclasses import dataclass

from markupsafe import Markup, escape

from recorder import recording
from recorder.project import RecorderError, Snippet, interpreted, read_text, relative
from recorder.reach import needed
from recorder.recording import Provenance
from render.code import download, file_id, highlighted
from render.config import repository
from render.links import place_of, way
from render.page import Page, serving
from render.templates import render
from render.views.registry import view

NOT_TO_COPY = re.compile(r"_(bug|measured|counted|compiled)$")
PARTS = ("Args", "Returns", "Raises")
RAISES = re.compile(r"^Raises\b|\berrors are those of\b", re.M)
WIDTH, INDENT = 76, " " * 4  # columns of a signature


@dataclass(frozen=True)
class Function:
    name: str
    signature: Markup
    says: Markup  # its first sentence
    parts: dict[str, Markup]  # what its docstring says of arguments, result and errors
    example: Markup  # its doctest; it may have none


@view
def snippet(page: Page, of: str | None = None) -> Markup:
    """Return what to know before copying a snippet. Raise ``RecorderError`` for one that is not to be copied.

    ``of`` defaults to the page's own snippet.
    """
    snippet = page.snippet(of)
    if NOT_TO_COPY.search(snippet.name):
        raise RecorderError(f"{snippet.name} is not to be copied: its name says that it shows a fault, or measures")
    tree = ast.parse(read_text(snippet.path))
    found = functions(tree)
    if not found:
        raise RecorderError(f"{snippet.name} has nothing to copy: no public host function that says what it raises")
    if not snippet.test.is_file():
        raise RecorderError(f"{snippet.name} has no test, so it is not to be copied")
    place, said = place_of(snippet), ast.get_docstring(tree) or ""
    if not serving() and (faults := page.problems(snippet)):
        raise RecorderError("; ".join(map(str, faults)))
    return render(
        "snippet.html",
        path=relative(snippet.path),
        idea=prose(sentence(said)),
        functions=found,
        shapes=prose(with_constants(paragraph(said, "Shapes"), tree)),
        dtypes=dtypes(tree),
        ran=ran(snippet),
        targets=targets(snippet),
        test=relative(snippet.test),
        test_link=repository(relative(snippet.test)),
        place=place,
        lesson=place and way(page.name, place.page),
        read=place and way(page.name, place.page, file_id(snippet)),
        download=download(snippet, page.name),
        module=relative(snippet.path).removesuffix(".py").replace("/", "."),
        needed=[relative(path) for path in needed(snippet.path)],
    )


def functions(tree: ast.Module) -> list[Function]:
    """The functions of a file that can be copied."""
    return [_function(node) for node in tree.body if isinstance(node, ast.FunctionDef) and _offered(node)]


def _offered(node: ast.FunctionDef) -> bool:
    jitted = any("jit" in ast.unparse(decorator) for decorator in node.decorator_list)
    return not node.name.startswith("_") and not jitted and bool(RAISES.search(ast.get_docstring(node) or ""))


def _function(node: ast.FunctionDef) -> Function:
    said = ast.get_docstring(node)
    example = re.search(r"(?ms)^>>> .*?(?=\n\n|\Z)", said)
    parts = {name: found for name in PARTS if (found := described(said, name))}
    return Function(
        node.name,
        highlighted(signature(node)),
        prose(sentence(said)),
        parts,
        highlighted(example[0]) if example else Markup(),
    )


def signature(node: ast.FunctionDef) -> str:
    """On one line, or with its arguments on lines of their own."""
    given, end = _arguments(node.args), f" -> {_short(node.returns)}" if node.returns else ""
    if len(line := f"{node.name}({', '.join(given)}){end}") <= WIDTH:
        return line
    whole = ", ".join(argument.replace(" ", "\xa0") for argument in given)  # which is not broken in two
    lines = textwrap.wrap(f"{whole},", WIDTH, initial_indent=INDENT, subsequent_indent=INDENT, break_long_words=False)
    return "\n".join([f"{node.name}(", *lines, f"){end}"]).replace("\xa0", " ")


def _arguments(given: ast.arguments) -> list[str]:
    """Each argument with its type and its default, and the signs between them."""
    places = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(places) - len(given.defaults)) + given.defaults
    found = [_argument(arg, default) for arg, default in zip(places, defaults, strict=True)]
    if given.posonlyargs:
        found.insert(len(given.posonlyargs), "/")
    if given.vararg or given.kwonlyargs:
        found.append(f"*{_argument(given.vararg, None)}" if given.vararg else "*")
    found += [_argument(arg, each) for arg, each in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    return found + ([f"**{_argument(given.kwarg, None)}"] if given.kwarg else [])


def _argument(arg: ast.arg, default: ast.expr | None) -> str:
    typed, equals = (f"{arg.arg}: {_short(arg.annotation)}", " = ") if arg.annotation else (arg.arg, "=")
    return f"{typed}{equals}{_short(default)}" if default else typed


def _short(part: ast.expr) -> str:
    return ast.unparse(part).replace("torch.Tensor", "Tensor")


def sentence(said: str) -> str:
    """The first sentence of a docstring."""
    first = " ".join(said.partition("\n\n")[0].split())
    return re.match(r"(?:``.*?``|.)*?(?:[.!?](?= [A-Z])|$)", first)[0]


def paragraph(said: str, name: str) -> str:
    """What follows ``name:`` in a docstring, up to the next of its kind."""
    found = re.search(rf"(?ms)^{name}:\s*(.*?)(?=^[A-Z][\w, ]*: |^[A-Z][\w ]+ ``|\n\n|\Z)", said)
    return " ".join(found[1].split()) if found else ""


def with_constants(text: str, tree: ast.Module) -> str:
    """A text that names constants of its file, each with its value."""
    assigned = [node for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)]
    values = {node.targets[0].id: ast.unparse(node.value) for node in assigned}
    return re.sub(r"``([A-Z][A-Z_]+)``", lambda name: f"``{name[1]} = {values.get(name[1], '…')}``", text)


def described(said: str, name: str) -> Markup:
    """A part of a docstring: text, or a list where each entry begins with a name and a colon."""
    found = re.search(rf"(?ms)^{name}:\n(.*?)(?=^\S|\Z)", f"{said}\n")
    if not found:
        return Markup()
    text = textwrap.dedent(found[1]).strip()
    entries = re.split(r"(?m)^(?=[A-Za-z_][\w, ]*: )", text)
    if name == "Returns" or entries[0]:
        return Markup("<p>{}</p>").format(prose(" ".join(text.split())))
    pairs = (" ".join(entry.split()).partition(": ")[::2] for entry in entries[1:])
    return Markup("<dl>{}</dl>").format(
        Markup().join(Markup("<dt><code>{}</code></dt><dd>{}</dd>").format(term, prose(text)) for term, text in pairs)
    )


def prose(text: str) -> Markup:
    """The little of reStructuredText that docstrings use, as HTML."""
    safe = str(escape(text))
    safe = re.sub(r"``(.+?)``", r"<code>\1</code>", safe)
    safe = re.sub(r":\w+:`~?(.+?)`", r"<code>\1</code>", safe)
    return Markup(re.sub(r"(?<![\w*])\*(\S(?:[^*]*\S)?)\*(?!\w)", r"<em>\1</em>", safe))


def dtypes(tree: ast.Module) -> dict[str, list[str]]:
    """The lists of dtypes that a file checks its arguments against, by their names."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name.endswith("DTYPES") and isinstance(node.value, ast.Tuple):
                found[name] = [ast.unparse(each).removeprefix("torch.") for each in node.value.elts]
    return found


def ran(snippet: Snippet) -> list[Provenance]:
    """Where it ran, GPUs first."""
    known = sorted(recording.devices(snippet), key=lambda device: (interpreted(device), device))
    return [recording.load(snippet, device).provenance for device in known]


def targets(snippet: Snippet) -> tuple[list[str], str]:
    """The kinds of GPU that all its launches were compiled for; and by which Triton."""
    if "cpu" not in recording.devices(snippet):
        return [], ""
    made = recording.load(snippet, "cpu")
    codes = [each.targets for each in made.compiled]
    sound = lambda target: all(target in each and not each[target].error for each in codes)
    return [target for target in (codes[0] if codes else {}) if sound(target)], made.provenance.compiler or ""
