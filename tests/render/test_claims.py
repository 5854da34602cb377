# SPDX-License-Identifier: Apache-2.0
"""Claims: what an expression can say, and what is said of one that is wrong."""

from types import SimpleNamespace

import pytest

from recorder import claims
from recorder.project import RecorderError
from tests.recorder.conftest import made

H200, CPU = made("h200"), made("cpu")


@pytest.mark.parametrize(
    "text, shown, value",
    [
        ("bandwidth[2**20].triton; .1f", "10.0", 10.0),
        ("bandwidth[2**20].triton / bandwidth[2**20].copy; .0%; >= 0.5", "50%", 0.5),
        ("bandwidth[2**10].n", "1024", 1024),
        ('bandwidth[2**20]["triton"]; .1f', "10.0", 10.0),
        ("square[2, 3].triton; .1f", "7.0", 7.0),
        ("square[2, 3].triton.least == square[2, 3].triton.most", "True", True),  # it was measured once
        ("min([r.copy for r in rows(bandwidth)]); .0f", "10", 10.0),
        ("max([r.copy for r in rows(bandwidth) if r.n < 2**20]); .0f", "10", 10.0),
        ("sum([r.copy for r in rows(bandwidth)])", "30.0", 30.0),
        ("len(rows(bandwidth)); d; == 2", "2", 2),
        ("round(bandwidth[2**10].triton / 3, 2)", "1.67", 1.67),
        ("abs(0 - 3)", "3", 3),
        ("at_least(55.7, 1); .0f", "55", 55),
        ("at_most(0.0463, 0.001); .1%", "4.7%", 0.047),
        ('output["sum"]; ,d; == 1024', "1,024", 1024),
        ('output["ratio"]; .0%', "50%", 0.5),
        ("made.triton", "3.7.1", "3.7.1"),
        ("launches[0].grid[0]; d; == 1", "1", 1),
        ('launches[0]["arguments"]["n"]', "3", 3),
    ],
)
def test_what_a_claim_can_say(text, shown, value):
    assert claims.check(text, H200) == (shown, value)


@pytest.mark.parametrize(
    "text, shown",
    [
        ('compiled(0, "sm_90").registers; d', "8"),
        ('compiled(0, "gfx942").num_warps; d', "4"),
        ('count("ld.global", 0, "sm_90", "ptx"); d; == 1', "1"),
        ('count("nothing", 0, "sm_90", "ptx"); d; == 0', "0"),
        ('compiled(1, "sm_90").error', "CompilationError: <three>"),
        ("launches[0].accesses[0].offsets[3]; d; == 3", "3"),
    ],
)
def test_what_a_claim_can_say_of_compiled_code(text, shown):
    assert claims.check(text, CPU)[0] == shown


@pytest.mark.parametrize(
    "text, named",
    [
        ("bandwith[2**20].triton", ["'bandwith'", "bandwidth"]),
        ("bandwidth[2**21].triton", ["2097152", "1048576"]),
        ("bandwidth[2**20].tritn", ["'tritn'", "triton"]),
        ('output["summ"]', ["'summ'", "sum"]),
        ("made.tritonn", ["'tritonn'", "triton"]),
        ("launches[7].grid", ["launches[7]", "index"]),
        ("median(1)", ["median"]),
        ('pixels("spot")', ["no pixels after 'spot'"]),
        ("1 +", ["'1 +'"]),
        ("1 / 0", ["zero"]),
        ("1 < 'a'", ["'<'"]),
        ("", [""]),
        ("9**9**9", ["9**9**9"]),
        ("1; d; >= 2", ["1 >= 2", "it is 1"]),
        ("1; d; >= 1; 3", ["more than three parts"]),
        ("1; q", ["'q'"]),
        ("1; d; nonsense", ["nonsense"]),
        ("1; d; >= 'a'", [">= 'a'"]),
        ("1; d; / 0", ["/ 0"]),
        ("1; d; > 1 / 0", ["> 1 / 0", "zero"]),
        ("1; d; or True", ["or True"]),
        ("launches[0].gird", ["'gird'", "grid"]),
        ("max([r.tritn for r in rows(bandwidth)])", ["'tritn'", "triton"]),
        ("bandwidth; .0f", [".0f"]),
    ],
)
def test_what_is_said_of_a_wrong_claim(text, named):
    with pytest.raises(RecorderError) as raised:
        claims.check(text, H200)
    assert all(word in str(raised.value) for word in named), str(raised.value)


@pytest.mark.parametrize(
    "text, named",
    [
        ('compiled(0, "sm_91").registers', ["'sm_91'", "sm_90"]),
        ('compiled(5, "sm_90").registers', ["launch 5", "0"]),
        ('compiled(0, "sm_90").register', ["'register'", "registers"]),
        ('count("x", 0, "sm_90", "ptxx")', ["'ptxx'", "ptx"]),
        ('count("x", 1, "sm_90", "ptx")', ["'ptx'"]),
    ],
)
def test_what_is_said_of_a_wrong_claim_on_compiled_code(text, named):
    with pytest.raises(RecorderError) as raised:
        claims.check(text, CPU)
    assert all(word in str(raised.value) for word in named), str(raised.value)


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
        "1; d; == __import__('os').getpid()",
    ],
)
def test_no_way_out_of_an_expression(text):
    with pytest.raises(RecorderError):
        claims.check(text, H200)


def test_numbers_that_were_printed():
    output = "a: 1\n  b = -2.5\nc: 1e-3\nd: 12,345 GB/s\nn = 98,432: 0.0\ne: [1, 2]\nf: 1.2.3x\nno number: here\n"
    output += "v: 3.6.0\nw==2.11.0\n"
    assert claims.printed_numbers(output) == {"a": 1, "b": -2.5, "c": 1e-3, "d": 12345, "n = 98,432": 0.0}
    assert isinstance(claims.printed_numbers("a: 1\n")["a"], int)


def test_one_channel_of_a_pixel():
    printed = {**H200, "output": "patch: 35,22,32 0,23,13\npatch: 1,2,3 4,5,6"}
    assert claims.check('pixels("patch")[1][0][2]; d', printed) == ("3", 3)


def test_medians_are_the_first_of_three():
    rows = claims.medians(H200["benchmarks"][0])
    assert rows[1024] == SimpleNamespace(n=1024, triton=5.0, copy=10.0)
