# SPDX-License-Identifier: Apache-2.0
"""Who compiles, who waits, and for how long, among processes that run one model."""

from pathlib import Path

import pytest
from guards import environment
from recorded import recorded_output

from recorder.printed import sections
from snippets.pytorch import ranks as snippet
from tests.processes import run_python

EVERY = len(snippet.LENGTHS)


def lines(capsys) -> list[str]:
    return [line for line in capsys.readouterr().out.splitlines() if not line.startswith("##")]


def test_a_rank_that_waits_too_long_ends_the_other_too():
    compiling, waiting = sections(recorded_output(snippet))["One rank compiles, the other waits"].splitlines()
    assert compiling == "rank 0: RuntimeError: Connection closed by peer"
    assert waiting == f"rank 1: RuntimeError: Timed out waiting {1000 * snippet.PATIENCE.seconds}ms"


def test_after_a_warm_up_nothing_is_compiled():
    assert sections(recorded_output(snippet))["Both ranks warm up first"].splitlines() == [
        line
        for rank in (0, 1)
        for line in (
            f"rank {rank}, before: {EVERY} compiled, 0 found on disk",
            f"rank {rank}, at work: 0 compiled, 0 found on disk",
        )
    ]


def test_a_copy_of_a_folder_is_enough(tmp_path, capsys):
    snippet.seeded(tmp_path)
    first, *others = lines(capsys)
    assert first == f"rank 0, seed: {EVERY} compiled, 0 found on disk"
    assert others == [f"rank {rank}, copy {rank}: 0 compiled, {EVERY} found on disk" for rank in (0, 1)]
    filled = [{path.name for path in (tmp_path / folder).iterdir()} for folder in ("seed", "copy 0", "copy 1")]
    assert filled[0] == filled[1] == filled[2]


def test_a_file_that_gets_no_name(tmp_path):
    env = environment("gpu", TRITON_CACHE_DIR=str(tmp_path))
    done = run_python(Path(snippet.__file__), "busy", "0", tmp_path, env=env)
    refused, again = done.stdout.splitlines()
    assert refused == "OSError: [Errno 16] Device or resource busy"
    assert again == "the same call again: 1 compiled, 0 found on disk"


@pytest.mark.parametrize(
    "text, told",
    [
        ("[/a/gloo/pair.cc:553] Connection closed by peer [127.0.0.1]:33166. This is", "Connection closed by peer"),
        ("Connection closed by peer [::ffff:10.0.0.1]:1. This is", "Connection closed by peer"),
        ("[/a.cc:7] Timed out waiting 5000ms for send operation to complete", "Timed out waiting 5000ms"),
        ("[Errno 16] Device or resource busy", "[Errno 16] Device or resource busy"),
    ],
)
def test_what_differs_is_left_out(text, told):
    assert snippet.said(RuntimeError(text)) == f"RuntimeError: {told}"


def test_a_rank_that_fails_is_no_result(tmp_path):
    with pytest.raises(SystemExit, match="KeyError"):
        snippet.finish(snippet.start("no such thing", 0, tmp_path, "cache"))
