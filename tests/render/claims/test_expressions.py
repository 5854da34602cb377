# SPDX-License-Identifier: Apache-2.0
"""Claims: what an expression can say, what is said of one that is wrong, and what none can do."""

import msgspec
import pytest

from recorder.project import RecorderError
from recorder.recording import Reading
from render.claims import expressions as claims
from tests.limits import at_most
from tests.toy import made

H200, CPU = made("h200"), made("cpu")


def check(text: str, recording, binds: bool = True):
    return claims.check(claims.read(text), recording, binds)


def refused(text: str, recording, *named: str) -> None:
    with pytest.raises(RecorderError) as raised:
        check(text, recording)
    message = str(raised.value)
    assert all(word in message for word in named), message


@pytest.mark.parametrize(
    ("text", "shown", "value"),
    [
        ("bandwidth[2**20].triton; .1f", "10.0", 10.0),
        ("bandwidth[2**20].triton / bandwidth[2**20].copy; .0%; >= 0.5", "50%", 0.5),
        ("bandwidth[2**10].n", "1024", 1024),
        ('bandwidth[2**20]["triton"]; .1f', "10.0", 10.0),
        ("bandwidth[2**20].copy.least; .1f", "19.0", 19.0),
        ("square[2, 3].triton; .1f", "7.0", 7.0),
        ("square[2, 3].triton.least == square[2, 3].triton.most", "True", True),  # it was measured once
        ("min([r.copy for r in rows(bandwidth)]); .0f", "10", 10.0),
        ("max(r.copy for r in rows(bandwidth) if r.n < 2**20); .0f; < 11", "10", 10.0),
        ("bandwidth[2**20].copy; .0f; above(bandwidth[2**20].copy, bandwidth[2**10].copy)", "20", 20.0),
        ("bandwidth[2**10].copy; .0f; overlap(bandwidth[2**10].copy, bandwidth[2**20].triton)", "10", 10.0),
        ("bandwidth[2**20].copy; .0f; 19 < value < 21 and bandwidth[2**20].triton < value", "20", 20.0),
        ("sum([r.copy for r in rows(bandwidth)])", "30.0", 30.0),
        ("len(rows(bandwidth)); d; == 2", "2", 2),
        ("spread(r.copy for r in rows(bandwidth)); .0%; spread(bandwidth[2**10].n, 512) == value", "100%", 1.0),
        ("len(set([r.n for r in rows(bandwidth)]) - set([2**10]))", "1", 1),
        ("round(bandwidth[2**10].triton / 3, 2)", "1.67", 1.67),
        ("abs(0 - bandwidth[2**10].n)", "1024", 1024),
        ('bandwidth[2**20].triton / promised("copy"); .2%', "0.21%", 10 / 4800),
        ('max([output["s" + "um"]] + [2]); d', "1024", 1024),
        ("at_least(output['sum'] / 100, 1); .0f", "10", 10),
        ("at_most(output['sum'] / 22115, 0.001); .1%", "4.7%", 0.047),
        ("0 - 0.0004 * output['ratio']; .1%", "0.0%", -0.0002),
        ("0 - 0.0004 * output['ratio']; +.2%", "-0.02%", -0.0002),
        ('output["sum"]; ,d; == 1024', "1,024", 1024),
        ('output["ratio"]; .0%', "50%", 0.5),
        ("made.triton", "3.7.1", "3.7.1"),
        ('verdict("a row")', "<b>right", "<b>right"),
        ('verdict("a row", "ran")', "<b>right", "<b>right"),
        ('pixels("patch")[0][1][2]; d', "6", 6),
    ],
)
def test_what_a_claim_can_say(text, shown, value):
    assert check(text, H200) == (shown, value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("launches['toy_kernel'][0].grid[0]; d; == 1", "1"),
        ('launches["toy_kernel"][0]["arguments"]["n"]', "3"),
        ("launches['toy_kernel'][0].accesses[0].offsets[3]; d; == 3", "3"),
        ('compiled("toy_kernel[0]", "sm_90").registers; d', "8"),
        ('compiled("toy_kernel[0]", "sm_90").spills; d', "0"),
        ('compiled("toy_kernel[0]", "gfx942").num_warps; d', "4"),
        ('count("ld.global", "toy_kernel[0]", "sm_90", "ptx"); d; == 1', "1"),
        ('count("nothing", "toy_kernel[0]", "sm_90", "ptx"); d; == 0', "0"),
        ('compiled("toy_kernel[1]", "sm_90").error', "CompilationError: <three>"),
    ],
)
def test_what_a_claim_can_say_of_launches_and_compiled_code(text, shown):
    assert check(text, CPU)[0] == shown


