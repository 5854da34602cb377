# SPDX-License-Identifier: Apache-2.0
"""Code and outputs that are wider than the screen wrap: each long line on its own, so that what comes of it stands
further in.

A short line fits a phone and stays as it is. What is set in columns has less space between them on a phone, and letters
as small as it takes and a screen can show. A row that is still too long breaks between two columns, at the same one in
each row, and what comes of it stands below the second column. A table with names above its columns stays whole, and
scrolls. A last column of words wraps below itself, and a sentence between such lines, too. Where a line of code with an
arrow below it wraps, the letters are marked, and the arrow goes. A sketch that was typed, ```text, stays whole and
scrolls, unless it is code with a gap to fill. theme/assets/code.css does all that. A short call or subscript, such as
x.stride(0), stays in one line with its arguments. What is long and has no blank breaks behind a bracket that opens,
before the dot behind one that closes, and in a long name after its dots.
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
ROOM = 52  # columns in columns, in the smallest letters, on a screen of 360 px
CUT = 57  # and of 390 px: more than that are seen only by scrolling
CELL = 34  # columns of what goes to the next line whole; what is longer breaks inside
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
ARROW = re.compile(r"\s*(~*\^~*)\s*")
GAP = re.compile(r"(?<=\S) {2,}(?=\S)")
DOT = re.compile(r"(?s)<(pre|code|figure|svg|script|style)\b.*?</\1>|<[^>]*>|(?<=\S) ·(?=\s)")  # or what has none
COUNT = re.compile(r"[-−+]?[\d.,]+(?:e[-+]?\d+)?%?")


def with_wrapping(page: str) -> str:
    """Return HTML in which each block of code is ready to wrap."""
    return BLOCK.sub(_wrapping, page)


def with_dots(page: str) -> str:
    """Return HTML in which no line of text begins with a dot between two things, which stays with the first one.

    >>> with_dots("<p>Lesson 2 · <code>a · b</code></p>")
    '<p>Lesson 2\\xa0· <code>a · b</code></p>'
    """
    return DOT.sub(lambda found: found[0].replace(" ", "\u00a0") if found[0] == " ·" else found[0], page)


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
    arrows = {i: ARROW.fullmatch(text) for i, text in enumerate(texts) if i and len(texts[i - 1]) > FITS}
    rows = {i for i, text in enumerate(texts) if i not in marked and COLUMNS.search(text.strip())}
    table = [texts[i] for i in sorted(rows)]
    spare, shared = set() if marked else _spare(table), _shared(table)
    whole = any(not ARROW.fullmatch(texts[i]) for i in marked & {*range(len(texts))} if BELOW.fullmatch(texts[i]))
    whole = whole or (bool(table) and _headed(table))
    joined, columns, kept = "", FITS, FITS
    for i, text in enumerate(texts):
        without = {at for at in spare if at < len(text)} if i in rows else set()
        line, last = _without(text, without), _last_column(text, without) if i in rows else None
        width = len(text) - len(without)
        if arrows.get(i):
            joined += f'<span class="arrow">{line}\n</span>'
        elif arrow := arrows.get(i + 1):
            columns = max(columns, len(text))
            joined += _long(_pointed_at(text, *arrow.span(1)), _indent(text))
        elif width <= FITS or i in marked or (i in rows and not last and whole):
            columns, kept = max(columns, len(text)), max(kept, width)
            joined += f"{line}\n"
        elif i in rows and not last:
            columns, kept = max(columns, len(text)), max(kept, width if width <= ROOM else 0)
            joined += _row(text, without, shared)
        else:
            joined += _long(line, *(last or [_indent(text)]))
    cut = " cut" if kept > CUT else ""
    return f' class="in-columns{cut}" style="--columns:{columns};--kept:{kept}">{_end(joined)}'


def _pointed_at(text: str, begin: int, end: int) -> str:
    """Return a line as HTML, with what an arrow points at in a span."""
    before, here, behind = (html.escape(part, quote=False) for part in (text[:begin], text[begin:end], text[end:]))
    return f'{before}<span class="here">{here}</span>{behind}'


def _shared(rows: list[str]) -> list[tuple[int, int]]:
    """Return where every row is blank and one has two blanks or more, so that columns are between these places."""
    wide = [gap.span() for row in rows for gap in GAP.finditer(row)]
    runs = [gap.span() for gap in re.finditer("(?<=x) +", _shade(rows))]
    return [run for run in runs if any(begin <= run[0] and run[1] <= end for begin, end in wide)]


def _cells(text: str, shared: list[tuple[int, int]]) -> list[int]:
    """Return where each column of a row begins: behind a gap in no bracket, where the other rows' begins, too."""
    begins = [0]
    for gap in re.finditer(r"(?<=\S) +(?=\S)", text):
        here = text[: gap.start()]
        within = sum(map(here.count, "([{")) > sum(map(here.count, ")]}"))
        within |= len(begins) > 1 and here[-1:].isalpha()  # a word stays with its number
        with_others = [end for begin, end in shared if gap.start() <= begin and end <= gap.end()]
        if not within and (with_others or len(gap[0]) > 1):
            begins.append(with_others[-1] if with_others else gap.end())
    return begins


def _headed(rows: list[str]) -> bool:
    """Return whether the first row names the columns of those below it."""
    first, *others = (re.split(" {2,}", re.sub(r"\[[^]]*\]", "[0]", row.strip())) for row in rows)
    if any(map(COUNT.fullmatch, first[1:])):
        return False
    indents = [len(row) - len(row.lstrip()) for row in rows]
    numbers = any(map(COUNT.fullmatch, itertools.chain.from_iterable(row[1:] for row in others)))
    words = not re.search(r"\d", " ".join(first[1:]))
    indented = indents[0] > max(indents[1:], default=indents[0]) + 3
    return indented or (len(first) > 2 and (numbers or words or len(first) > 4))


def _split(text: str, begins: list[int]) -> list[str]:
    return [text[begin:end] for begin, end in itertools.pairwise([*begins, len(text)])]


def _row(text: str, without: set[int], shared: list[tuple[int, int]]) -> str:
    """Return a long row as HTML: its columns go to the next line whole, and stand below the second one there."""
    begins, shown = _cells(text, shared), ""
    for at, cell in zip(begins, _split(text, begins), strict=True):
        inside = cell.rstrip()
        line = _without(inside, {spare - at for spare in without if spare >= at})
        shown += f"{KEPT}{line}</span>" if at and len(inside) <= CELL else line
        rest = {spare - at - len(inside) for spare in without if spare >= at + len(inside)}
        shown += _without(cell[len(inside) :], rest)
    second = begins[1] if len(begins) > 1 else 0
    early = second - sum(at < second for at in without)
    return _long(shown, early, second) if 0 < early <= EARLY else _long(shown, _indent(text))


def _shade(rows: list[str]) -> str:
    """Return an x for each column in which a row has a letter, and a blank for the others."""
    return "".join("x" if "".join(column).strip() else " " for column in itertools.zip_longest(*rows, fillvalue=" "))


def _spare(rows: list[str]) -> set[int]:
    """Return the columns that are blank in every row, but for one before numbers and two before words."""
    spare = set()
    for gap in re.finditer("(?<=x) +", _shade(rows)):
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
