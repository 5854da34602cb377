# SPDX-License-Identifier: Apache-2.0
"""Code and outputs that are wider than the screen wrap: each long line on its own, so that what comes of it stands
further in.

A short line fits a phone and stays as it is. What is set in columns would lose them: those lines stay whole, on a phone
with less space between the columns, in letters as small as it takes and a screen can show, and scroll if that is not
enough. A last column of words may wrap below itself, and a sentence between such lines, too. A sketch that was typed,
```text, stays whole and scrolls, unless it is code with a gap to fill. theme/assets/code.css does all that. A short
call or subscript, such as x.stride(0), stays in one line with its arguments. What is long and has no blank breaks
behind a bracket that opens, before the dot behind one that closes, and in a long name after its dots.
"""

import html
import itertools
import re

FITS = 40  # columns in columns, on a screen of 320 px
WRAPS = 28  # columns of code that fit a narrow one even within a list or what unfolds; a longer line may wrap
IN = 4  # columns that what comes of a line stands further in than the line
PRE = r'<pre(?: id="__code_\w+"| class="(?:output|jp-OutputArea-output)[^>]*)?>'  # not the code of an explorer
SKETCH = '<div class="language-text '
CODE = re.compile(r"@\w|(?:import|from|def) \w")  # how a line begins that is no drawing
BLOCK = re.compile(rf"(?s)((?:{SKETCH}[^>]*>)?{PRE}(?:<span></span>|<nav\b.*?</nav>)*)<code([^>]*)>(.*?)</code></pre>")
EARLY = 20  # columns before the last one, which leave enough of a phone to wrap it in
COLUMNS = re.compile(r"\S {2,}\S")
NUMBER = re.compile(r" *([-−+.]?\d|-?inf|nan|$)")
WORDS = re.compile(r"[A-Za-z]{2}.* ")
KEPT = '<span class="kept">'
MOST = 24  # columns of a call that stays in one line
SCREEN = 38  # columns of code on the narrowest screen, of which 20 at most are for what a line stands further in
RUN = 26  # columns without a blank that need a place to break
PIECE = re.compile(r'<span class="(\w*)">([^<]*)</span>|([^<]+)|<[^>]*>')  # in color, plain, or the mark of a line
LETTER = re.compile(r"&#?\w+;|.")
NAME = re.compile(r"(?<![\w.])-?[A-Za-z_]\w*(?:\.\w+)*")
MEMBER = re.compile(r"(?:\.\w+)+")
SIGN = re.compile(r"(?<!\w)-\w+")  # a difference has spaces
MARKED = re.compile(r'(<span class="hll">[^\n]*)\n</span>')  # a line of hl_lines, with its end inside the mark
BELOW = re.compile(r"\s*[\^~─-]+\s*")  # marks columns of the line above


def with_wrapping(page: str) -> str:
    """Return HTML in which each block of code is ready to wrap."""
    return BLOCK.sub(_wrapping, page)


def _wrapping(block: re.Match) -> str:
    begin, attributes, code = block.groups()
    code = MARKED.sub(r"\1</span>\n", code)
    lines = code.split("\n")
    texts = [html.unescape(re.sub(r"<[^>]+>", "", line)) for line in lines]
    drawn = begin.startswith(SKETCH) and not any(map(CODE.match, texts))
    columns = max(map(len, texts))
    typed = "<" in code or (begin.startswith(SKETCH) and not drawn)  # in a language, which has been colored if it runs
    if columns <= WRAPS or (columns <= FITS and (drawn or (not typed and in_columns(texts)))):
        return block[0]
    if drawn:
        return f'{begin}<code{attributes} class="in-columns">{code}</code></pre>'
    if not typed and in_columns(texts):
        return f"{begin}<code{attributes}{_in_columns(texts)}</code></pre>"
    return f"{begin}<code{attributes}>{_joined(zip(lines, texts, strict=True))}</code></pre>"


def in_columns(lines: list[str]) -> bool:
    """Return whether a text is set in columns: two lines with gaps, or one that marks columns of the line above."""
    gaps = sum(bool(COLUMNS.search(line.strip())) for line in lines)
    return gaps > 1 or any(BELOW.fullmatch(line) for line in lines)


def _in_columns(texts: list[str]) -> str:
    """Return the end of a tag, and the lines of a text in columns; what may wrap, and what may go, is in spans."""
    marked = {at for i, text in enumerate(texts) if BELOW.fullmatch(text) for at in (i - 1, i)}
    rows = {i for i, text in enumerate(texts) if i not in marked and COLUMNS.search(text.strip())}
    spare = set() if marked else _spare([texts[i] for i in sorted(rows)])
    joined, columns, kept = "", FITS, FITS
    for i, text in enumerate(texts):
        without = {at for at in spare if at < len(text)} if i in rows else set()
        line, last = _without(text, without), _last_column(text, without) if i in rows else None
        if (width := len(text) - len(without)) <= FITS or i in marked or (i in rows and not last):
            columns, kept = max(columns, len(text)), max(kept, width)
            joined += f"{line}\n"
        else:
            joined += _long(line, *(last or [_indent(text)]))
    return f' class="in-columns" style="--columns:{columns};--kept:{kept}">{_end(joined)}'