def test_a_line_whose_key_is_no_name():
    rows = [Reading([2, 3], {"2**20": [4.0]})]
    table = msgspec.structs.replace(H200.benchmark("square"), lines={"2**20": "large"}, rows=rows)
    assert check('square[2, 3]["2**20"]', msgspec.structs.replace(H200, benchmarks=[table]))[1] == 4.0


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("bandwith[2**20].triton", ["'bandwith'", "bandwidth"]),
        ("bandwidth[2**21].triton", ["2097152", "1048576"]),
        ("bandwidth[2**20].tritn", ["'tritn'", "triton"]),
        ('output["summ"]', ["'summ'", "sum"]),
        ("made.tritonn", ["'tritonn'", "triton"]),
        ("launches['toy_kernel'][7].grid", ["was counted, not kept", "keeps none"]),
        ("median(1)", ["median"]),
        ('pixels("spot")', ["no pixels after 'spot'", "patch"]),
        ('verdict("a rough")', ["no row 'a rough'", "a row"]),
        ('verdict("a row", "rann")', ["'rann'", "ran"]),
        ("1 +", ["'1 +'"]),
        ("1 / 0", ["zero"]),
        ("1 < 'a'", ["'<'"]),
        ("", [""]),
        ("2 - 1; d; >= 2", ["2 - 1 >= 2", "it is 1"]),
        ("2 - 1; d; >= 1; 3", ["more than three parts"]),
        ("2 - 1; q", ["'q'"]),
        ("2 - 1; d; nonsense", ["nonsense"]),
        ("2 - 1; d; >= 'a'", [">= 'a'"]),
        ("2 - 1; d; / 0", ["/ 0"]),
        ("2 - 1; d; > 1 / 0", ["> 1 / 0", "zero"]),
        ("2 - 1; d; > [1][5]", ["> [1][5]"]),
        ("2 - 1; d; or True", ["or True"]),
        ("2 - 1; d; > 0\nFalse", ["> 0"]),
        ("max([r.tritn for r in rows(bandwidth)])", ["'tritn'", "triton"]),
        ("rows(1)", ["rows(1)"]),
        ("1\n2", ["1\\n2"]),
        ("made = 3", ["made = 3"]),
        ('bandwidth[2**20].triton / promised("copies")', ["no 'copies' of 'H200'", "copy"]),
    ],
)
def test_what_is_said_of_a_wrong_claim(text, named):
    refused(text, H200, *named)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('compiled("toy_kernel[0]", "sm_91").registers', ["'sm_91'", "sm_90"]),
        ('compiled("toy_kernel[5]", "sm_90").registers', ["launch toy_kernel[5]", "0"]),
        ('compiled("toy_kernel[0]", "sm_90").register', ["'register'", "registers"]),
        ('count("x", "toy_kernel[0]", "sm_90", "ptxx")', ["'ptxx'", "ptx"]),
        ('count("x", "toy_kernel[0]", "sm_90", "llir")', ["compared, not kept"]),
        ('count("x", "toy_kernel[1]", "sm_90", "ptx")', ["'ptx'"]),
        ("launches['toy_kernel'][0].gird", ["'gird'", "grid"]),
        ("launches['toy_kernel'][7].grid", ["no launch toy_kernel[7]", "5 times"]),
        ("launches['toy_kernel'][4].grid", ["launch toy_kernel[4] was counted, not kept"]),
        ('launches["toy_kernal"][0].grid', ["no launch toy_kernal[0]", "launched toy_kernel"]),
        ('launches["toy_kernel"].grid', ["launches['toy_kernel'][0]", "'grid' is none"]),
        ("launches[0].grid", ["0 names no launch", "toy_kernel[0], toy_kernel[1]"]),
        ('compiled(0, "sm_90").registers', ["0 names no launch", "toy_kernel[0], toy_kernel[1]"]),
    ],
)
def test_what_is_said_of_a_wrong_claim_on_launches_and_compiled_code(text, named):
    refused(text, CPU, *named)


