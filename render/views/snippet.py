# SPDX-License-Identifier: Apache-2.0
"""The view ``snippet``: a snippet as something to copy, from its file and its recordings.

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
from render.code import download, file_id, highlight_python
from render.links import place_of, repository, way
from render.page import Page, serving
from render.templates import render
from render.views.registry import view

NOT_TO_COPY = re.compile(r"_(bug|measured|counted|compiled)$")
PARTS = ("Args", "Returns", "Raises")
RAISES = re.compile(r"^Raises\b|\berrors are those of\b", re.M)
WIDTH, INDENT = 70, " " * 4  # columns of a signature, in a frame


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
    offered = functions(tree)
    if not offered:
        raise RecorderError(f"{snippet.name} has nothing to copy: no public host function that says what it raises")
    if not snippet.test.is_file():
        raise RecorderError(f"{snippet.name} has no test, so it is not to be copied")
    place, docstring = place_of(snippet), ast.get_docstring(tree) or ""
    if not serving() and (faults := page.problems(snippet)):
        raise RecorderError("; ".join(map(str, faults)))
    return render(
        "snippet.html",
        path=relative(snippet.path),
        idea=prose(sentence(docstring)),
        functions=offered,
        shapes=prose(with_constants(paragraph(docstring, "Shapes"), tree)),
        dtypes=dtypes(tree),
        places=where_it_ran(snippet),
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
    """Return the functions of a file that can be copied."""
    return [_function(node) for node in tree.body if isinstance(node, ast.FunctionDef) and _offered(node)]


def _offered(node: ast.FunctionDef) -> bool:
    jitted = any("jit" in ast.unparse(decorator) for decorator in node.decorator_list)
    return not node.name.startswith("_") and not jitted and bool(RAISES.search(ast.get_docstring(node) or ""))


def _function(node: ast.FunctionDef) -> Function:
    docstring = ast.get_docstring(node)
    example = re.search(r"(?ms)^>>> .*?(?=\n\n|\Z)", docstring)
    parts = {name: text for name in PARTS if (text := docstring_part(docstring, name))}
    return Function(
        node.name,
        highlight_python(signature(node)),
        prose(sentence(docstring)),
        parts,
        highlight_python(example[0]) if example else Markup(),
    )


def signature(node: ast.FunctionDef) -> str:
    """Return a signature on one line, or with its arguments on lines of their own."""
    given, end = _arguments(node.args), f" -> {_short(node.returns)}" if node.returns else ""
    if len(line := f"{node.name}({', '.join(given)}){end}") <= WIDTH:
        return line
    whole = ", ".join(argument.replace(" ", "\xa0") for argument in given)  # which is not broken in two
    whole = whole.replace("*, ", "*,\xa0")  # the sign goes with what it is for
    lines = textwrap.wrap(f"{whole},", WIDTH, initial_indent=INDENT, subsequent_indent=INDENT, break_long_words=False)
    return "\n".join([f"{node.name}(", *lines, f"){end}"]).replace("\xa0", " ")


def _arguments(given: ast.arguments) -> list[str]:
    """Return each argument with its type and its default, and the signs between them."""
    places = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(places) - len(given.defaults)) + given.defaults
    arguments = [_argument(arg, default) for arg, default in zip(places, defaults, strict=True)]
    if given.posonlyargs:
        arguments.insert(len(given.posonlyargs), "/")
    if given.vararg or given.kwonlyargs:
        arguments.append(f"*{_argument(given.vararg, None)}" if given.vararg else "*")
    arguments += [_argument(arg, each) for arg, each in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    return arguments + ([f"**{_argument(given.kwarg, None)}"] if given.kwarg else [])


def _argument(arg: ast.arg, default: ast.expr | None) -> str:
    typed, equals = (f"{arg.arg}: {_short(arg.annotation)}", " = ") if arg.annotation else (arg.arg, "=")
    return f"{typed}{equals}{_short(default)}" if default else typed


def _short(part: ast.expr) -> str:
    return ast.unparse(part).replace("torch.Tensor", "Tensor")


def sentence(docstring: str) -> str:
    """Return the first sentence of a docstring."""
    first = " ".join(docstring.partition("\n\n")[0].split())
    return re.match(r"(?:``.*?``|.)*?(?:[.!?](?= [A-Z])|$)", first)[0]


def paragraph(docstring: str, name: str) -> str:
    """Return the text behind ``name:`` in a docstring, up to the next of its kind."""
    match = re.search(rf"(?ms)^{name}:\s*(.*?)(?=^[A-Z][\w, ]*: |^[A-Z][\w ]+ ``|\n\n|\Z)", docstring)
    return " ".join(match[1].split()) if match else ""


def with_constants(text: str, tree: ast.Module) -> str:
    """Return a text with the value of each constant of its file that it names."""
    assigned = [node for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)]
    values = {node.targets[0].id: ast.unparse(node.value) for node in assigned}
    return re.sub(r"``([A-Z][A-Z_]+)``", lambda name: f"``{name[1]} = {values.get(name[1], '…')}``", text)


def docstring_part(docstring: str, name: str) -> Markup:
    """Return a part of a docstring: text, or a list where each entry begins with a name and a colon."""
    match = re.search(rf"(?ms)^{name}:\n(.*?)(?=^\S|\Z)", f"{docstring}\n")
    if not match:
        return Markup()
    text = textwrap.dedent(match[1]).strip()
    entries = re.split(r"(?m)^(?=[A-Za-z_][\w, ]*: )", text)
    if name == "Returns" or entries[0]:
        return Markup("<p>{}</p>").format(prose(" ".join(text.split())))
    pairs = (" ".join(entry.split()).partition(": ")[::2] for entry in entries[1:])
    return Markup("<dl>{}</dl>").format(
        Markup().join(Markup("<dt><code>{}</code></dt><dd>{}</dd>").format(term, prose(text)) for term, text in pairs)
    )


def prose(text: str) -> Markup:
    """Return as HTML the little of reStructuredText that docstrings use."""
    safe = str(escape(text))
    safe = re.sub(r"``(.+?)``", r"<code>\1</code>", safe)
    safe = re.sub(r":\w+:`~?(.+?)`", r"<code>\1</code>", safe)
    return Markup(re.sub(r"(?<![\w*])\*(\S(?:[^*]*\S)?)\*(?!\w)", r"<em>\1</em>", safe))


def dtypes(tree: ast.Module) -> dict[str, list[str]]:
    """Return the lists of dtypes that a file checks its arguments against, by their names."""
    lists = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name.endswith("DTYPES") and isinstance(node.value, ast.Tuple):
                lists[name] = [ast.unparse(each).removeprefix("torch.") for each in node.value.elts]
    return lists


def where_it_ran(snippet: Snippet) -> list[Provenance]:
    """Return the provenance of each recording, GPUs first."""
    known = sorted(recording.devices(snippet), key=lambda device: (interpreted(device), device))
    return [recording.load(snippet, device).provenance for device in known]


def targets(snippet: Snippet) -> tuple[list[str], str]:
    """Return the kinds of GPU that all its launches were compiled for, and the version of Triton that did."""
    if "cpu" not in recording.devices(snippet):
        return [], ""
    made = recording.load(snippet, "cpu")
    codes = [each.targets for each in made.compiled]
    sound = lambda target: all(target in each and not each[target].error for each in codes)
    return [target for target in (codes[0] if codes else {}) if sound(target)], made.provenance.compiler or ""