def _spare(rows: list[str]) -> set[int]:
    """Return the columns that are blank in every row, but for one before numbers and two before words."""
    spare, width = set(), max(map(len, rows), default=0)
    shade = "".join("x" if any(row[at : at + 1].strip() for row in rows) else " " for at in range(width))
    for gap in re.finditer("(?<=x) +", shade):
        numbers = all(NUMBER.match(row[gap.end() :]) for row in rows)
        spare |= {*range(gap.start(), gap.end() - (1 if numbers else 2))}
    return spare


def _without(text: str, spare: set[int]) -> str:
    """Return a line as HTML, with what may go from it in spans."""
    parts = itertools.groupby(enumerate(text), key=lambda letter: letter[0] in spare)
    texts = [(is_spare, html.escape("".join(letter for _, letter in part), quote=False)) for is_spare, part in parts]
    return "".join(f'<span class="spare">{part}</span>' if is_spare else part for is_spare, part in texts)


def _last_column(text: str, spare: set[int]) -> tuple[int, int] | None:
    """Return where the last column of a line begins, without what may go and with it, if it may wrap there.

    It has words, and begins early enough.
    """
    begin = [gap.end() - 1 for gap in COLUMNS.finditer(text)][-1]
    early = begin - sum(at < begin for at in spare)
    return (early, begin) if early <= EARLY and WORDS.search(text[begin:]) else None


def _indent(text: str) -> int:
    """Return where what comes of a line stands: twice as far in where a block begins, whose lines stand there, too."""
    return len(text) - len(text.lstrip()) + IN * (2 if text.rstrip().endswith(":") else 1)


def _joined(lines) -> str:
    """Return lines, the long ones in a span with its newline: it becomes a block, behind which no other one follows."""
    joined = ""
    for line, text in lines:
        joined += f"{line}\n" if len(text) <= WRAPS else _long(_breakable(line, _indent(text)), _indent(text))
    return _end(joined)


def _breakable(line: str, by: int) -> str:
    """Say in a line of code where it may break, and where not: in a short call, or behind a sign. ``by``: as below."""
    if "<span" not in line:
        return line
    text, before, behind, after = _places(line)
    kept = _calls(text, SCREEN - min(by, 20) - 2)  # two for the bracket and comma that stay with its end
    within = {at for begin, end in kept for at in range(begin, end)}
    kept += [sign.span() for sign in SIGN.finditer(text) if sign.start() not in within]
    put = [(after[end - 1], 0, "</span>") for _, end in kept] + [(before[begin], 2, KEPT) for begin, _ in kept]
    run = "".join("x" if at in within else letter for at, letter in enumerate(text))
    for long in re.finditer(rf"\S{{{RUN},}}", run):
        part = [at for at in range(*long.span()) if at not in within]
        opening = [at for at in part if text[at] == "(" and text[at + 1 : at + 2] not in set(") ")]
        chained = [at for at in part if text[at] == "." and text[at - 1] in ")]"]
        breaks = [*(after[at] for at in opening), *(before[at] for at in chained)]
        if (name := min([*opening, *chained], default=long.end())) - long.start() >= RUN:
            breaks += [behind[at] for at in part if text[at] == "." and at < name]
        put += [(at, 1, "<wbr>") for at in breaks]
    for at, _, tag in sorted(put, reverse=True):
        line = line[:at] + tag + line[at:]
    return line


def _places(line: str) -> tuple[str, list[int], list[int], list[int]]:
    """Return a line's text, and where in the HTML each letter's word begins, the letter ends, and its word ends.

    A word is what has one color. A string is one name, and a comment is blanks.
    """
    text, before, behind, after = "", [], [], []
    for piece in PIECE.finditer(line):
        kind, colored, plain = piece.groups()
        inside = colored or plain or ""
        for letter in LETTER.finditer(inside):
            ends = piece.start(3 if plain else 2) + letter.end()
            first, last = (piece.start() + letter.start(), ends) if plain else piece.span()
            text += {"c": " ", "s": "a"}.get((kind or "-")[0]) or html.unescape(letter[0])
            before.append(first)
            behind.append(last if letter.end() == len(inside) else ends)
            after.append(last)
    return text, before, behind, after


def _calls(text: str, room: int) -> list[tuple[int, int]]:
    """Return where short calls and subscripts stand that have blanks; a subscript may take all of the ``room``."""
    calls, at = [], 0
    while name := NAME.search(text, at):
        at = end = name.end()
        while end and end - name.start() <= (room if text[end - 1] == "]" else min(MOST, room)):
            at = end
            member = MEMBER.match(text, end)
            end = member.end() if member else _closed(text, end)
        if " " in text[name.start() : at]:
            calls.append((name.start(), at))
    return calls


def _closed(text: str, at: int) -> int:
    """Return where the bracket that opens here has been closed, or 0."""
    depth = 0
    for end in range(at, len(text) if text[at : at + 1] in {*"(["} else at):
        depth += (text[end] in "([{") - (text[end] in ")]}")
        if not depth:
            return end + 1
    return 0


def _long(line: str, by: int, full: int | None = None) -> str:
    """``by``: how far in what comes of it stands; ``full``: where there is room for all gaps."""
    more = f";--full:{full}" if full and full != by else ""
    return f'<span class="long" style="--in:{by}{more}">{line}\n</span>'


def _end(joined: str) -> str:
    return joined.removesuffix("\n</span>") + "</span>" if joined.endswith("</span>") else joined[:-1]