TYPED = """
    1042 | "fast" | 2 * 521 | -(-1042) | promised("copy") / 1000 | sum([1000, 42]) | abs(0 - 1042) | round(1042.3)
    at_least(1042.7, 1) | len("four") | len([1, 2, 3]) | len(set([1, 2])) | {"a": 1042}["a"] | (1042, 1)[0] | 1042 or 1
    0 * N + 1042 | N - N + 5 | N / N * 1042 | N ** 0 * 1042 | N // N + 1041 | N % 1 + 1042 | (R + 5) - R
    1042 + R * 1e-12; .0f | (N, 1042)[1] | [N, 1042][-1] | N and 1042 | 0 * N or 1042
    max(1042, 0 * N) | min(N * 1e9, 1042) | 1042 * (N > 0) | 1042 + (N < 0) | {N: 1042}[N] | [0, 1042][N > 0]
    [1042 for r in rows(bandwidth)][0] | max([1042 for r in rows(bandwidth) if r.copy > 0]) | [x for x in [1042]][0]
    len(rows(bandwidth)) - len(rows(bandwidth)) + 5 | bandwidth[2**10].n - bandwidth[2**10].n + 5
    len(set([N, N])) + 1041
    len(rows(bandwidth)) ** 0 + 4 | round(N * 1e-9) + 1042
    "fast" | ["slow", "fast"][1] | "fa" + "st" | 3 > 2 | len(made.triton) * 0 + 9
""".replace("N", 'output["sum"]').replace("R", 'output["ratio"]')


@pytest.mark.parametrize("text", [form.strip() for line in TYPED.strip().splitlines() for form in line.split(" | ")])
def test_a_value_that_no_recording_changes_is_refused(text):
    refused(text, H200, "is typed by hand")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('"yes"; ; verdict("a row") != "wrong"', "yes"),
        ('"more"; ; output["sum"] > 1000', "more"),
        ("sum([r.copy > 15 for r in rows(bandwidth)])", "1"),
        ("len([r for r in rows(bandwidth) if r.n > 2**10])", "1"),
        ("min(3e9, output['sum']); .0f; output['sum'] > 0", "1024"),
        ("(1042, output['sum'])[1]", "1024"),
        ("made.triton[0]", "3"),
        ("1042 - output['sum']", "18"),
        ("output['sum'] % 1000 // 8", "3"),
        ("1 - sum([r.copy > 15 for r in rows(bandwidth)]) / len(rows(bandwidth)); .0%", "50%"),
    ],
)
def test_and_one_that_it_changes_is_shown(text, shown):
    assert check(text, H200)[0] == shown


THINGS = ["bandwidth", "bandwidth; .0f", "rows(bandwidth)", "output", "made", "made.keys", "rows", "None", "[1]", "1j"]


@pytest.mark.parametrize("text", THINGS)
def test_what_a_sentence_shows_is_a_number_or_a_word(text):
    """Else it would show, for one, where a method lies in memory: in each build another place."""
    refused(text, H200, "no number and no word")


@pytest.mark.parametrize("text", ["1e999", "-1e999", "1e999 - 1e999", "1e308 * 10"])
def test_and_a_number_is_finite(text):
    refused(f"{text}; .0f", H200, "no number")


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').getcwd()",
        "open('/etc/passwd').read()",
        "eval('1')",
        "min.__self__",
        "made.__class__",
        "().__class__.__base__",
        "rows.__globals__",
        "(lambda: 1)()",
        "bandwidth[2**20].__dict__",
        "'{0.__class__}'.format(1)",
        "f\"{1:{'}{0.__class__'}}\"",
        "f'{made}'",
        "1; d; == __import__('os').getpid()",
    ],
)
def test_no_way_out_of_an_expression(text):
    refused(text, H200)


@pytest.mark.parametrize(
    "text",
    [
        "made.update(triton='4')",
        "[made.update(triton='4'), made.triton][1]",
        "made.pop('triton')",
        "output.clear()",
        "rows(bandwidth).clear()",
        "launches.clear()",
        "launches['toy_kernel'][0].arguments.update(n=4)",
        "dict(a=made.clear())",
    ],
)
def test_a_claim_changes_no_recording(text):
    for recording in (H200, CPU):
        before = msgspec.json.encode(recording)
        refused(text, recording)
        assert msgspec.json.encode(recording) == before
    assert check("made.triton", H200)[0] == "3.7.1" and check('output["sum"]', H200)[0] == "1024"


def test_each_process_by_itself():
    (table, *_) = H200.benchmarks
    rows = [msgspec.structs.replace(row, process=n) for n in (0, 1) for row in table.rows]
    twice = msgspec.structs.replace(H200, benchmarks=[msgspec.structs.replace(table, rows=rows)])
    text = 'min([p[2**10].copy / p[2**10].triton for p in processes("bandwidth")])'
    assert check(text, twice)[1] == check("bandwidth[2**10].copy / bandwidth[2**10].triton", H200)[1]
    assert check('len(processes("bandwidth"))', twice)[1] == 2


