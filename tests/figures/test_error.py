# SPDX-License-Identifier: Apache-2.0
"""Show the compiler's message unchanged, without the marks of sections."""

import pytest
from msgspec.structs import replace

from figures.error import error
from recorder.project import RecorderError
from recorder.recording import Code
from tests.toy import compiled, made


def test_an_error_without_the_marks_of_sections():
    refused = replace(compiled()[1], targets={"sm_90": Code(error="at 2:\n    # --8<-- [start:x]\n    y = <z>\n")})
    page = error(replace(made("cpu"), compiled=[refused]))
    assert "<code>at 2:\n    y = &lt;z&gt;</code>" in page and "--8" not in page


def test_there_is_none_where_a_launch_compiles():
    with pytest.raises(RecorderError, match="the launch compiles for sm_90: there is no error"):
        error(made("cpu"), launch="toy_kernel[0]")