def test_what_a_claim_works_with_are_copies():
    for recording in (H200, CPU):
        given = claims.names(recording, "output bandwidth launches")
        for launch in [each for kernel in given["launches"].values() for each in kernel.values()]:
            launch["arguments"].clear(), launch.clear()
        for part in given.values():
            assert isinstance(part, str) or part.clear() is None  # a text cannot be changed
        claims.functions(recording)["pixels"]("patch").clear()
    claims.functions(CPU)["compiled"]("toy_kernel[0]", "sm_90").clear()
    assert check('output["sum"]', H200)[1] == 1024 and check("bandwidth[2**10].n", H200)[1] == 1024
    assert check("launches['toy_kernel'][0].arguments.n", CPU)[1] == 3 and check("made.triton", CPU)[1] == "3.7.1"
    assert check('compiled("toy_kernel[0]", "sm_90").registers', CPU)[1] == 8


ENDLESS = {
    "power": "10**10**10",
    "powers": "9**9**9",
    "power of a fraction": "0.5 ** 10**9",
    "rounding": "round(10**300, -10**8)",
    "width": "launches['toy_kernel'][0].arguments.M; >999999999",
    "zeros": "launches['toy_kernel'][0].arguments.M; 0999999999d",
    "decimals": "launches['toy_kernel'][0].arguments.M; .999999999f",
    "product": "10**200 * 10**200",
    "shift": "1 << 10**9",
    "squares": "[y * y for y in " * 28 + "[10**300]" + "]" * 28,
    "text": "'a' * 10**9",
    "list": "[0] * 10**9",
    "joined texts": f"{'a' * 60_000!r} + {'a' * 60_000!r}",
    "sum of digits": f"{'9' * 4_300} + {'9' * 4_300}",
    "list of lists": "sum([[1, 2], [3, 4]], [])",
    "printf": "'%999999999d' % 1",
    "decimals by printf": "'%.999999999f' % 1.5",
    "f-string": "f'{1:999999999}'",
    "comprehension": f"[1 for a in {[0] * 200} for b in {[0] * 200}]",
    "comprehensions": f"[[[[a for a in {[0] * 30}] for b in {[0] * 30}] for c in {[0] * 30}] for d in {[0] * 30}]",
    "the same again": f"[launches for a in {[0] * 9000}]",
    "overflow": "at_least(10**300, 1e-300)",
    "parentheses": "(" * 20_000 + "1" + ")" * 20_000,
    "signs": "-" * 100_000 + "1",
    "terms": "+".join(["1"] * 50_000),
    "digits": "1" * 5_000,
    "digits times digits": f"{'1' * 4_000} * {'1' * 4_000}",
    "in a condition": "launches['toy_kernel'][0].arguments.M; d; < 10**10**10",
    "deep in a condition": "launches['toy_kernel'][0].arguments.M; d; < " + "-" * 100_000 + "1",
}


@pytest.mark.speed
@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS)
def test_no_claim_keeps_a_build_waiting(text, monkeypatch):
    """None would end for minutes, or take less than gigabytes. What is said of it is no longer than a paragraph."""
    monkeypatch.setattr(claims, "SECONDS", 0.1)
    large = msgspec.structs.replace(
        CPU, launches={f"toy_kernel[{n}]": CPU.launches["toy_kernel[2]"] for n in range(50)}
    )
    with at_most(10), pytest.raises(RecorderError) as raised:
        check(text, large)
    assert 10 < len(str(raised.value)) < 1500


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("N if N > 0 else 0; d; > 0", ["behind the format", "output['sum']; FORMAT; output['sum'] > 0"]),
        ("sum([1 if r.copy > 15 else 0 for r in rows(bandwidth)])", ["behind the format", "r.copy > 15"]),
        ("N; d; N > 2000", ["relies on output['sum'] > 2000", "it is 1024"]),
        ("N; d; overlap(bandwidth[2**10].copy, bandwidth[2**20].copy)", ["relies on overlap"]),
        ("N; d; > 0 and N", ["is no condition such as"]),
        ("N; d; 1 < 2", ["true whatever was recorded"]),
        ("N; d; value == value", ["true whatever was recorded"]),
        ('"more"; ; 1 < 2', ["true whatever was recorded"]),
        ("1042; d; N > 0", ["typed by hand"]),
        ("N; d; above(N, 1)", ["least"]),
    ],
)
def test_a_condition_is_about_anything_recorded_and_hides_in_no_value(text, named):
    refused(text.replace("N", "output['sum']"), H200, *named)


def test_where_a_condition_does_not_bind_the_number_is_shown():
    """It makes a build fail on the GPU that a page was written for; elsewhere a reader is told."""
    claim = "bandwidth[2**20].triton; .1f; above(bandwidth[2**10].triton, bandwidth[2**20].triton)"
    refused(claim, H200, "relies on")
    assert check(claim, H200, binds=False) == ("10.0 (not so on this GPU)", 10.0)
